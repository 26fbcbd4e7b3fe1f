// Every worker: whether it is alive, whether it takes part, and how it is doing.

import {byId, setText, table} from "./dom.js";
import {bytesText, countText, durationText, int, lossText, percentText, seconds, stateText,
        utilization} from "./format.js";

// A shape for the eye; the word beside it says the same.
const kMarks = {
  WORKER_STATE_ALIVE: "●",
  WORKER_STATE_DRAINING: "◐",
  WORKER_STATE_SUSPENDED: "◌",
  WORKER_STATE_LOST: "✕",
  WORKER_STATE_EVICTED: "✕",
  WORKER_STATE_LEFT: "○",
};
const kLost = "WORKER_STATE_LOST";

// Its part in the oldest open round.
function partText(worker, part, fragments) {
  if (!worker.participating) return "no";
  if (!part) return "yes";
  const count = fragments > 1 ? ` ${part.present}/${fragments}` : "";
  if (part.awaited > 0) return `awaited${count}`;
  return part.present > 0 ? "present" : "has nothing";
}

function cellsOf(worker, coordinatorVersion, part, fragments) {
  const notes = [worker.evaluator ? "evaluates" : "",
                 worker.software_version !== coordinatorVersion ? worker.software_version : ""].filter((note) => note);
  const state = `${kMarks[worker.state] ?? "○"} ${stateText(worker.state, "WORKER_STATE_")}`;
  const first = [
    notes.length > 0 ? `${worker.worker_id} (${notes.join(", ")})` : worker.worker_id,
    {text: state, className: worker.state === kLost ? "strong" : ""},
    `${durationText(seconds(worker.last_heard))} ago`,
    partText(worker, part, fragments)];
  const {progress} = worker;
  if (!progress) return [...first, ...Array(9).fill("–")];
  return [...first, countText(int(progress.step)), progress.round, progress.staleness, lossText(progress.loss),
          countText(progress.tokens_per_second ?? 0), percentText(utilization(progress)),
          durationText(progress.blocked_seconds), bytesText(int(progress.uploaded_bytes)),
          bytesText(int(progress.downloaded_bytes))];
}

export class WorkersView {
  constructor() {
    this.table = table(byId("workers"), "Workers", [
      {title: "Worker"}, {title: "State", note: "Alive: heard from within its lease"}, {title: "Heard", align: "right"},
      {title: "Open round", className: "after",
       note: "Whether the oldest open round holds its contribution or waits for it"},
      {title: "Step", align: "right"}, {title: "Round", align: "right"},
      {title: "Staleness", align: "right", note: "Rounds between its own and the averages in its parameters"},
      {title: "Loss", align: "right", note: "Training loss, nats a token"}, {title: "Tokens/s", align: "right"},
      {title: "Utilization", align: "right"},
      {title: "Blocked", align: "right", note: "Waiting for the network or the coordinator"},
      {title: "Up", align: "right"}, {title: "Down", align: "right"}]);
  }

  // `who`: what whoIsIn gives.
  update(workers, status, who) {
    const sorted = [...workers].sort((a, b) => a.worker_id.localeCompare(b.worker_id, "en", {numeric: true}));
    this.table(sorted.map((worker) => ({
      key: worker.worker_id,
      className: worker.state === "WORKER_STATE_LEFT" || worker.state === "WORKER_STATE_EVICTED" ? "gone" : "",
      cells: cellsOf(worker, status.software_version, who.workers.get(worker.worker_id), who.fragments),
    })));
    const states = new Map();
    for (const {state} of workers) states.set(state, (states.get(state) ?? 0) + 1);
    setText(byId("workers-note"),
      [...states].map(([state, count]) => `${count} ${stateText(state, "WORKER_STATE_")}`).join(", "));
  }
}
