"""The dashboards as files: what Grafana needs of them, and what a reader does. No Grafana runs here."""

import itertools
import re
import unittest

import files

UNITS = {"short", "none", "percentunit", "s", "bytes", "Bps", "reqps"}  # Of Grafana, those that we use.
FIRST_ROWS = ["Is it progressing?", "Where is time spent?", "Who is slow?"]
LAST_ROW = "Resources"


def overlap(a, b):
    return a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]


def every_panel():
    return [(name, panel) for name, dashboard in files.dashboards().items() for panel in files.panels(dashboard)]


class DashboardsTest(unittest.TestCase):
    def test_there_are_three(self):
        self.assertEqual(set(files.dashboards()), {"fleet.json", "run.json", "worker.json"})

    def test_each_can_be_imported_anywhere(self):
        for name, dashboard in files.dashboards().items():
            with self.subTest(dashboard=name):
                self.assertIsNone(dashboard["id"])
                self.assertEqual(dashboard["uid"], f"diloco-{name.removesuffix('.json')}")
                self.assertEqual(dashboard["tags"], ["diloco"])
                self.assertIsInstance(dashboard["schemaVersion"], int)
                self.assertTrue(dashboard["title"] and dashboard["description"])
                self.assertEqual(dashboard["time"], {"from": "now-6h", "to": "now"})
                self.assertEqual(dashboard["refresh"], "30s")

    def test_variables_are_defined_and_the_data_source_is_one(self):
        for name, dashboard in files.dashboards().items():
            with self.subTest(dashboard=name):
                variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
                self.assertEqual(variables["datasource"]["type"], "datasource")
                self.assertEqual(variables["datasource"]["query"], "prometheus")
                self.assertIn("run", variables)
                used = {name for _, expr in files.expressions(dashboard) for name in re.findall(r"\$(\w+)", expr)}
                self.assertLessEqual(used - {"__rate_interval"}, set(variables))
                for name in set(variables) - {"datasource"}:
                    self.assertIn(name, used)

    def test_every_panel_names_the_data_source_variable(self):
        for name, panel in every_panel():
            with self.subTest(dashboard=name, panel=panel["title"]):
                source = {"type": "prometheus", "uid": "$datasource"}
                self.assertEqual(panel["datasource"], source)
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"], source)

    def test_every_panel_explains_itself(self):
        for name, panel in every_panel():
            with self.subTest(dashboard=name, panel=panel["title"]):
                self.assertRegex(panel["description"], r"^[A-Z0-9].*\.$")
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                for target in panel["targets"]:
                    self.assertTrue(target["legendFormat"])

    def test_rates_follow_the_scrape_interval(self):
        for name, panel in every_panel():
            with self.subTest(dashboard=name, panel=panel["title"]):
                for target in panel["targets"]:
                    for window in re.findall(r"\brate\(.*?\[([^\]]*)\]", target["expr"]):
                        self.assertEqual(window, "$__rate_interval")

    def test_every_query_is_of_the_chosen_run(self):
        for name, panel in every_panel():
            with self.subTest(dashboard=name, panel=panel["title"]):
                for target in panel["targets"]:
                    selectors = re.findall(r"(?:diloco|process)_\w+(\{[^}]*\})?", target["expr"])
                    self.assertTrue(selectors or "ALERTS" in target["expr"])
                    for selector in selectors:
                        self.assertIn('run=~"$run"', selector)

    def test_panels_lie_in_a_grid_without_overlaps(self):
        for name, dashboard in files.dashboards().items():
            with self.subTest(dashboard=name):
                ids = [panel["id"] for panel in dashboard["panels"]]
                self.assertEqual(len(ids), len(set(ids)))
                for panel in dashboard["panels"]:
                    position = panel["gridPos"]
                    self.assertLessEqual(position["x"] + position["w"], 24)
                    self.assertGreater(min(position["w"], position["h"]), 0)
                for a, b in itertools.combinations(dashboard["panels"], 2):
                    self.assertFalse(overlap(a["gridPos"], b["gridPos"]), f"{a['title']} and {b['title']}")

    def test_rows_come_in_the_order_in_which_one_asks(self):
        for name, dashboard in files.dashboards().items():
            with self.subTest(dashboard=name):
                rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
                titles = [row["title"] for row in rows]
                self.assertEqual(titles[:3], FIRST_ROWS)
                self.assertEqual(titles[-1], LAST_ROW)
                places = [row["gridPos"]["y"] for row in rows]
                self.assertEqual(places, sorted(places))

    def test_the_three_link_to_one_another_and_keep_what_was_chosen(self):
        uids = {dashboard["uid"] for dashboard in files.dashboards().values()}
        for name, dashboard in files.dashboards().items():
            with self.subTest(dashboard=name):
                linked = set()
                for link in dashboard["links"]:
                    uid, query = re.fullmatch(r"/d/([\w-]+)\?(.*)", link["url"]).groups()
                    self.assertIn("${datasource:queryparam}", query)
                    self.assertTrue(link["keepTime"])
                    linked.add(uid)
                self.assertEqual(linked, uids - {dashboard["uid"]})


if __name__ == "__main__":
    unittest.main()
