"""The alerts as files: their form, their runbook, and promtool's tests of each."""

import re
import subprocess
import unittest

import yaml

import files

ANCHOR = "https://github.com/diloco/diloco/blob/main/deploy/RUNBOOK.md#"


def sections():
    """The runbook's text on each alert, by name."""
    parts = re.split(r"^### (Diloco\w+)$", files.RUNBOOK.read_text(), flags=re.M)
    return {name: re.split(r"^##? ", text, flags=re.M)[0] for name, text in zip(parts[1::2], parts[2::2])}


class AlertsTest(unittest.TestCase):
    def test_each_says_what_how_bad_and_where_to_read_on(self):
        for alert in files.alerts():
            with self.subTest(alert=alert["alert"]):
                self.assertRegex(alert["alert"], r"^Diloco([A-Z][a-z]+)+$")
                self.assertRegex(alert["for"], r"^[1-9][0-9]*m$")
                self.assertIn(alert["labels"]["severity"], {"critical", "warning", "info"})
                annotations = alert["annotations"]
                self.assertEqual(set(annotations), {"summary", "description", "runbook_url"})
                self.assertNotIn("{{", annotations["summary"])
                self.assertIn("{{ $labels.run }}", annotations["description"])
                self.assertEqual(annotations["runbook_url"], ANCHOR + alert["alert"].lower())

    def test_names_are_unique(self):
        names = [alert["alert"] for alert in files.alerts()]
        self.assertEqual(len(names), len(set(names)))

    def test_the_runbook_has_a_section_for_each_and_no_other(self):
        written = sections()
        self.assertEqual(set(written), {alert["alert"] for alert in files.alerts()})
        for name, text in written.items():
            with self.subTest(alert=name):
                for part in ("**Meaning.**", "**Likely causes.**", "**What to do.**"):
                    self.assertIn(part, text)

    def test_each_is_seen_to_fire_and_not_to_fire(self):
        fires, stays_quiet = set(), set()
        for path in files.ALERT_TESTS.glob("*.yaml"):
            for case in yaml.safe_load(path.read_text())["tests"]:
                self.assertTrue(case["input_series"])
                for check in case["alert_rule_test"]:
                    (fires if check["exp_alerts"] else stays_quiet).add(check["alertname"])
        names = {alert["alert"] for alert in files.alerts()}
        self.assertEqual(fires, names)
        self.assertEqual(stays_quiet, names)

    def test_promtool_accepts_the_rules_and_their_tests_pass(self):
        paths = sorted(str(path) for path in files.ALERT_TESTS.glob("*.yaml"))
        self.assertTrue(paths)
        for command in (["check", "rules", str(files.RULES)], ["test", "rules", *paths]):
            ran = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_promtool_accepts_the_scrape_configuration(self):
        ran = subprocess.run(["promtool", "check", "config", str(files.PROMETHEUS)], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
