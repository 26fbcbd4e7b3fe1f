// The run at a glance, what it moved, and what it is.

import {byId, el, facts, setClass, setText} from "./dom.js";
import {bytesText, capital, countText, durationText, int, lossText, median, percentText, plural, seconds, stateText,
        utilization} from "./format.js";

const kTraining = "RUN_STATE_TRAINING";
// States that last until somebody does something.
const kCalling = ["RUN_STATE_HOLDING", "RUN_STATE_PAUSED"];
// Rounds whose pace says when the run will end.
const kPaceRounds = 16;

// Seconds from each commit to the next: [{round, took}, ...], oldest first.
export function paceOf(commits) {
  return commits.slice(1).map((commit, i) => ({
    round: commit.round,
    took: Math.max(0, commits[i].seconds_ago - commit.seconds_ago) / Math.max(1, commit.round - commits[i].round),
  }));
}

function stateOf(status) {
  return capital(stateText(status.state, "RUN_STATE_"));
}

// Why people are needed; "": they are not.
function attention(status) {
  if (kCalling.includes(status.state)) return stateOf(status);
  if (status.state === kTraining && status.workers_alive < status.quorum) {
    const verb = status.workers_alive === 1 ? "is" : "are";
    return `Stalled: ${plural(status.workers_alive, "worker")} ${verb} alive and a round needs ${status.quorum}`;
  }
  return "";
}

function isAlive(worker) {
  return worker.state === "WORKER_STATE_ALIVE" || worker.state === "WORKER_STATE_DRAINING";
}

// When the run will have committed all its rounds, as text; "": not known.
function etaText(status, pace, sinceCommit) {
  const each = median(pace.slice(-kPaceRounds).map(({took}) => took));
  if (status.state !== kTraining || attention(status) || each === null) return "";
  const left = each * (int(status.rounds_total) - int(status.rounds_committed)) - Math.min(sinceCommit, each);
  return `, about ${durationText(left)} to go`;
}

// What workers moved, and what float32 gradients, sent and received as a sum at every step, would have.
function bytesOf(status, workers) {
  let moved = 0;
  let steps = 0;
  for (const {progress} of workers) {
    if (!progress) continue;
    moved += int(progress.uploaded_bytes) + int(progress.downloaded_bytes);
    steps += int(progress.session_steps);
  }
  return {moved, everyStep: int(status.parameters) * 4 * 2 * steps};
}

export class RunView {
  constructor() {
    this.facts = facts(byId("facts"));
    this.about = facts(byId("about"));
    this.bars = ["This run", "Float32 gradients at every step"].map((title) => {
      const text = el("span");
      const bar = el("span", "bar");
      byId("bytes").append(el("div", "", el("dt", "", title), el("dd", "", text, bar)));
      return {text, bar};
    });
  }

  // `pace`: what paceOf gives; `sinceCommit`: seconds since the newest commit.
  update(status, workers, pace, sinceCommit) {
    const called = attention(status);
    setText(byId("run-id"), status.run_id);
    setText(byId("state"), called || stateOf(status));
    setText(byId("reason"), capital(status.reason));
    setClass(byId("sentence"), called ? "sentence attention" : "sentence");
    const committed = int(status.rounds_committed);
    const total = int(status.rounds_total);
    byId("progress").max = Math.max(1, total);
    byId("progress").value = committed;
    setText(byId("rounds"), `${countText(committed)} of ${countText(total)} rounds committed`);
    setText(byId("eta"), etaText(status, pace, sinceCommit));
    const call = called ? `${called.split(":")[0].toUpperCase()} ` : "";
    document.title = `${call}${committed}/${total} ${status.run_id} – diloco`;
    const bytes = bytesOf(status, workers);
    this.showFacts(status, workers, bytes);
    this.showBytes(bytes);
    this.showAbout(status);
  }

  showFacts(status, workers, bytes) {
    const alive = workers.filter(isAlive);
    const reporting = alive.filter(({progress}) => progress);
    const used = reporting.map((worker) => [utilization(worker.progress), worker.worker_id])
      .filter(([share]) => share !== null).sort(([a], [b]) => a - b);
    const mean = used.length ? used.reduce((sum, [share]) => sum + share, 0) / used.length : null;
    const newest = status.evaluations[0];
    const first = status.evaluations.at(-1);
    const before = first === newest ? "" : `, ${lossText(first.loss)} at ${first.version}`;
    const lowest = used.length > 0 ? `lowest ${percentText(used[0][0])}, ${used[0][1]}` : "no report yet";
    this.facts([
      ["Held-out loss", newest ? lossText(newest.loss) : "–",
       newest ? `version ${newest.version}${before}` : "not evaluated yet"],
      ["Workers alive", `${status.workers_alive} of ${status.workers_expected}`,
       `${status.workers_participating} participating, quorum ${status.quorum}`],
      ["Throughput", countText(reporting.reduce((sum, {progress}) => sum + (progress.tokens_per_second ?? 0), 0)),
       "tokens/s, workers alive"],
      ["Utilization", percentText(mean), lowest],
      ["Bytes moved", bytesText(bytes.moved),
       bytes.moved > 0 ? `${countText(bytes.everyStep / bytes.moved)} times less than float32` : "nothing yet"],
    ]);
  }

  showBytes({moved, everyStep}) {
    const largest = Math.max(moved, everyStep, 1);
    [moved, everyStep].forEach((bytes, i) => {
      setText(this.bars[i].text, bytesText(bytes));
      this.bars[i].bar.style.width = `${100 * bytes / largest}%`;
    });
    setText(byId("saved"), moved > 0 && everyStep > 0
      ? `${countText(everyStep / moved)} times as much, over the steps of the workers' sessions.` : "");
  }

  showAbout(status) {
    const snapshot = int(status.snapshot_version);
    this.about([
      ["Method", status.method],
      ["Model", int(status.parameters) === 0 ? "not known yet"
        : `${countText(int(status.parameters))} parameters in ${plural(status.fragments, "fragment")}`],
      ["Snapshot", snapshot < 0 ? "none yet" : `version ${snapshot}`],
      ["Checkpoint",
       status.checkpoint_path ? `version ${status.checkpoint_version}, ${status.checkpoint_path}` : "none yet"],
      ["Payload",
       `${bytesText(int(status.received_bytes))} received, ${bytesText(int(status.sent_bytes))} sent by this process`],
      ["Coordinator", `${status.software_version}, up ${durationText(seconds(status.uptime))}`],
    ]);
  }
}
