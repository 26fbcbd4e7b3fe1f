"""The built programs know each flag and each variable that the manifests give them.

Usage: programs_test.py BIN     the worker's part is left out where no diloco-worker is built
"""

import pathlib
import re
import subprocess
import sys
import unittest

from rendered import OVERLAYS, app_of, environment_of, flags_of, of_kind


def run(*arguments):
    return subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, timeout=300)


class ProgramsTest(unittest.TestCase):
    def test_know_every_flag_and_variable(self):
        for program in ("diloco-coordinator", "diloco-worker"):
            if not (BIN / program).exists():
                continue
            help_text = run(BIN / program, "--help").stdout
            flags = set(re.findall(r"^ +(?:-\w,)?(--[\w-]+)", help_text, re.M))
            variables = set(re.findall(r"\(Env:(\w+)\)", help_text))
            self.assertGreater(min(len(flags), len(variables)), 5, help_text)
            for overlay in OVERLAYS:
                for item in of_kind(overlay, "StatefulSet"):
                    if app_of(item) == program:
                        with self.subTest(overlay=overlay, pod=item["metadata"]["name"]):
                            self.assertEqual(set(flags_of(item)) - flags, set())
                            self.assertEqual(set(environment_of(overlay, item)) - variables, set())


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
