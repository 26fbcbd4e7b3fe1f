"""What the runner decides, without training anything."""

import json
import pathlib
import sys
import tempfile
import types
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cells
import report
import runner
import svg
from cells import Cell


def result(cell, loss, seconds=10.0):
    line = {"version": 30, "step": 900, "tokens": 1000, "loss": loss, "training_loss": 2.0, "replica_distance": 0.01}
    return {"config": json.loads(cell.config()), "curve": [line] * 6, "consensus_digests": [], "seconds": seconds}


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = runner.Results(self.folder / "results")
        self.plan = cells.Plan(cells.FULL_GRID, self.results)

    def listed(self, planned):
        """A plan of these cells."""
        return types.SimpleNamespace(cells=lambda: planned, results=self.results)

    def finish(self, planned, loss=2.0):
        for cell in planned:
            if self.results.get(cell) is None:
                self.results.put(cell, result(cell, loss))

    def test_names_are_those_of_files_and_distinct(self):
        rows = [cell for entry in cells.METHODS for cell in self.plan.rate_cells(entry, 2, True)]
        for cell in rows:
            self.results.put(cell, result(cell, 2.0))
        planned = self.plan.cells()
        names = [cell.name for cell in planned]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all("/" not in name and " " not in name for name in names))

    def test_tokens_are_equal_whatever_the_method(self):
        for planned in (self.plan.cells(), cells.Plan(cells.QUICK_GRID, self.results).cells()):
            for cell in planned:
                config = json.loads(cell.config())
                self.assertEqual(config["run"]["rounds"] * config.get("inner_steps", 1), cell.steps)

    def test_a_rate_is_chosen_once_all_are_tried(self):
        entry = cells.row("diloco")
        first, second, third = self.plan.rate_cells(entry, 4, False)
        self.results.put(first, result(first, 2.0))
        self.results.put(second, result(second, 1.5))
        self.assertIsNone(self.plan.chosen(entry, 4, False))
        self.results.put(third, result(third, None))  # Diverged.
        self.assertEqual(self.plan.chosen(entry, 4, False), second)
        # More workers with text of their own take the rate from there.
        self.assertEqual(self.plan.chosen(entry, 8, False).rate, second.rate)
        self.assertIsNone(self.plan.chosen(entry, 8, True))

    def test_the_plan_grows_with_what_is_known_and_ends(self):
        sizes = []
        while any(self.results.get(cell) is None for cell in self.plan.cells()):
            self.finish(self.plan.cells())
            sizes.append(len(self.plan.cells()))
            self.assertLess(len(sizes), 10)
        self.assertEqual(sizes, sorted(sizes))
        planned = self.plan.cells()
        for workers in (2, 4, 8):
            for iid in (True, False):
                swept = {cell.lookahead for cell in planned if (cell.workers, cell.iid) == (workers, iid)}
                self.assertEqual(len(swept - {""}), 12)

    def test_done_cells_are_kept_and_those_of_another_version_are_not(self):
        cell = Cell("diloco")
        self.results.put(cell, result(cell, 1.25))
        again = runner.Results(self.folder / "results")
        self.assertEqual(again.loss(cell), 1.25)
        path = self.folder / "results" / f"{cell.name}.json"
        stored = json.loads(path.read_text())
        stored["config"]["inner"]["batch_size"] += 1
        path.write_text(json.dumps(stored))
        self.assertIsNone(runner.Results(self.folder / "results").loss(cell))

    def test_trains_what_fits_the_budget_first_things_first(self):
        trained = []

        def timed(_, cell, deadline):
            trained.append(cell)
            return 1.0, result(cell, 2.0, seconds=1.0)

        arguments = types.SimpleNamespace(budget_minutes=0.0, jobs=1)
        plan = self.listed([Cell("diloco", seed=seed) for seed in (3, 1, 2)])
        original, runner.timed = runner.timed, timed
        self.addCleanup(setattr, runner, "timed", original)
        self.assertEqual(runner.run(arguments, plan), {})
        self.assertEqual(trained, [])
        arguments.budget_minutes = 60.0
        runner.run(arguments, plan)
        self.assertEqual([cell.seed for cell in trained], [3, 1, 2])

    def test_a_cell_that_gets_stuck_is_ended(self):
        text = self.folder
        (text / "train.txt").write_text("In the beginning")
        stuck = self.folder / "stuck"
        stuck.write_text("#!/bin/sh\nexec sleep 600\n")
        stuck.chmod(0o755)
        with self.assertRaisesRegex(RuntimeError, "not done after 0 s"):
            runner.train(stuck, text, self.folder, Cell("diloco"), deadline=0.1)

    def test_a_cell_that_fails_is_named_and_does_not_stop_the_rest(self):
        def timed(_, cell, deadline):
            if cell.seed == 1:
                raise RuntimeError("no such method")
            return 1.0, result(cell, 2.0)

        original, runner.timed = runner.timed, timed
        self.addCleanup(setattr, runner, "timed", original)
        arguments = types.SimpleNamespace(budget_minutes=60.0, jobs=2)
        failed = runner.run(arguments, self.listed([Cell("diloco", seed=seed) for seed in (1, 2)]))
        self.assertEqual(failed, {Cell("diloco", seed=1): "no such method"})
        self.assertEqual(self.results.loss(Cell("diloco", seed=2)), 2.0)

    def test_the_report_says_what_is_there_and_what_is_not(self):
        report.write(self.folder, self.plan)
        self.assertIn("0 of the", (self.folder / "RESULTS.md").read_text())
        for number, cell in enumerate(self.plan.rate_cells(cells.row("diloco"), 2, True)):
            self.results.put(cell, result(cell, 2.0 + number))
        for seed, loss in ((2, 2.25), (3, 2.5)):
            best = Cell("diloco", rate=0.2, seed=seed)
            self.results.put(best, result(best, loss))
        (self.folder / "findings.md").write_text("## Findings\n\nNone.\n")
        report.write(self.folder, self.plan)
        text = (self.folder / "RESULTS.md").read_text()
        self.assertIn("\n## Findings\n\nNone.\n\n## Methods\n", text)
        self.assertIn("| diloco | 2.250 ± 0.250 | +0.000 | 3 | 0.2 | 0.2: 2.000, 0.4: 3.000, 0.7: 4.000 |", text)
        self.assertIn("| delayed | - | - |", text)
        for plot in self.folder.glob("*.svg"):
            xml.dom.minidom.parse(str(plot))

    def test_ticks_are_round_and_inside(self):
        self.assertEqual(svg.ticks(0.03, 1.02), [0.2, 0.4, 0.6, 0.8, 1.0])
        self.assertEqual(svg.ticks(0, 921600), [0, 200000, 400000, 600000, 800000])
        self.assertEqual(svg.ticks(2, 2), [2])


if __name__ == "__main__":
    unittest.main()
