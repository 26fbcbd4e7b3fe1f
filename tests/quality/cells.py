"""What is trained: cells, their configurations, and the order in which they are worth their time."""

import dataclasses
import json

# Inner steps of each worker, whatever H is: all methods see the same tokens.
STEPS = 900
BATCH = 8
MODEL = {"layers": 2, "width": 64, "heads": 2, "vocabulary": 256, "sequence": 64}
EVALUATIONS = 10
EVALUATED = 128  # Sequences of held-out text.

SEEDS = (1, 2, 3)
LAMBDAS = ("share", "0.5", "0.75", "1", "1.25", "1.5")
MOMENTA = ("own", "shared")
INNER_STEPS = (10, 30, 90)
# (workers, the same text for all of them)
SETTINGS = ((2, True), (4, False))
# Where only look-ahead is swept.
OTHER_SETTINGS = ((8, False), (8, True), (4, True), (2, False))
CODECS = ("fp32", "bf16", "fp8", "int8", "int4", "e3m0")
INNER_RATE = 3e-3


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of the train simulator."""

    method: str
    workers: int = 2
    iid: bool = True
    seed: int = 1
    inner_steps: int = 30
    rate: float = 0.4  # Outer; of `data-parallel` its only one.
    lookahead: str = ""  # `eager`: "LAMBDA MOMENTUM".
    wire: str = "e3m0 int8"  # "UPLINK DOWNLINK [KEY=VALUE ...]".
    steps: int = STEPS

    @property
    def name(self):
        parts = [f"m{self.workers}", "iid" if self.iid else "apart", self.method, *self.lookahead.split()]
        parts += [f"h{self.inner_steps}", f"r{self.rate:g}", f"s{self.seed}"]
        if self.wire != "e3m0 int8":
            parts.append(self.wire.replace(" ", "-").replace("=", "-"))
        if self.steps != STEPS:
            parts.append(f"steps{self.steps}")
        return "_".join(parts)

    @property
    def cost(self):
        """In inner steps of one worker."""
        return self.steps * self.workers

    @property
    def worker_names(self):
        return [f"w{m}" for m in range(self.workers)]

    def config(self):
        """The run's configuration; JSON is YAML too."""
        h = self.inner_steps
        uplink, downlink, *more = self.wire.split()
        config = {
            "run": {"id": "quality", "workers": self.workers, "rounds": self.steps // h, "seed": self.seed},
            "method": self.method,
            "model": MODEL,
            "inner": {"rate": INNER_RATE, "warmup_steps": self.steps // 18, "batch_size": BATCH},
            "wire": {"uplink": uplink, "downlink": downlink} | dict(pair.split("=") for pair in more),
            "eval": {"every": max(1, self.steps // h // EVALUATIONS), "sequences": EVALUATED},
        }
        if self.method == "data-parallel":
            config["inner"]["rate"] = self.rate
        else:
            config["inner_steps"] = h
            config["outer"] = {"rate": self.rate}
        if self.lookahead:
            weight, momentum = self.lookahead.split()
            config["lookahead"] = {"lambda": weight if weight == "share" else float(weight), "momentum": momentum}
        return json.dumps(config, indent=1)


PUBLISHED = "share own"
FULL = "1 own"

# Rows of the table of methods: label, method, look-ahead, rates to choose from.
METHODS = (
    ("data-parallel", "data-parallel", "", (1.5e-3, 3e-3, 6e-3)),
    ("diloco", "diloco", "", (0.2, 0.4, 0.7)),
    ("streaming", "streaming", "", (0.2, 0.4, 0.7)),
    ("delayed", "delayed", "", (0.1, 0.2, 0.4)),
    ("eager, as published (lambda: share)", "eager", PUBLISHED, (0.2, 0.4, 0.7)),
    ("eager, lambda: 1", "eager", FULL, (0.2, 0.4, 0.7)),
    ("blend", "blend", "", (0.2, 0.4, 0.7)),
)
# What the question of look-ahead turns on.
FIRST_METHODS = ("diloco", "delayed", "eager, as published (lambda: share)", "eager, lambda: 1")


def row(label):
    return next(entry for entry in METHODS if entry[0] == label)


def rate_cells(entry, workers, iid):
    _, method, lookahead, rates = entry
    h = 1 if method == "data-parallel" else 30
    return [Cell(method, workers, iid, lookahead=lookahead, rate=rate, inner_steps=h) for rate in rates]


def chosen(entry, workers, iid, results):
    """The row's cell with seed 1 at its best rate, as found in the setting of SETTINGS with the same kind of text; None
    until its rates have all been tried there."""
    setting = next(setting for setting in SETTINGS if setting[1] == iid)
    cells = rate_cells(entry, *setting)
    losses = [results.loss(cell) for cell in cells]
    if None in losses:
        return None
    return dataclasses.replace(cells[losses.index(min(losses))], workers=workers)


def variants(entry, workers, iid, results, **choices):
    """The chosen cell of a row with one field replaced by each of its values; none until it is known."""
    best = chosen(entry, workers, iid, results)
    ((field, values),) = choices.items()
    return [dataclasses.replace(best, **{field: value}) for value in values] if best else []


def lambda_cells(workers, iid, results):
    lookaheads = [f"{weight} {momentum}" for momentum in MOMENTA for weight in LAMBDAS]
    return variants(row("eager, lambda: 1"), workers, iid, results, lookahead=lookaheads)


def codec_cells(results):
    wires = [f"{codec} {'fp32' if codec == 'fp32' else 'int8'}" for codec in CODECS]
    wires += ["e3m0 e3m0", "e3m0 int8 error_feedback=uplink", "e3m0 int8 rounding=stochastic"]
    return variants(row("eager, lambda: 1"), 2, True, results, wire=wires)


def seeds_of(cell):
    return [dataclasses.replace(cell, seed=seed) for seed in SEEDS]


def best_two(cells, results):
    done = [cell for cell in cells if results.loss(cell) is not None]
    return sorted(done, key=results.loss)[:2] if len(done) == len(cells) else []


def plan(results):
    """All cells that can be named now, the most telling first, each once."""
    cells = []
    first = [row(label) for label in FIRST_METHODS]
    others = [entry for entry in METHODS if entry not in first]

    def methods(entries, workers, iid):
        for entry in entries:
            cells.extend(rate_cells(entry, workers, iid))
        for entry in entries:
            cells.extend(variants(entry, workers, iid, results, seed=SEEDS))

    for workers, iid in SETTINGS:
        for label in ("diloco", "eager, lambda: 1"):
            cells.extend(rate_cells(row(label), workers, iid))
        cells.extend(lambda_cells(workers, iid, results))
        methods(first, workers, iid)
    for workers, iid in SETTINGS:
        methods(others, workers, iid)
    for entry in first:
        cells.extend(variants(entry, 2, True, results, inner_steps=INNER_STEPS))
    cells.extend(codec_cells(results))
    for workers, iid in SETTINGS:
        for best in best_two(lambda_cells(workers, iid, results), results):
            cells.extend(seeds_of(best))
    for workers, iid in OTHER_SETTINGS:
        cells.extend(variants(row("diloco"), workers, iid, results, seed=SEEDS[:1]))
        cells.extend(lambda_cells(workers, iid, results))
    return list(dict.fromkeys(cells))


def quick_plan(results):
    """Minutes: whether everything works, not which method is better."""
    cells = [Cell(method, steps=60, inner_steps=10) for method in ("diloco", "delayed", "streaming")]
    cells += [Cell("eager", steps=60, inner_steps=10, lookahead=lookahead) for lookahead in (PUBLISHED, FULL)]
    return cells
