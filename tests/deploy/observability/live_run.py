"""A real run under a real Prometheus: coordinator, synthetic workers, and the shipped scrape configuration."""

import json
import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

import files

BUILD = pathlib.Path(os.environ["DILOCO_BUILD"])
PATIENCE = 120.0  # Seconds; deadline of what takes a moment, on a machine that may be busy.
RUN = "demo"

CONFIG = """
run: {id: demo, workers: 3, rounds: 1000000}
method: eager
inner_steps: 4
rounds: {heartbeat_interval: 100ms, lease: 60s, snapshot_every: 4, quorum: 2}
eval: {every: 2}
"""


def wait_for(what, condition):
    """The first true value of `condition()`."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE} s: {what}")


class LiveRun:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = {}

    def start(self):
        (self.folder / "run.yaml").write_text(CONFIG)
        self._spawn("coordinator", BUILD / "bin" / "diloco-coordinator", "--config", self.folder / "run.yaml",
                    "--data-dir", self.folder / "data", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                    "--port-file", self.folder / "coordinator.json")
        ports = self._ports("coordinator")
        self.address = ports["listen"]
        self.targets = {"coordinator": ports["http"]}
        for worker in ("east", "north", "west"):
            self._spawn(worker, BUILD / "tests" / "synthetic_worker", "--coordinator", self.address, "--id", worker,
                        "--elements", "1000", "--tensors", "4", "--step-ms", "5", "--checkpoint-folder",
                        self.folder / f"{worker}.checkpoints", "--checkpoint-every", "5", "--port-file",
                        self.folder / f"{worker}.json")
            self.targets[worker] = self._ports(worker)["http"]
        self._start_prometheus()

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def ctl(self, *arguments):
        subprocess.run([BUILD / "bin" / "dilococtl", "--coordinator", self.address, *arguments], check=True,
                       capture_output=True, timeout=PATIENCE)

    def scrape(self, target):
        with urllib.request.urlopen(f"http://{self.targets[target]}/metrics", timeout=PATIENCE) as response:
            return response.read().decode()

    def api(self, path, **parameters):
        url = f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        wait_for("Prometheus", self._ready)
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return json.load(response)["data"]

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.prometheus}/-/ready", timeout=PATIENCE) as response:
                return response.status == 200
        except urllib.error.URLError:  # Not listening yet, or 503.
            return False

    def query(self, expression):
        """Labels and value of each series."""
        result = self.api("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def _spawn(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)

    def _alive(self, name):
        if self.processes[name].poll() is not None:
            raise AssertionError(f"{name} has ended:\n{self.log(name)}")

    def _ports(self, name):
        path = self.folder / f"{name}.json"

        def written():
            self._alive(name)
            return path.exists()

        wait_for(f"{name}'s ports", written)
        return json.loads(path.read_text())

    def _start_prometheus(self):
        """The shipped configuration, of these targets and with this test's intervals."""
        config = yaml.safe_load(files.PROMETHEUS.read_text())
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        config["rule_files"] = [str(files.OBSERVABILITY / path) for path in config["rule_files"]]
        jobs = {job["job_name"]: job for job in config["scrape_configs"]}
        jobs["diloco-coordinator"]["static_configs"] = [
            {"targets": [self.targets["coordinator"]], "labels": {"run": RUN}}]
        jobs["diloco-worker"]["static_configs"] = [
            {"targets": [address], "labels": {"run": RUN, "worker": worker}}
            for worker, address in self.targets.items() if worker != "coordinator"]
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._spawn("prometheus", "prometheus", f"--config.file={self.folder}/prometheus.yaml",
                    f"--storage.tsdb.path={self.folder}/tsdb", "--web.listen-address=127.0.0.1:0")

        def listening():
            self._alive("prometheus")
            return re.search(r'msg="Listening on" address=(\S+)', self.log("prometheus"))

        self.prometheus = wait_for("Prometheus", listening).group(1)
        wait_for("a ready Prometheus", self._is_ready)

    def _is_ready(self):
        self._alive("prometheus")
        try:
            with urllib.request.urlopen(f"http://{self.prometheus}/-/ready", timeout=PATIENCE):
                return True
        except urllib.error.HTTPError:
            return False
