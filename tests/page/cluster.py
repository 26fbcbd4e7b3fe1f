"""A real coordinator and synthetic workers, as processes. DILOCO_BIN: the build's folder of programs; DILOCO_TESTS:
that of the test programs."""

import json
import os
import select
import signal
import subprocess
import time

from browser import PATIENCE

HELD = 6  # Exit code of `dilococtl status`.


def program(name):
    return os.path.join(os.environ["DILOCO_BIN"], name)


class Coordinator:
    """Files go into `folder`; `data`: the name of its data folder there. Its ports stay the same over restarts."""

    def __init__(self, folder, yaml, data="data"):
        self._folder = folder
        self._data = os.path.join(folder, data)
        self._ports = {"listen": "127.0.0.1:0", "http": "127.0.0.1:0"}
        self._process = None
        with open(os.path.join(folder, "run.yaml"), "w") as config:
            config.write(yaml)

    def start(self):
        port_file = os.path.join(self._folder, "ports.json")
        if os.path.exists(port_file):
            os.remove(port_file)
        with open(os.path.join(self._folder, "coordinator.log"), "ab") as log:
            self._process = subprocess.Popen(
                [program("diloco-coordinator"), "--config", os.path.join(self._folder, "run.yaml"),
                 "--data-dir", self._data, "--listen", self._ports["listen"], "--http", self._ports["http"],
                 "--port-file", port_file],
                stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(port_file):
            if time.monotonic() > deadline or self._process.poll() is not None:
                with open(os.path.join(self._folder, "coordinator.log")) as log:
                    raise RuntimeError("the coordinator did not start:\n" + log.read())
            select.select([], [], [], 0.02)
        with open(port_file) as ports:
            self._ports = json.load(ports)

    @property
    def url(self):
        return f"http://{self._ports['http']}/"

    @property
    def address(self):
        return self._ports["listen"]

    @property
    def data(self):
        return self._data

    def ctl(self, *arguments):
        finished = subprocess.run([program("dilococtl"), "--coordinator", self.address, *arguments, "-o", "json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
        if finished.returncode not in (0, HELD):
            raise RuntimeError(finished.stderr.decode())
        return json.loads(finished.stdout)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        """As at the end of a test, whatever became of it."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)


class Workers:
    """`count` synthetic workers in one process: `name` for one, `name`0, `name`1, ... for several."""

    def __init__(self, coordinator, name, count=1, seed=0, step_ms=10, elements=20000):
        self._process = subprocess.Popen(
            [os.path.join(os.environ["DILOCO_TESTS"], "synthetic_worker"), "--coordinator", coordinator.address, "--id",
             name, "--workers", str(count), "--worker", str(seed), "--elements", str(elements), "--tensors", "8",
             "--step-ms", str(step_ms), "--log-level", "error"],
            stderr=subprocess.DEVNULL)

    def kill(self):
        self._process.kill()
        self._process.wait()
