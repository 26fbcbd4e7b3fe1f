// Wires the parts together: each answer goes into every view, and the age of what is shown is always said.

import {LossChart, drawPace} from "./curves.js";
import {byId, setClass, setText} from "./dom.js";
import {durationText, int, isNumber, median} from "./format.js";
import {Poll} from "./poll.js";
import {RoundsView, whoIsIn} from "./rounds.js";
import {RunView, paceOf} from "./run.js";
import {WorkersView} from "./workers.js";

const kTick = 1000;  // Milliseconds.
// Answers are older than this only when one did not come.
const kFresh = 5000;

const run = new RunView();
const rounds = new RoundsView();
const workers = new WorkersView();
const loss = new LossChart(byId("loss"), byId("loss-readout"));

// The history thins out what is old; the status has the newest evaluations, also those from before a restart.
function heldOutOf(status, history) {
  const byVersion = new Map(history.held_out);
  for (const {version, loss} of status.evaluations) if (isNumber(loss)) byVersion.set(int(version), loss);
  return [...byVersion].sort(([a], [b]) => a - b);
}

function show(overview, history) {
  const {status} = overview;
  const who = whoIsIn(overview.open_round);
  const pace = paceOf(history.commits);
  const historyAge = (performance.now() - poll.historyAt) / 1000;
  const sinceCommit = history.commits.length > 0 ? history.commits.at(-1).seconds_ago + historyAge : 0;
  byId("main").hidden = false;
  run.update(status, overview.workers.workers, pace, sinceCommit);
  rounds.update(overview.rounds.rounds, overview.open_round);
  workers.update(overview.workers.workers, status, who);
  loss.show({
    heldOut: heldOutOf(status, history),
    workers: history.workers.map(({worker_id, points}) =>
      ({name: worker_id, points: points.map(([step, value]) => [step / history.inner_steps, value])})),
  });
  drawPace(byId("pace-chart"), pace);
  const each = median(pace.map(({took}) => took));
  setText(byId("pace"), each === null ? "" : `${durationText(each)} each, as a median`);
}

// How old the data are, and whether the coordinator answers.
function showConnection() {
  const now = performance.now();
  const age = poll.answered === null ? null : now - poll.answered;
  const late = poll.failures > 0 || (age !== null && age > kFresh);
  const shown = age === null ? "Nothing is known of the run yet." : `What you see is ${durationText(age / 1000)} old.`;
  const next = poll.next === null ? "Asking now." : `Asking again in ${durationText((poll.next - now) / 1000)}.`;
  byId("connection").hidden = poll.failures === 0;
  setText(byId("connection-reason"), poll.failures > 0 ? `The coordinator does not answer: ${poll.reason}.` : "");
  setText(byId("connection-age"), `${shown} ${next}`);
  const known = late ? `not live, ${durationText(age / 1000)} old` : "live";
  setText(byId("live"), age === null ? "asking the coordinator" : known);
  setClass(byId("live"), late ? "live attention" : "live");
  setClass(document.body, poll.failures > 0 ? "old" : "");
}

const poll = new Poll(show, showConnection);
setInterval(() => document.hidden || showConnection(), kTick);
