"""Dashboards and alerts against a real Prometheus that scrapes a real run."""

import math
import re
import tempfile
import unittest

import files
import live_run

# In the place of what Grafana substitutes.
RATE_INTERVAL = "5s"


def substitute(expression):
    values = {"__rate_interval": RATE_INTERVAL, "run": live_run.RUN, "worker": ".*"}
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], expression)


def families(scrape):
    return set(re.findall(r"^# TYPE (\S+) ", scrape, flags=re.M))


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.run_ = live_run.LiveRun(folder.name)
        cls.addClassCleanup(cls.run_.stop)
        cls.run_.start()
        live_run.wait_for("rounds", lambda: cls.run_.query("diloco_round_newest_committed > 5"))
        cls.run_.ctl("checkpoint", "save")

    def test_every_panel_shows_data(self):
        waiting = [(name, title, substitute(expression)) for name, dashboard in files.dashboards().items()
                   for title, expression in files.expressions(dashboard)]
        self.assertGreater(len(waiting), 80)

        def empty():
            # An answer of nothing but NaN draws nothing.
            waiting[:] = [query for query in waiting
                          if all(math.isnan(value) for _, value in self.run_.query(query[2]))]
            return not waiting

        try:
            live_run.wait_for("data", empty)
        except AssertionError:
            self.fail("no data for:\n" + "\n".join(map(str, waiting)))

    def test_every_alert_is_evaluated_and_none_fires_in_a_healthy_run(self):
        def evaluated():
            rules = [rule for group in self.run_.api("rules")["groups"] for rule in group["rules"]]
            return rules if all(rule["health"] != "unknown" for rule in rules) else None

        rules = live_run.wait_for("an evaluation of every rule", evaluated)
        self.assertEqual(len(rules), len(files.rules()))
        for rule in rules:
            with self.subTest(rule=rule["name"]):
                self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""))
                self.assertNotEqual(rule.get("state"), "firing")

    def test_the_limit_for_stalled_rounds_has_a_value(self):
        value = live_run.wait_for("the recording rule", lambda: self.run_.query("diloco:round_stall_limit_seconds"))
        self.assertEqual([limit for _, limit in value], [600.0])  # Rounds of milliseconds.

    def test_what_is_scraped_is_what_names_h_has(self):
        coordinator, worker = (families(self.run_.scrape(target)) for target in ("coordinator", "east"))
        self.assertEqual(coordinator | worker, files.defined())
        self.assertEqual({name for name in coordinator & worker if not name.startswith("process_")},
                         {"diloco_build_info", "diloco_evaluation_loss", "diloco_evaluation_version"})

    def test_variables_offer_the_run_and_its_workers(self):
        for dashboard in files.dashboards().values():
            for variable in dashboard["templating"]["list"]:
                if variable["type"] != "query":
                    continue
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                with self.subTest(dashboard=dashboard["uid"], variable=variable["name"]):
                    expected = {"run": {live_run.RUN}, "worker": {"east", "north", "west"}}[label]
                    found = live_run.wait_for(f"values of {label}", lambda: {
                        metric.get(label) for metric, _ in self.run_.query(substitute(series))})
                    self.assertLessEqual(found, expected)
                    self.assertTrue(found)

    def test_the_series_of_a_worker_that_left_disappear(self):
        live_run.wait_for("west's series", lambda: self.run_.query('diloco_worker_inner_steps{worker="west"} > 0'))
        self.run_.ctl("worker", "drain", "west", "--yes")
        live_run.wait_for("west's departure", lambda: self.run_.query('diloco_workers{state="left"} == 1'))
        # Alerts look back over minutes, and may still speak of it.
        live_run.wait_for("the end of west's series", lambda: not self.run_.query(
            '{job="diloco-coordinator", worker="west", __name__!~"ALERTS.*"}'))
        self.assertTrue(self.run_.query('{job="diloco-coordinator", worker="east"}'))


if __name__ == "__main__":
    unittest.main()
