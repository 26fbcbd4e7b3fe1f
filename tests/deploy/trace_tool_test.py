"""deploy/trace.py: what it reads, puts together and draws."""

import importlib.util
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "trace.py")
spec = importlib.util.spec_from_file_location("trace_tool", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def start(pid=1, name="worker east", boot="east", ts=1000.0, unix_us=5_000_000):
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}},
        {"ph": "i", "name": "trace_start", "pid": pid, "tid": 0, "ts": ts, "args": {"boot": boot, "unix_us": unix_us}},
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": 1, "args": {"name": "training"}},
    ]


def cut_slice(name, begin, end, pid=1, **args):
    return {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": begin, "dur": end - begin, "args": args}


def rectangles(svg):
    """(title, x, width) of what is drawn."""
    space = "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(svg)
    drawn = []
    for rectangle in root.iter(space + "rect"):
        title = rectangle.find(space + "title")
        if title is not None:
            drawn.append((title.text, float(rectangle.get("x")), float(rectangle.get("width"))))
    return drawn


class TraceToolTest(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            return tool.read(file.name)

    def test_reads_a_whole_trace(self):
        self.assertEqual(self.read(json.dumps(start())), start())

    def test_reads_a_killed_processs_trace_up_to_its_last_line(self):
        lines = "[\n" + "".join(json.dumps(event) + ",\n" for event in start())
        self.assertEqual(self.read(lines), start())
        self.assertEqual(self.read(lines + '{"ph":"X","name":"st'), start())

    def test_refuses_what_is_no_trace(self):
        for text in ("", "hello", "{}", "[]", "[1]", '[{"ph":"X"}]'):
            with self.assertRaisesRegex(SystemExit, "not a trace of ours"):
                self.read(text)

    def test_traces_of_a_host_share_its_clock(self):
        # The wall clock was set in between.
        east, west = start(1), start(2, "worker west", unix_us=9_000_000) + [cut_slice("step", 2000.0, 2100.0, 2)]
        self.assertEqual(tool.merge([east, west]), east + west)

    def test_traces_of_other_hosts_are_shifted_onto_the_first_ones_clock(self):
        # One second of wall clock after the first one's start.
        west = start(2, "worker west", "west", ts=70.0, unix_us=6_000_000) + [cut_slice("step", 80.0, 90.0, 2)]
        merged = tool.merge([start(1), west])
        self.assertEqual(merged[-1]["ts"], 1000.0 + 1_000_000 + 10.0)
        self.assertEqual(merged[4]["ts"], 1000.0 + 1_000_000)
        self.assertEqual(merged[1]["ts"], 1000.0)

    def test_draws_slices_in_their_place_and_leaves_out_what_is_within_another(self):
        events = start() + [
            cut_slice("compute", 1000.0, 501_000.0, round=0),
            cut_slice("step", 2000.0, 3000.0, round=0),
            cut_slice("wait", 501_000.0, 1_001_000.0, round=0),
        ]
        drawn = rectangles(tool.draw([events], 0, None))
        self.assertEqual([title.split()[0] for title, _, _ in drawn], ["compute", "wait"])
        (_, first, width), (_, second, _) = drawn
        self.assertAlmostEqual(first + width, second, delta=0.2)
        self.assertAlmostEqual(width, (tool.WIDTH - tool.LEFT - tool.RIGHT) / 2, delta=0.2)

    def test_draws_a_part(self):
        events = start() + [cut_slice("compute", 1000.0 + 1e6 * n, 1000.0 + 1e6 * (n + 1), round=n) for n in range(9)]
        drawn = rectangles(tool.draw([events], 3, 5))
        self.assertEqual([json.loads(title[8 : title.index("}") + 1])["round"] for title, _, _ in drawn], [3, 4])

    def test_transfers_that_overlap_have_rows_of_their_own(self):
        events = start()
        for local, begin, end in (("0x1", 1000, 9000), ("0x2", 2000, 8000)):
            shared = {"name": "upload", "pid": 1, "tid": 0, "id2": {"local": local}, "args": {"round": 0}}
            events += [{"ph": "b", "ts": begin, **shared}, {"ph": "e", "ts": end, **shared}]
        self.assertEqual(len(rectangles(tool.draw([events], 0, None))), 2)

    def test_any_name_may_be_drawn(self):
        events = start(name="<b>&") + [cut_slice("<i>\"'&", 1000.0, 2000.0, reason="</svg>")]
        ((title, _, _),) = rectangles(tool.draw([events], 0, None))
        self.assertIn("<i>\"'&", title)


if __name__ == "__main__":
    unittest.main()
