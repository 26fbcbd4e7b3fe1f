"""The status page in a real browser, on a real coordinator with synthetic workers."""

import json
import tempfile
import unittest
from urllib.parse import urlsplit

from browser import Browser
from cluster import Coordinator, Workers


def config(workers, rounds=100000, more=""):
    return (f"run: {{id: page, workers: {workers}, rounds: {rounds}}}\nmethod: eager\ninner_steps: 10\n"
            "fragments: {count: 4}\neval: {every: 2}\n"
            f"rounds: {{quorum: {workers}, heartbeat_interval: 200ms, lease: 5s{more}}}\n")


COMMITTED = "parseInt(document.getElementById('rounds').innerText.replaceAll(',', ''))"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.page = self.browser.new_page()
        self.addCleanup(self.page.close)
        self.page.set_screen(1280, 900)

    def start(self, yaml, data="data"):
        coordinator = Coordinator(self.folder, yaml, data)
        self.addCleanup(coordinator.stop)
        coordinator.start()
        return coordinator

    def start_workers(self, *arguments, **options):
        workers = Workers(*arguments, **options)
        self.addCleanup(workers.kill)
        return workers

    def row(self, worker):
        """The cells of a worker's row, by the title of their column."""
        return self.page.evaluate(f"""Object.fromEntries(
            [...document.querySelector('#workers tr[data-key={json.dumps(worker)}]').children]
                .map((cell) => [cell.dataset.title, cell.innerText]))""")

    def expect_no_complaint(self, coordinator):
        self.page.evaluate("0")  # Every event before this has come.
        self.assertEqual(self.page.complaints, [])
        origin = urlsplit(coordinator.url).netloc
        self.assertEqual({urlsplit(url).netloc for url in self.page.requests}, {origin})

    def expect_fits(self):
        wide = self.page.evaluate("({page: document.scrollingElement.scrollWidth, screen: innerWidth})")
        self.assertLessEqual(wide["page"], wide["screen"])

    def test_rounds_that_run(self):
        coordinator = self.start(config(2))
        self.page.go(coordinator.url)
        self.page.wait_for("document.getElementById('state').innerText === 'Seeding'")
        self.assertEqual(self.page.text("#reason"), "Waiting for a first worker")
        self.start_workers(coordinator, "w", count=2)
        self.page.wait_for("document.getElementById('state').innerText === 'Training'")
        self.page.wait_for(f"{COMMITTED} >= 3")
        before = self.page.evaluate(COMMITTED)
        self.page.wait_for(f"{COMMITTED} > {before}")
        self.page.wait_for("document.querySelector('#loss path.held-out')?.getAttribute('d')")
        self.page.wait_for("document.querySelectorAll('#recent-rounds tbody tr').length >= 3")
        self.page.wait_for("document.querySelectorAll('#open-rounds article').length >= 1")
        for worker in ("w0", "w1"):
            row = self.row(worker)
            self.assertIn("alive", row["State"])
            self.assertIn(row["Open round"].split()[0], ("awaited", "present", "yes"))
            self.assertGreater(int(row["Step"].replace(",", "")), 0)
        self.assertEqual(self.page.text("#live"), "live")
        self.assertIn("times less than float32", self.page.text("#facts"))
        self.assertRegex(self.page.evaluate("document.title"), r"^\d+/100000 page – diloco$")
        self.assertEqual(self.page.failed_requests, [])
        self.expect_no_complaint(coordinator)

    def test_a_round_that_stalls_says_why(self):
        coordinator = self.start(config(2))
        self.start_workers(coordinator, "east", seed=0)
        west = self.start_workers(coordinator, "west", seed=1)
        self.page.go(coordinator.url)
        self.page.wait_for(f"{COMMITTED} >= 2")
        west.kill()
        self.page.wait_for("document.getElementById('state').innerText.startsWith('Stalled')")
        self.assertEqual(self.page.text("#state"), "Stalled: 1 worker is alive and a round needs 2")
        # The same sentence as on a terminal.
        self.page.wait_for("document.getElementById('reason').innerText.includes('lost \"west\"')")
        self.page.wait_for("document.querySelector('#open-rounds .oldest .who')?.innerText.includes('Present')")
        reason = json.dumps(coordinator.ctl("status")["reason"].lower())
        self.page.wait_for(f"document.getElementById('reason').innerText.toLowerCase() === {reason}")
        self.assertIn("1 of 2 workers present", self.page.text("#open-rounds .oldest .count"))
        self.assertIn("lost", self.row("west")["State"])
        self.assertEqual(self.row("west")["Open round"], "no")
        self.assertIn("alive", self.row("east")["State"])
        self.assertEqual(self.row("east")["Open round"], "present")
        self.assertEqual(self.page.text("#eta"), "")
        self.assertTrue(self.page.evaluate("document.title").startswith("STALLED "))
        self.expect_no_complaint(coordinator)

    def test_twenty_workers_on_a_phone(self):
        coordinator = self.start(config(20))
        self.start_workers(coordinator, "datacenter-with-a-long-name-", count=20, step_ms=50)
        self.page.set_screen(360, 800)
        self.page.go(coordinator.url)
        self.page.wait_for(f"{COMMITTED} >= 1")
        self.page.wait_for("document.querySelectorAll('#workers tbody tr').length === 20")
        self.page.wait_for("document.querySelector('#loss svg')")
        self.expect_fits()
        for width, dark in ((390, True), (768, False), (1280, True)):
            self.page.set_screen(width, 800, dark)
            self.page.wait_for(f"document.querySelector('#loss svg').clientWidth <= {width}")
            self.expect_fits()
        self.expect_no_complaint(coordinator)

    def test_recovers_when_the_coordinator_comes_back(self):
        coordinator = self.start(config(2))
        self.start_workers(coordinator, "w", count=2)
        self.page.go(coordinator.url)
        self.page.wait_for(f"{COMMITTED} >= 2")
        before = self.page.evaluate(COMMITTED)
        coordinator.kill()
        self.page.wait_for("!document.getElementById('connection').hidden")
        self.assertIn("The coordinator does not answer: it cannot be reached.", self.page.text("#connection"))
        self.assertRegex(self.page.text("#connection"), r"What you see is [\d.]+ s old")
        self.assertIn("not live", self.page.text("#live"))
        self.assertGreaterEqual(self.page.evaluate(COMMITTED), before, "what was known stays")
        coordinator.start()
        self.page.wait_for("document.getElementById('connection').hidden")
        self.page.wait_for(f"{COMMITTED} > {before}")
        self.assertEqual(self.page.text("#live"), "live")
        self.assertTrue(all("ERR_CONNECTION" in text or "ERR_EMPTY" in text or "503" in text
                            for text in self.page.failed_requests), self.page.failed_requests)
        self.expect_no_complaint(coordinator)

    def test_asks_nothing_while_nobody_looks(self):
        coordinator = self.start(config(1))
        self.page.go(coordinator.url)
        self.page.wait_for("document.getElementById('live').innerText === 'live'")
        hide = ("Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}});"
                "document.dispatchEvent(new Event('visibilitychange'))")
        count = ("performance.getEntriesByType('resource')"
                 ".filter((entry) => entry.name.includes('/api/overview')).length")
        later = "new Promise((resolve) => setTimeout(() => resolve({}), {}))"
        self.page.evaluate(hide.format("true"))
        # One that was under way may still end; three times the period without another.
        asked = self.page.evaluate(later.format(count, 2000))
        self.assertEqual(self.page.evaluate(later.format(count, 6000)), asked)
        self.page.evaluate(hide.format("false"))
        self.page.wait_for(f"{count} > {asked}")
        self.expect_no_complaint(coordinator)

    def test_text_of_others_stays_text(self):
        data = "<img src=x onerror=alert(1)>&amp;<b>"
        coordinator = self.start(config(1), data)
        self.start_workers(coordinator, "w")
        self.page.go(coordinator.url)
        self.page.wait_for(f"{COMMITTED} >= 1")
        path = coordinator.ctl("checkpoint", "save")["path"]
        self.assertIn(data, path)
        self.page.wait_for(f"document.getElementById('about').innerText.includes({json.dumps(path)})")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('main img, main b').length"), 0)
        self.expect_no_complaint(coordinator)

    def change_answers(self, change):
        """Every overview that the page gets from now on goes through `change`, JavaScript that alters `answer`."""
        self.page.call("Page.addScriptToEvaluateOnNewDocument", {"source": f"""{{
            const ask = window.fetch;
            window.fetch = async (path, options) => {{
                const response = await ask(path, options);
                if (path !== "/api/overview" || !response.ok) return response;
                const answer = await response.json();
                {change}
                return new Response(JSON.stringify(answer));
            }};
        }}"""})

    def test_a_run_that_is_held_stands_out_and_hostile_reasons_stay_text(self):
        coordinator = self.start(config(1))
        reason = "disk full: <img src=x onerror=alert(1)>\\n<script>alert(2)</script> \u202e"
        self.change_answers(f'answer.status.state = "RUN_STATE_HOLDING"; answer.status.reason = "{reason}";')
        self.page.go(coordinator.url)
        self.page.wait_for("document.getElementById('state').innerText === 'Holding'")
        self.assertIn("<script>alert(2)</script>", self.page.evaluate("document.getElementById('reason').textContent"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('main img, main script').length"), 0)
        self.assertTrue(self.page.evaluate("document.title").startswith("HOLDING "))
        self.assertEqual(self.page.text("#eta"), "")
        self.change_answers('answer.status.state = "RUN_STATE_PAUSED";')
        self.page.go(coordinator.url)
        self.page.wait_for("document.getElementById('state').innerText === 'Paused'")
        self.assertTrue(self.page.evaluate("document.title").startswith("PAUSED "))
        self.expect_no_complaint(coordinator)

    def test_states_and_numbers_that_are_rare(self):
        coordinator = self.start(config(1))
        self.start_workers(coordinator, "w")
        self.change_answers("""
            answer.status.state = "RUN_STATE_RESTING_A_WHILE";
            for (const worker of answer.workers.workers) {
                if (!worker.progress) break;
                worker.progress.loss = null;
                worker.progress.tokens_per_second = null;
                for (const state of ["DRAINING", "SUSPENDED", "LOST", "LEFT", "EVICTED", "UNHEARD_OF"]) {
                    answer.workers.workers.push(
                        {...worker, worker_id: state, state: `WORKER_STATE_${state}`, progress: undefined});
                }
                break;
            }""")
        self.page.go(coordinator.url)
        self.page.wait_for("document.querySelectorAll('#workers tbody tr').length === 7")
        self.assertEqual(self.page.text("#state"), "Resting a while")
        self.assertEqual(self.row("w")["Loss"], "–")
        for state in ("DRAINING", "SUSPENDED", "LOST", "LEFT", "EVICTED", "UNHEARD_OF"):
            row = self.row(state)
            self.assertEqual(row["State"][2:], state.lower().replace("_", " "))
            self.assertEqual(row["Step"], "–")
        self.assertIn("1 lost", self.page.text("#workers-note"))
        self.expect_no_complaint(coordinator)

    def test_numbers_for_people(self):
        coordinator = self.start(config(1))
        self.page.go(coordinator.url)
        texts = self.page.evaluate("""import("/page/format.js").then((format) => ({
            durations: [0, 59.94, 59.96, 185, 7500, 367200].map(format.durationText),
            bytes: [0, 999, 1000, 999949, 999950, 18.4e9].map(format.bytesText),
            losses: [1.23456, null].map(format.lossText),
            utilization: format.percentText(format.utilization({wall_seconds: 8, blocked_seconds: 2})),
            medians: [[], [3], [9, 1, 2], [4, 1, 2, 9]].map(format.median)}))""")
        self.assertEqual(texts, {
            "durations": ["0.0 s", "59.9 s", "1 min 00 s", "3 min 05 s", "2 h 05 min", "4 d 06 h"],
            "bytes": ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "18.4 GB"],
            "losses": ["1.2346", "–"], "utilization": "75.0 %", "medians": [None, 3, 2, 3]})


if __name__ == "__main__":
    unittest.main()
