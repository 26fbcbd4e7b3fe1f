// Two charts as SVG, drawn to the size that they have: the losses, and how long each round took.

import {svg} from "./dom.js";
import {durationText, lossText} from "./format.js";

const kMargin = {top: 10, right: 84, bottom: 24, left: 40};
const kPaceHeight = 36;
const kNarrowest = 240;
const kWidestBar = 14;
const kLabelled = 4;  // Workers that get a label each; more of them share one.

// Round numbers from low to high, about `count` of them, `smallest` apart at least.
export function ticks(low, high, count, smallest = 0) {
  const rough = Math.max((high - low) / count, smallest, 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(smallest, [1, 2, 5, 10].find((factor) => factor * power >= rough) * power);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) out.push(i * step);
  return out;
}

function tickText(value, step) {
  return value.toFixed(Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))));
}

function path(points, x, y) {
  return points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
}

// Moves labels apart so that none covers another: from the top down, then from `lowest` up.
function spread(labels, height, lowest) {
  labels.sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; ++i) labels[i].y = Math.max(labels[i].y, labels[i - 1].y + height);
  let below = lowest + height;
  for (let i = labels.length - 1; i >= 0; --i) below = labels[i].y = Math.min(labels[i].y, below - height);
  return labels;
}

function nearest(points, x) {
  return points.reduce((best, point) => (best && Math.abs(best[0] - x) <= Math.abs(point[0] - x) ? best : point), null);
}

export class LossChart {
  // `readout`: an element for the values under the pointer, or the newest ones.
  constructor(parent, readout) {
    this.parent = parent;
    this.readout = readout;
    this.curves = {heldOut: [], workers: []};
    this.pointer = null;  // Round under the pointer; null: none.
    new ResizeObserver(() => this.draw()).observe(parent);
    parent.addEventListener("pointermove", (event) => this.point(event));
    parent.addEventListener("pointerleave", () => this.point(null));
  }

  // curves: {heldOut: [[round, loss], ...], workers: [{name, points: [[round, loss], ...]}, ...]}, by ascending round.
  show(curves) {
    this.curves = curves;
    this.draw();
  }

  draw() {
    const {heldOut, workers} = this.curves;
    const all = [...heldOut, ...workers.flatMap((worker) => worker.points)];
    if (all.length === 0) {
      this.parent.replaceChildren("No loss has been reported yet.");
      this.readout.textContent = "";
      return;
    }
    const width = Math.max(kNarrowest, this.parent.clientWidth);
    const height = this.parent.clientHeight;
    const losses = all.map(([, loss]) => loss);
    const highest = Math.max(...losses);
    const lowest = Math.min(...losses);
    const room = (highest - lowest || Math.abs(highest) || 1) * 0.06;
    const last = Math.max(1, ...all.map(([round]) => round));
    const right = width - kMargin.right;
    const bottom = height - kMargin.bottom;
    this.x = (round) => kMargin.left + (round / last) * (right - kMargin.left);
    this.round = (x) => ((x - kMargin.left) / (right - kMargin.left)) * last;
    this.last = last;
    this.y = (loss) => bottom - ((loss - lowest + room) / (highest - lowest + 2 * room)) * (bottom - kMargin.top);
    this.guide = svg("line", {class: "guide", y1: kMargin.top, y2: bottom, visibility: "hidden"});
    this.parent.replaceChildren(svg("svg",
      {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.summary()},
      this.axes(ticks(lowest - room, highest + room, 6), ticks(0, last, width / 90, 1), right, bottom),
      ...workers.filter((worker) => worker.points.length > 0)
        .map((worker) => svg("path", {class: "curve", d: path(worker.points, this.x, this.y)})),
      svg("path", {class: "curve held-out", d: path(heldOut, this.x, this.y)}),
      ...(heldOut.length <= 64 ? heldOut : []).map(([round, loss]) =>
        svg("circle", {class: "held-out", cx: this.x(round), cy: this.y(loss), r: 2.5})),
      ...this.labels(right, bottom), this.guide));
    this.read();
  }

