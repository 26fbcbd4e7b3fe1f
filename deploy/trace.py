#!/usr/bin/env python3
"""Looks at traces that diloco-coordinator and diloco-worker wrote with --trace, without a browser.

  deploy/trace.py merge coordinator.json east.json west.json > all.json   # one file for ui.perfetto.dev
  deploy/trace.py svg east.json --from 3 --to 6 > east.svg                # a picture of three seconds

Traces of one host share a clock. Those of several are laid side by side by their hosts' wall clocks, so that a
difference between these shifts the picture. A trace whose process was killed is read up to its last whole line.
"""

import argparse
import json
import sys
from html import escape

COLOURS = ("#4c9be8", "#e8854c", "#5cb85c", "#b07cc6", "#d4b13f", "#4db6ac")  # By round.
WAIT_COLOUR = "#d9534f"
WIDTH, LEFT, RIGHT = 1000, 150, 28
ROW, GAP, TOP = 20, 3, 34
SMALLEST = 0.4  # Pixels: what is narrower is not drawn.
LETTER = 6.5  # Pixels of a letter in a label.


def read(path):
    """The events of a trace; of one that is not whole, those up to its last line end."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        events = json.loads(text)
    except ValueError:
        body = text[: text.rfind("\n") + 1].rstrip().rstrip(",")
        try:
            events = json.loads(body + "]")
        except ValueError as error:
            raise SystemExit(f"trace.py: {path}: not a trace of ours: {error}") from None
    whole = isinstance(events, list) and all(isinstance(event, dict) and "name" in event for event in events)
    if not whole or not any(event["name"] == "trace_start" for event in events):
        raise SystemExit(f"trace.py: {path}: not a trace of ours: it has no trace_start")
    return events


def merge(traces):
    """All events on the first one's clock."""
    starts = [next(event for event in events if event["name"] == "trace_start") for events in traces]
    first = starts[0]
    merged = []
    for events, start in zip(traces, starts):
        shift = 0.0
        if start["args"]["boot"] != first["args"]["boot"]:
            shift = (start["args"]["unix_us"] - start["ts"]) - (first["args"]["unix_us"] - first["ts"])
        for event in events:
            if "ts" in event and shift:
                event = {**event, "ts": event["ts"] + shift}
            merged.append(event)
    return merged


def slices(events):
    """(row's name, slice's name, begin, end, args), of one process, in microseconds."""
    tracks, begun, found = {}, {}, []
    for event in events:
        if event["name"] == "thread_name":
            tracks[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            found.append((tracks[event["tid"]], event["name"], event["ts"], event["ts"] + event["dur"], event["args"]))
        elif event["ph"] == "b":
            begun[event["id2"]["local"]] = event
        elif event["ph"] == "e" and event["id2"]["local"] in begun:
            begin = begun.pop(event["id2"]["local"])
            found.append((begin["name"], begin["name"], begin["ts"], event["ts"], begin["args"]))
    return found, sorted(tracks.values(), key=lambda track: track != "training")  # It is what the others are seen beside.


def outermost(found):
    """The slices of a track, without those within another, such as the steps in `compute`."""
    row = []
    for item in sorted(found, key=lambda item: (item[2], -item[3])):
        if not row or row[-1][3] <= item[2]:
            row.append(item)
    return [row] if row else []


def spread(found):
    """Rows of slices that may overlap."""
    rows = []
    for item in sorted(found, key=lambda item: item[2]):
        row = next((row for row in rows if row[-1][3] <= item[2]), None)
        if row is None:
            rows.append([item])
        else:
            row.append(item)
    return rows


def colour(name, args):
    if name == "wait":
        return WAIT_COLOUR
    return COLOURS[args["round"] % len(COLOURS)] if args.get("round", -1) >= 0 else "#aaaaaa"


def label(name, args, width):
    for text in ([f"{name} {args['round']}", str(args["round"])] if "round" in args else [name]):
        if (len(text) + 1) * LETTER < width:
            return text
    return ""


def draw(traces, since, until):
    """`since`, `until`: seconds from the beginning of the earliest trace."""
    processes = {}
    for event in merge(traces):
        processes.setdefault(event["pid"], []).append(event)
    origin = min(event["ts"] for events in processes.values() for event in events if event["name"] == "trace_start")
    every = {pid: slices(events) for pid, events in processes.items()}
    last = max((item[3] for found, _ in every.values() for item in found), default=origin)
    low = origin + since * 1e6
    high = last if until is None else origin + until * 1e6
    if high <= low:
        raise SystemExit("trace.py: --from and --to leave nothing to draw")
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    out, y = [], TOP
    for pid, (found, tracks) in every.items():
        name = next(event["args"]["name"] for event in processes[pid] if event["name"] == "process_name")
        out.append(f'<text x="8" y="{y + 14}" font-weight="bold">{escape(name)}</text>')
        y += ROW + GAP
        shown = [item for item in found if item[3] > low and item[2] < high]
        own = dict.fromkeys(item[0] for item in shown if item[0] not in tracks)
        for track in [*tracks, *own]:
            lay_out = outermost if track in tracks else spread
            for index, row in enumerate(lay_out([item for item in shown if item[0] == track])):
                if index == 0:
                    out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(track)}</text>')
                for _, what, begin, end, args in row:
                    x = LEFT + (max(begin, low) - low) * scale
                    width = (min(end, high) - max(begin, low)) * scale
                    if width < SMALLEST:
                        continue
                    title = f"{what} {json.dumps(args)}, {(end - begin) / 1e3:.3f} ms"
                    out.append(
                        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" fill="{colour(what, args)}">'
                        f"<title>{escape(title)}</title></rect>"
                    )
                    if text := label(what, args, width):
                        out.append(f'<text x="{x + 3:.1f}" y="{y + 13}" font-size="11">{escape(text)}</text>')
                y += ROW
        y += GAP
    axis = []
    for tick in range(11):
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick / 10
        at = since + (high - low) * tick / 1e7
        axis.append(f'<path d="M{x:.1f} {TOP - 6}V{y}" stroke="#eee"/>')
        axis.append(f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" fill="#555">{at:.2f} s</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    )
    return "\n".join([head, *axis, *out, "</svg>"]) + "\n"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    joined = commands.add_parser("merge", help="print one trace of all, as JSON")
    drawn = commands.add_parser("svg", help="print a picture; a colour is a round, red is a wait")
    drawn.add_argument("--from", dest="since", type=float, default=0, help="seconds from the first trace's beginning")
    drawn.add_argument("--to", dest="until", type=float, help="likewise; default: the end")
    for command in (joined, drawn):
        command.add_argument("files", nargs="+")
    flags = parser.parse_args(arguments)
    traces = [read(path) for path in flags.files]
    if flags.command == "merge":
        json.dump(merge(traces), sys.stdout)
    else:
        sys.stdout.write(draw(traces, flags.since, flags.until))


if __name__ == "__main__":
    main(sys.argv[1:])
