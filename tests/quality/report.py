"""RESULTS.md and its plots, from the cells that are done."""

import math

import cells as quality
import svg

ABOUT = """# Quality: every method at equal tokens

Written by `tests/quality/run.sh` from the cells in `results/`, one JSON file each. A dash is a cell that was not run
yet; run the script again and it goes on there.

A byte-level transformer ({layers} layers, width {width}, {heads} heads, sequences of {sequence}) learns the King James
Bible as `bible-kjv` prints it, 4.2 MB; the last 5 % are held out for all. Every worker takes {steps} inner steps of
{batch} sequences, {tokens} tokens, less than the text has in all settings together; AdamW at {inner_rate:g}, warm-up
and cosine. `same text`: all workers sample from the whole text, in orders of their own. `text apart`: it is cut into
as many parts, one after the other, as there are workers. Codecs are the defaults, e3m0 up and int8 down (`data-parallel`: bf16), H is {h} and
everything else the default but where a table says so.

A loss is the held-out loss of the last consensus, nats a byte, the same {evaluated} bytes for all. Where there are
several seeds (initial parameters and data order) it is their mean, and ± half the distance between the largest
and the smallest. Cells are trained by `diloco-worker simulate`, whose consensus is the service's bit for bit.
"""


def setting(workers, iid):
    return f"M = {workers}, {'same text' if iid else 'text apart'}"


def number(value):
    return "-" if value is None else "diverged" if math.isinf(value) else f"{value:.3f}"


def over_seeds(plan, found):
    """Mean, half the range and count of the losses over seeds that are done; None without any."""
    losses = [plan.results.loss(cell) for cell in plan.seeds_of(found)] if found else []
    losses = [loss for loss in losses if loss is not None]
    if not losses:
        return None
    return sum(losses) / len(losses), (max(losses) - min(losses)) / 2, len(losses)


def with_spread(plan, found):
    summary = over_seeds(plan, found)
    if summary is None:
        return "-"
    mean, spread, count = summary
    return number(mean) + (f" ± {spread:.3f}" if count > 1 else "")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows]) + "\n"