  axes(losses, rounds, right, bottom) {
    const group = svg("g", {class: "axes"});
    for (const loss of losses) {
      const y = this.y(loss);
      group.append(svg("line", {x1: kMargin.left, x2: right, y1: y, y2: y}),
        svg("text", {x: kMargin.left - 8, y: y + 4, "text-anchor": "end"}, tickText(loss, losses[1] - losses[0] || 1)));
    }
    for (const round of rounds) {
      group.append(svg("text", {x: this.x(round), y: bottom + 18, "text-anchor": "middle"}, String(round)));
    }
    return group;
  }

  labels(right, bottom) {
    const {heldOut, workers} = this.curves;
    const drawn = workers.filter((worker) => worker.points.length > 0);
    const labels = [];
    const add = (text, points, className) =>
      labels.push({text: text.length > 11 ? `${text.slice(0, 10)}…` : text, y: this.y(points.at(-1)[1]), className});
    if (heldOut.length > 0) add("held-out", heldOut, "held-out");
    if (drawn.length <= kLabelled) {
      for (const worker of drawn) add(worker.name, worker.points, "");
    } else {
      const byLoss = [...drawn].sort((a, b) => a.points.at(-1)[1] - b.points.at(-1)[1]);
      add(`${drawn.length} workers`, byLoss[byLoss.length >> 1].points, "");
    }
    return spread(labels, 14, bottom).map(({text, y, className}) =>
      svg("text", {class: `label ${className}`, x: right + 8, y: y + 4}, text));
  }

  summary() {
    const {heldOut} = this.curves;
    if (heldOut.length === 0) return "Training loss of each worker, by round.";
    const [first, last] = [heldOut[0], heldOut.at(-1)];
    return `Training loss of each worker and held-out loss, by round. Held-out loss ${lossText(first[1])} at version ` +
      `${first[0]}, ${lossText(last[1])} at version ${last[0]}.`;
  }

  point(event) {
    if (!this.round) return;
    const at = event && this.round(event.clientX - this.parent.getBoundingClientRect().left);
    this.pointer = event && at >= 0 && at <= this.last ? at : null;
    this.read();
  }

  read() {
    const {heldOut, workers} = this.curves;
    const at = this.pointer ?? this.last;
    this.guide.setAttribute("visibility", this.pointer === null ? "hidden" : "visible");
    for (const side of ["x1", "x2"]) this.guide.setAttribute(side, this.x(at));
    const parts = [];
    const held = nearest(heldOut, at);
    if (held) parts.push(`held-out ${lossText(held[1])} at version ${held[0]}`);
    const near = workers.map((worker) => [worker.name, nearest(worker.points, at)]).filter(([, point]) => point);
    if (near.length > kLabelled) {
      const losses = near.map(([, point]) => point[1]);
      const range = `${lossText(Math.min(...losses))} to ${lossText(Math.max(...losses))}`;
      parts.push(`training ${range} over ${near.length} workers`);
    } else {
      parts.push(...near.map(([name, point]) => `${name} ${lossText(point[1])}`));
    }
    this.readout.textContent = `Round ${at.toFixed(1)}: ${parts.join(", ")}`;
  }
}

// Bars for the seconds from each commit to the next, oldest first: [{round, took}, ...].
export function drawPace(parent, rounds) {
  if (rounds.length < 2) {
    parent.replaceChildren();
    return;
  }
  const width = Math.max(kNarrowest, parent.clientWidth);
  const longest = Math.max(...rounds.map(({took}) => took));
  const step = Math.min(kWidestBar, width / rounds.length);
  parent.replaceChildren(svg("svg",
    {width, height: kPaceHeight, viewBox: `0 0 ${width} ${kPaceHeight}`, role: "img",
     "aria-label": `Seconds of each of the last ${rounds.length} rounds, ${durationText(longest)} at most.`},
    ...rounds.map(({round, took}, i) => {
      const height = Math.max(1, (took / longest) * (kPaceHeight - 2));
      return svg("rect", {class: "bar", x: i * step + 1, width: Math.max(1, step - 2), y: kPaceHeight - height, height},
        svg("title", {}, `round ${round}: ${durationText(took)}`));
    })));
}
