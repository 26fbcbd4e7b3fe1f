"""Every metric that is named anywhere exists, and every one that exists is shown somewhere."""

import unittest

import files

# Metrics that no dashboard and no alert uses, on purpose.
SHOWN_NOWHERE = {
    "diloco_fragment_rounds_total",  # README: by hand; the dashboards show rounds and their duration.
    "diloco_run_inner_steps",  # A constant, for queries by hand.
    "diloco_snapshot_last_success_timestamp_seconds",  # The alert and the dashboards go by versions.
    "diloco_checkpoint_last_success_timestamp_seconds",  # Checkpoints are written when somebody asks for one.
}
# In these documents beside metrics: CMake targets, files and the like.
NO_METRICS = set()


class NamesTest(unittest.TestCase):
    def test_what_dashboards_alerts_and_documents_name_exists(self):
        known = files.defined()
        self.assertGreater(len(known), 50)
        for path in (*files.DASHBOARDS, files.RULES, files.README, files.RUNBOOK):
            with self.subTest(path=path.name):
                names = files.named(path.read_text()) - NO_METRICS
                self.assertTrue(names)
                self.assertEqual(names - known, set())

    def test_what_exists_is_shown(self):
        shown = set()
        for path in (*files.DASHBOARDS, files.RULES):
            shown |= files.named(path.read_text())
        self.assertEqual(files.defined() - shown, SHOWN_NOWHERE)

    def test_failures_have_attempts_to_compare_with(self):
        attempts = {
            "diloco_worker_losses_total": "diloco_worker_joins_total",
            "diloco_disk_refusals_total": "diloco_journal_write_duration_seconds",
            "diloco_rounds_skipped_total": "diloco_round_current",
            "diloco_worker_rounds_skipped_total": "diloco_worker_round",
            "diloco_outer_gradients_not_finite_total": "diloco_uploads_total",
            "diloco_worker_outer_gradients_not_finite_total": "diloco_contributions_total",
        }
        self.assertLessEqual(set(attempts) | set(attempts.values()), files.defined())


if __name__ == "__main__":
    unittest.main()
