// Open rounds, the oldest in full, and those that closed.

import {byId, el, keyed, setClass, setText, table} from "./dom.js";
import {capital, durationText, plural, seconds, stateText} from "./format.js";

const kCommitted = "ROUND_STATE_COMMITTED";

function roundState(state) {
  return stateText(state, "ROUND_STATE_");
}

// Of the oldest open round, by worker: {present, awaited, abstained}, each a number of fragments; and `fragments`.
export function whoIsIn(openRound) {
  const workers = new Map();
  for (const fragment of openRound?.fragments ?? []) {
    for (const part of ["present", "awaited", "abstained"]) {
      for (const name of fragment[part]) {
        if (!workers.has(name)) workers.set(name, {present: 0, awaited: 0, abstained: 0});
        ++workers.get(name)[part];
      }
    }
  }
  return {workers, fragments: openRound?.fragments.length ?? 0};
}

// [[title, [name, ...]], ...]: who is awaited, present, or has nothing.
function groups({workers, fragments}) {
  const named = [...workers].sort(([a], [b]) => a.localeCompare(b, "en", {numeric: true}));
  const some = fragments > 1 ? (part) => ` ${part.present}/${fragments}` : () => "";
  const awaited = named.filter(([, part]) => part.awaited > 0);
  const present = named.filter(([, part]) => part.awaited === 0 && part.present > 0);
  const nothing = named.filter(([, part]) => part.awaited === 0 && part.present === 0);
  return [["Awaited", awaited.map(([name, part]) => name + some(part))],
          ["Present", present.map(([name]) => name)],
          ["Nothing from", nothing.map(([name]) => name)]].filter(([, names]) => names.length > 0);
}

function createOpen() {
  return el("article", "open", el("h3"), el("p", "count"), el("p", "reason"), el("dl", "who"));
}

export class RoundsView {
  constructor() {
    this.recent = table(byId("recent-rounds"), "Recent rounds, newest first", [
      {title: "Round"}, {title: "Workers", align: "right"}, {title: "Open for", align: "right"},
      {title: "Merged", align: "right", note: "Contributions, over all fragments"},
      {title: "Late", align: "right", note: "Of the merged ones, those of earlier rounds"},
      {title: "Dropped", align: "right"}, {title: "Why it closed", className: "wide after"}]);
  }

  update(rounds, openRound) {
    const open = rounds.filter((round) => round.state !== kCommitted).reverse();
    const place = byId("open-rounds");
    if (open.length === 0) {
      place.replaceChildren(el("p", "empty", "No round is open."));
    } else {
      place.querySelector(".empty")?.remove();
      const who = whoIsIn(openRound);
      keyed(place, open, (round) => round.round, createOpen, (node, round) =>
        this.updateOpen(node, round, round.round === openRound?.summary.round ? groups(who) : []));
    }
    this.recent(rounds.filter((round) => round.state === kCommitted).map((round) => ({
      key: round.round,
      cells: [round.round, `${round.workers_present} of ${round.quorum}`, durationText(seconds(round.elapsed)),
              String(round.merged), String(round.merged_late), String(round.dropped), round.reason],
    })));
  }

  updateOpen(node, round, who) {
    const [title, count, reason, list] = node.children;
    setText(title, `Round ${round.round}, ${roundState(round.state)}`);
    const fragments =
      round.fragments_total > 1 ? `, ${round.fragments_committed} of ${round.fragments_total} fragments committed` : "";
    setText(count, `${round.workers_present} of ${plural(round.quorum, "worker")} present${fragments}, open for ` +
      durationText(seconds(round.elapsed)));
    setText(reason, capital(round.reason));
    setClass(node, who.length > 0 ? "open oldest" : "open");
    keyed(list, who, ([group]) => group, ([group]) => el("div", "", el("dt"), el("dd")), (entry, [group, names]) => {
      setText(entry.firstElementChild, `${group} (${names.length})`);
      keyed(entry.lastElementChild, names, (name) => name, (name) => el("span", "name", name), () => {});
    });
  }
}
