"""What is trained: cells, their configurations, and the order in which they are worth their time."""

import dataclasses
import json

BATCH = 8
MODEL = {"layers": 2, "width": 64, "heads": 2, "vocabulary": 256, "sequence": 64}
INNER_RATE = 3e-3
DEFAULT_WIRE = "e3m0 int8"
EVALUATIONS = 10
EVALUATED = 128  # Sequences of held-out text.

MOMENTA = ("own", "shared")
CODECS = ("fp32", "bf16", "fp8", "int8", "int4", "e3m0")
PUBLISHED = "share own"
FULL = "1 own"

# Rows of the table of methods: label, method, look-ahead, rates to choose from.
METHODS = (
    ("data-parallel", "data-parallel", "", (1.5e-3, 3e-3, 6e-3)),
    ("diloco", "diloco", "", (0.2, 0.4, 0.7)),
    ("streaming", "streaming", "", (0.2, 0.4, 0.7)),
    ("delayed", "delayed", "", (0.05, 0.1, 0.2, 0.4)),
    ("eager, as published (lambda: share)", "eager", PUBLISHED, (0.2, 0.4, 0.7)),
    ("eager, lambda: 1", "eager", FULL, (0.2, 0.4, 0.7)),
    ("blend", "blend", "", (0.2, 0.4, 0.7)),
)
# What the question of look-ahead turns on.
FIRST_METHODS = ("diloco", "delayed", "eager, as published (lambda: share)", "eager, lambda: 1")


def row(label):
    return next(entry for entry in METHODS if entry[0] == label)


@dataclasses.dataclass(frozen=True)
class Grid:
    """How much of it is trained."""

    steps: int = 900  # Of each worker, whatever H is: all methods see the same tokens.
    inner_steps: int = 30
    swept_inner_steps: tuple = (10, 30, 90)
    seeds: tuple = (1, 2, 3)
    lambdas: tuple = ("share", "0.5", "0.75", "1", "1.25", "1.5")
    every_rate: bool = True  # Of those in METHODS; else the second of each row.
    settings: tuple = ((2, True), (4, False))  # (workers, the same text for all of them)
    other_settings: tuple = ((8, False), (8, True), (4, True), (2, False))  # Where only look-ahead is swept.


FULL_GRID = Grid()
# Minutes: whether everything works, not which method is better.
QUICK_GRID = Grid(60, 10, (5, 10, 20), (1, 2), ("share", "1"), every_rate=False, other_settings=())


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
    wire: str = DEFAULT_WIRE  # "UPLINK DOWNLINK [KEY=VALUE ...]".
    steps: int = FULL_GRID.steps

    @property
    def name(self):
        parts = [f"m{self.workers}", "iid" if self.iid else "apart", self.method, *self.lookahead.split()]
        parts += [f"h{self.inner_steps}", f"r{self.rate:g}", f"s{self.seed}"]
        if self.wire != DEFAULT_WIRE:
            parts.append(self.wire.replace(" ", "-").replace("=", "-"))
        if self.steps != FULL_GRID.steps:
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


class Plan:
    """Which cells there are to train, given what came out of those that are done."""

    def __init__(self, grid, results):
        self.grid = grid
        self.results = results

    def rate_cells(self, entry, workers, iid):
        _, method, lookahead, rates = entry
        h = 1 if method == "data-parallel" else self.grid.inner_steps
        tried = rates if self.grid.every_rate else rates[1:2]
        wire = "bf16 bf16" if method == "data-parallel" else DEFAULT_WIRE
        return [
            Cell(method, workers, iid, lookahead=lookahead, rate=rate, inner_steps=h, wire=wire, steps=self.grid.steps)
            for rate in tried
        ]

    def chosen(self, entry, workers, iid):
        """The row's cell with the first seed at its best rate, as found in the setting with the same kind of text; None
        until its rates have all been tried there."""
        setting = next(setting for setting in self.grid.settings if setting[1] == iid)
        cells = self.rate_cells(entry, *setting)
        losses = [self.results.loss(cell) for cell in cells]
        if None in losses:
            return None
        return dataclasses.replace(cells[losses.index(min(losses))], workers=workers)

    def variants(self, entry, workers, iid, **choices):
        """The chosen cell of a row with one field replaced by each of its values; none until it is known."""
        best = self.chosen(entry, workers, iid)
        ((field, values),) = choices.items()
        return [dataclasses.replace(best, **{field: value}) for value in values] if best else []

    def lambda_cells(self, workers, iid):
        lookaheads = [f"{weight} {momentum}" for momentum in MOMENTA for weight in self.grid.lambdas]
        return self.variants(row("eager, lambda: 1"), workers, iid, lookahead=lookaheads)

    def inner_step_cells(self, entry):
        return self.variants(entry, *self.grid.settings[0], inner_steps=self.grid.swept_inner_steps)

    def codec_cells(self):
        wires = [f"{codec} {'fp32' if codec == 'fp32' else 'int8'}" for codec in CODECS]
        wires += ["e3m0 e3m0", "e3m0 int8 error_feedback=uplink", "e3m0 int8 rounding=stochastic"]
        return self.variants(row("eager, lambda: 1"), *self.grid.settings[0], wire=wires)

    def seeds_of(self, cell):
        return [dataclasses.replace(cell, seed=seed) for seed in self.grid.seeds]

    def best_two(self, cells):
        done = [cell for cell in cells if self.results.loss(cell) is not None]
        return sorted(done, key=self.results.loss)[:2] if len(done) == len(cells) else []

    def method_cells(self, entries, workers, iid):
        cells = []
        for entry in entries:
            cells += self.rate_cells(entry, workers, iid)
        for entry in entries:
            cells += self.variants(entry, workers, iid, seed=self.grid.seeds)
        return cells

    def cells(self):
        """All cells that can be named now, the most telling first, each once."""
        first = [row(label) for label in FIRST_METHODS]
        others = [entry for entry in METHODS if entry not in first]
        cells = []
        for workers, iid in self.grid.settings:
            for label in ("diloco", "eager, lambda: 1"):
                cells += self.rate_cells(row(label), workers, iid)
            cells += self.lambda_cells(workers, iid)
            cells += self.method_cells(first, workers, iid)
            for best in self.best_two(self.lambda_cells(workers, iid)):
                cells += self.seeds_of(best)
        for workers, iid in self.grid.settings:
            cells += self.method_cells(others, workers, iid)
        for entry in first:
            cells += self.inner_step_cells(entry)
        cells += self.codec_cells()
        for workers, iid in self.grid.other_settings:
            cells += self.variants(row("diloco"), workers, iid, seed=self.grid.seeds[:1])
            cells += self.lambda_cells(workers, iid)
        for workers, iid in self.grid.other_settings:
            cells += self.variants(row("diloco"), workers, iid, seed=self.grid.seeds)
            for best in self.best_two(self.lambda_cells(workers, iid)):
                cells += self.seeds_of(best)
        return list(dict.fromkeys(cells))