def distance(plan, found):
    """Between replicas, after the first third of the versions and at the end."""
    result = plan.results.get(found) if found else None
    if result is None:
        return "-"
    curve = result["curve"]
    return " -> ".join(f"{100 * line['replica_distance']:.2f} %" for line in (curve[len(curve) // 3 - 1], curve[-1]))


def methods_section(plan):
    out = ["## Methods", ""]
    for workers, iid in plan.grid.settings:
        rows = []
        diloco = over_seeds(plan, plan.chosen(quality.row("diloco"), workers, iid))
        for entry in quality.METHODS:
            best = plan.chosen(entry, workers, iid)
            mine = over_seeds(plan, best)
            gap = f"{mine[0] - diloco[0]:+.3f}" if mine and diloco else "-"
            tried = [f"{cell.rate:g}: {number(plan.results.loss(cell))}" for cell in plan.rate_cells(entry, workers, iid)]
            rate = f"{best.rate:g}" if best else "-"
            seeds = str(mine[2]) if mine else "-"
            rows.append(
                [entry[0], with_spread(plan, best), gap, seeds, rate, ", ".join(tried), distance(plan, best)]
            )
        out += [f"### {setting(workers, iid)}", ""]
        head = ["method", "loss", "to diloco", "seeds", "rate", "rates tried, seed 1", "replicas apart"]
        out += [table(head, rows), f"![Loss against tokens]({plot_name('tokens', workers, iid)})", ""]
    out += [
        "The rate is the outer one, of `data-parallel` the only one; each method is shown at the best of those tried.",
        "Replicas apart: the largest distance of a worker's parameters from the mean of all workers', relative to that",
        "mean, after a third of the run and at its end, seed 1.",
        "",
    ]
    return out


def first_and_all(plan, found):
    """The loss of the first seed, which all cells of a sweep have, and over all of them in brackets."""
    if found is None or plan.results.loss(found) is None:
        return "-"
    summary = with_spread(plan, found)
    return number(plan.results.loss(found)) + (f" ({summary})" if "±" in summary else "")


def lambda_section(plan):
    note = "Seed 1, which all have; in brackets over all three seeds, where they were run."
    out = ["## Look-ahead: lambda and momentum (`eager`)", "", note, ""]
    for workers, iid in (*plan.grid.settings, *plan.grid.other_settings):
        found = {cell.lookahead: cell for cell in plan.lambda_cells(workers, iid)}
        rows = []
        for momentum in quality.MOMENTA:
            values = [first_and_all(plan, found.get(f"{weight} {momentum}")) for weight in plan.grid.lambdas]
            rows.append([f"momentum {momentum}", *values])
        diloco = first_and_all(plan, plan.chosen(quality.row("diloco"), workers, iid))
        rate = f"{next(iter(found.values())).rate:g}" if found else "-"
        out += [f"### {setting(workers, iid)}", "", f"Outer rate {rate}; blocking `diloco`: {diloco}.", ""]
        head = [f"share, 1/{workers}" if weight == "share" else weight for weight in plan.grid.lambdas]
        out += [table(["lambda", *head], rows)]
    return out


def inner_steps_section(plan):
    rows = []
    for entry in quality.METHODS:
        cells = plan.inner_step_cells(entry)
        if entry[0] in quality.FIRST_METHODS:
            values = [number(plan.results.loss(cell)) for cell in cells] or ["-"] * len(plan.grid.swept_inner_steps)
            rows.append([entry[0], *values])
    head = ["H", *(str(h) for h in plan.grid.swept_inner_steps)]
    note = f"{setting(*plan.grid.settings[0])}, seed 1, each at its rate from the table of methods (found at H = {plan.grid.inner_steps})."
    return ["## Inner steps", "", note, "", table(head, rows), "![Loss against H](loss_against_h.svg)", ""]


def codec_section(plan):
    cells = plan.codec_cells()
    exact = plan.results.loss(cells[0]) if cells else None
    rows = []
    for cell in cells:
        loss = plan.results.loss(cell)
        gap = "-" if loss is None or exact is None else f"{loss - exact:+.3f}"
        uplink, downlink, *more = cell.wire.split()
        rows.append([uplink, downlink, ", ".join(more) or "", number(loss), gap])
    spread = over_seeds(plan, plan.chosen(quality.row("eager, lambda: 1"), *plan.grid.settings[0]))
    note = f"`eager`, lambda 1, {setting(*plan.grid.settings[0])}, seed 1."
    if spread and spread[2] > 1:
        note += f" The seeds' spread of the default is ± {spread[1]:.3f}."
    return ["## Codecs", "", note, "", table(["up", "down", "", "loss", "to fp32"], rows)]


def workers_section(plan):
    rows = []
    for workers, iid in sorted((*plan.grid.settings, *plan.grid.other_settings), key=lambda key: (not key[1], key[0])):
        found = plan.lambda_cells(workers, iid)
        done = [cell for cell in found if plan.results.loss(cell) is not None]
        best = min(done, key=plan.results.loss) if done else None
        named = [cell for look in (quality.PUBLISHED, quality.FULL) for cell in found if cell.lookahead == look]
        diloco = plan.chosen(quality.row("diloco"), workers, iid)
        losses = [number(plan.results.loss(cell)) if cell else "-" for cell in (diloco, *(named or (None, None)))]
        complete = f"{best.lookahead}: {number(plan.results.loss(best))}" if best else "-"
        if best and len(done) < len(found):
            complete += f" (of {len(done)} tried)"
        rows.append([setting(workers, iid), *losses, complete])
    head = ["", "diloco", "eager as published", "eager, lambda 1", "best look-ahead"]
    note = f"Seed 1, {plan.grid.steps} inner steps each, so more workers train on more tokens."
    return ["## Workers", "", note, "", table(head, rows)]


def plot_name(kind, workers, iid):
    return f"loss_against_{kind}_m{workers}_{'iid' if iid else 'apart'}.svg"


def mean_curve(plan, found):
    """(tokens, loss) over the seeds that are done, from where the loss is worth looking at."""
    done = [plan.results.get(cell) for cell in plan.seeds_of(found)] if found else []
    curves = [result["curve"] for result in done if result and all(line["loss"] for line in result["curve"])]
    points = [(lines[0]["tokens"], sum(line["loss"] for line in lines) / len(lines)) for lines in zip(*curves)]
    return points[len(points) // 5 :]


def write_plots(folder, plan):
    for workers, iid in plan.grid.settings:
        series = [
            (entry[0], mean_curve(plan, plan.chosen(entry, workers, iid))) for entry in quality.METHODS
        ]
        chart = svg.chart(f"Held-out loss, {setting(workers, iid)}", "tokens", "nats a byte", series)
        (folder / plot_name("tokens", workers, iid)).write_text(chart)
    series = []
    for entry in quality.METHODS:
        cells = plan.inner_step_cells(entry)
        points = [(cell.inner_steps, plan.results.loss(cell)) for cell in cells if plan.results.loss(cell) is not None]
        if entry[0] in quality.FIRST_METHODS:
            series.append((entry[0], [point for point in points if math.isfinite(point[1])]))
    chart = svg.chart(f"Held-out loss, {setting(*plan.grid.settings[0])}", "inner steps H", "nats a byte", series, x_log=True)
    (folder / "loss_against_h.svg").write_text(chart)


def write(folder, plan):
    planned = plan.cells()
    done = [cell for cell in planned if plan.results.get(cell)]
    seconds = sum(plan.results.get(cell)["seconds"] for cell in done)
    model = quality.MODEL
    about = ABOUT.format(
        **model,
        steps=plan.grid.steps,
        h=plan.grid.inner_steps,
        batch=quality.BATCH,
        tokens=plan.grid.steps * quality.BATCH * model["sequence"],
        inner_rate=quality.INNER_RATE,
        evaluated=quality.EVALUATED * model["sequence"],
    )
    state = [
        f"{len(done)} of the {len(planned)} cells that can be named so far are done, {seconds / 60:.0f} CPU minutes in",
        "all. `tests/quality/run.sh --budget-minutes N` trains on, the most telling first.",
        "",
    ]
    sections = (methods_section, lambda_section, inner_steps_section, codec_section, workers_section)
    # What a reader makes of the tables, by hand.
    findings = folder / "findings.md"
    text = [about, *state, *([findings.read_text()] if findings.exists() else [])]
    for section in sections:
        text += section(plan)
    (folder / "RESULTS.md").write_text("\n".join(text).rstrip() + "\n")
    write_plots(folder, plan)
