#!/usr/bin/env python3
"""Trains every method through `diloco-worker simulate` and writes what came out: see --help, and RESULTS.md."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

import cells as quality
import report

HERE = pathlib.Path(__file__).resolve().parent
# Memory of one inner step is kept for the next: a sixth of the time of a model this small.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(2 << 30)}
# A cell that takes this many times what it should, and a minute, has got stuck.
DEADLINE_FACTOR = 20


class Results:
    """One JSON file a cell; a file that another version of its cell left is no result."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.known = {}

    def get(self, cell):
        if cell not in self.known:
            self.known[cell] = self._read(cell)
        return self.known[cell]

    def _read(self, cell):
        try:
            result = json.loads((self.folder / f"{cell.name}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return result if result["config"] == json.loads(cell.config()) else None

    def put(self, cell, result):
        path = self.folder / f"{cell.name}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, separators=(",", ":")) + "\n")
        os.replace(temporary, path)
        self.known[cell] = result

    def loss(self, cell):
        """Held-out loss of the last consensus; None: not there. A run that diverged is worse than all others."""
        result = self.get(cell)
        if result is None:
            return None
        loss = result["curve"][-1]["loss"]
        return float("inf") if loss is None else loss

    def seconds_per_step(self):
        """CPU seconds of one worker's inner step, of all cells done; a guess before the first."""
        done = [(result["seconds"], cell.cost) for cell, result in self.known.items() if result]
        return sum(seconds for seconds, _ in done) / sum(cost for _, cost in done) if done else 0.02


def data_of(cell, text):
    """By worker: the whole text, which each samples in its own order, or a part of its own."""
    if cell.iid:
        return [text / "train.txt"] * cell.workers
    return [text / f"part-{m}-of-{cell.workers}.txt" for m in range(cell.workers)]


def cut_parts(text):
    """train.txt in 2, 4 and 8 parts that follow each other."""
    train = (text / "train.txt").read_bytes()
    for count in (2, 4, 8):
        for m in range(count):
            part = text / f"part-{m}-of-{count}.txt"
            if not part.exists():
                part.write_bytes(train[len(train) * m // count : len(train) * (m + 1) // count])


def train(program, text, scratch, cell, deadline):
    """The result of a cell. Raises RuntimeError with what the program said, or when it took `deadline` seconds."""
    config = scratch / f"{cell.name}.yaml"
    config.write_text(cell.config())
    command = [str(program), "simulate", "--config", str(config), "--device", "cpu", "--threads", "1"]
    for name, data in zip(cell.worker_names, data_of(cell, text)):
        command += ["--worker", f"{name}={data}"]
    command += ["--held-out", str(text / "held-out.txt")]
    environment = {**os.environ, **ALLOCATOR}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            out, errors = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError(f"not done after {deadline:.0f} s")
    if process.returncode != 0:
        raise RuntimeError(errors.strip())
    lines = [json.loads(line) for line in out.splitlines()]
    keys = ("version", "step", "tokens", "loss", "training_loss", "replica_distance")
    config.unlink()
    return {
        "config": json.loads(cell.config()),
        "curve": [{key: line[key] for key in keys} for line in lines],
        "consensus_digests": lines[-1]["consensus_digests"],
    }


def cpu_seconds():
    usage = os.times()
    return usage.children_user + usage.children_system


def run(args, plan):
    """Trains what is not done, the most telling first, for as long as the budget allows. Returns what failed."""
    deadline = time.monotonic() + 60 * args.budget_minutes
    failed = {}
    wall_per_cpu = 1.0  # Other programs may use the machine too.

    def pending():
        return [cell for cell in plan.cells() if plan.results.get(cell) is None and cell not in failed]

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {}
        while True:
            for cell in pending():
                wanted = cell.cost * plan.results.seconds_per_step() * wall_per_cpu
                fits = time.monotonic() + wanted <= deadline
                if len(running) < args.jobs and cell not in running.values() and fits:
                    running[pool.submit(timed, args, cell, DEADLINE_FACTOR * wanted + 60)] = cell
            if not running:
                return failed
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                try:
                    wall, result = future.result()
                except RuntimeError as error:
                    failed[cell] = str(error)
                    print(f"{cell.name}: {error}", file=sys.stderr, flush=True)
                    continue
                wall_per_cpu = max(1.0, wall / result["seconds"])
                plan.results.put(cell, result)
                loss = result["curve"][-1]["loss"]
                print(f"{cell.name}: loss {loss} ({wall:.0f} s, {len(pending())} to go)", flush=True)


def timed(args, cell, deadline):
    began = time.monotonic()
    cpu_before = cpu_seconds()
    result = train(args.program, args.text, args.scratch, cell, deadline)
    # Of all children: with several jobs an average.
    result["seconds"] = round(max(0.01, (cpu_seconds() - cpu_before) / args.jobs), 2)
    return time.monotonic() - began, result


def main():
    parser = argparse.ArgumentParser(description="Trains every method at equal tokens and seeds, and writes RESULTS.md.")
    parser.add_argument("--program", type=pathlib.Path, required=True, help="diloco-worker")
    parser.add_argument("--text", type=pathlib.Path, required=True, help="folder with train.txt and held-out.txt")
    parser.add_argument("--budget-minutes", type=float, default=float("inf"), help="start nothing that would take longer")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, of one thread each")
    parser.add_argument("--quick", action="store_true", help="minutes: every step of it, on runs too short to tell anything")
    parser.add_argument("--report", action="store_true", help="train nothing, write what is there")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder of results/, RESULTS.md and the plots")
    args = parser.parse_args()
    args.scratch = args.text
    grid = quality.QUICK_GRID if args.quick else quality.FULL_GRID
    plan = quality.Plan(grid, Results(args.out / "results"))
    cut_parts(args.text)
    failed = {}
    try:
        failed = {} if args.report else run(args, plan)
    except KeyboardInterrupt:  # The cells under way got it too. What is done is kept.
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    report.write(args.out, plan)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
