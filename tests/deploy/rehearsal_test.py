"""A rehearsal of the deployment: region A's coordinator and worker and region B's worker, started with exactly what the
rendered manifests give them, train one model across a WAN, through what a cluster does to pods. With its fixed schedule
the run has to end at the bits of `diloco-worker simulate`, whatever happened on the way.

Usage: rehearsal_test.py BIN     needs root and the right to make namespaces; else it is skipped
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import pods
import rendered
from pods import Namespace, Pod, await_true, connect

ROUNDS = 30
EXTERNAL = "203.0.113.10"  # The overlays' examples.
COORDINATOR, EAST, WEST = "10.1.0.2", "10.1.0.3", "198.51.100.7"
NODE_A, NODE_B = "10.1.0.1", "198.51.100.1"
WAN_A, WAN_B = "192.0.2.1", "192.0.2.2"


def overlay(folder, base, run):
    """The region's overlay with what a test changes: a tiny model, no GPU."""
    path = folder / base
    path.mkdir()
    (path / "run.yaml").write_text(run)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(rendered.KUSTOMIZE / "overlays" / base, path)],
        "patches": [
            {
                "target": {"kind": "StatefulSet", "labelSelector": "app.kubernetes.io/name=diloco-worker"},
                "patch": json.dumps(
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "metadata": {"name": "any"},
                        "spec": {
                            "template": {
                                "spec": {
                                    "containers": [
                                        {
                                            "name": "worker",
                                            "env": [
                                                {"name": "DILOCO_DEVICE", "value": "cpu"},
                                                {"name": "DILOCO_THREADS", "value": "1"},
                                            ],
                                        }
                                    ]
                                }
                            }
                        },
                    }
                ),
            }
        ],
    }
    if base == "region-a":
        kustomization["configMapGenerator"] = [{"name": "run", "behavior": "replace", "files": ["run.yaml"]}]
    (path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return str(path)


def run_config():
    """Region A's run with a tiny model and a fixed schedule."""
    run = yaml.safe_load((rendered.KUSTOMIZE / "overlays/region-a/run.yaml").read_text())
    return yaml.safe_dump(
        {
            "run": run["run"] | {"rounds": ROUNDS},
            "method": run["method"],
            "inner_steps": 4,
            "max_late": 0,
            "model": {"layers": 2, "width": 32, "heads": 2, "sequence": 32},
            "inner": {"rate": 0.003, "warmup_steps": 4, "batch_size": 4},
            "rounds": {"quorum": 2, "heartbeat_interval": "200ms", "lease": "60s"},
            "eval": {"every": 5, "sequences": 16},
        }
    )


def may_make_namespaces():
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


class RehearsalTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="diloco-rehearsal-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.make_network()
        self.make_pods()

    def make_network(self):
        self.spaces = {}
        for name in ("coordinator", "east", "west", "node-a", "node-b"):
            self.spaces[name] = Namespace(name)
            self.addCleanup(self.spaces[name].close)
        node_a, node_b = self.spaces["node-a"], self.spaces["node-b"]
        for pod, address, node, node_address in (
            ("coordinator", COORDINATOR, node_a, NODE_A),
            ("east", EAST, node_a, NODE_A),
            ("west", WEST, node_b, NODE_B),
        ):
            connect(self.spaces[pod], address, node, node_address)
            self.spaces[pod].ip(f"route add default via {node_address}")
        connect(node_a, WAN_A, node_b, WAN_B)
        node_a.ip(f"route add default via {WAN_B}")
        node_b.ip(f"route add default via {WAN_A}")
        # The load balancer.
        self.spaces["coordinator"].ip(f"addr add {EXTERNAL}/32 dev lo")
        node_a.ip(f"route add {EXTERNAL}/32 via {COORDINATOR}")
        for node in (node_a, node_b):
            node.forward()

    def make_pods(self):
        overlays = {name: overlay(self.folder, name, run_config()) for name in ("region-a", "region-b")}
        data = {}
        for name, source in (("east", "common"), ("west", "coordinator")):
            data[name] = self.folder / f"data-{name}"
            data[name].mkdir()
            texts = sorted((rendered.SOURCE / source).rglob("*.h"))
            (data[name] / "train").write_text("".join(path.read_text() for path in texts)[:50_000])
            shutil.copy(rendered.SOURCE / "README.md", data[name] / "held-out")
        names = {"region-a": {"coordinator": COORDINATOR}, "region-b": {"coordinator.example.com": EXTERNAL}}

        self.certificates = self.folder / "certificates"
        names_of_coordinator = rendered.find("region-a", "Certificate", "coordinator")["spec"]["dnsNames"]
        self.certs(
            "init",
            "--run",
            "eager-300m",
            "--worker",
            "east",
            "--worker",
            "west",
            *(f"--coordinator-name={name}" for name in names_of_coordinator),
        )

        def pod(region, name, space, programs, contents):
            contents["tls"] = self.certificates / name
            made = Pod(
                self.folder,
                overlays[region],
                name,
                self.spaces[space],
                names[region],
                [BIN / program for program in programs],
                contents,
            )
            self.addCleanup(made.close)
            return made

        self.coordinator = pod("region-a", "coordinator", "coordinator", ["diloco-coordinator", "dilococtl"], {})
        self.east = pod("region-a", "worker-east", "east", ["diloco-worker"], {"data": data["east"]})
        self.west = pod("region-b", "worker-west", "west", ["diloco-worker"], {"data": data["west"]})

    def certs(self, verb, *arguments):
        """What cert-manager does."""
        subprocess.run(
            [BIN / "dilococtl", "certs", verb, *arguments, "--out", self.certificates], check=True, capture_output=True
        )

    def status(self):
        """An admin's, by way of a forwarded port."""
        files = {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt"}
        tls = [f"--tls-{flag}={self.certificates / 'admin' / name}" for flag, name in files.items()]
        command = self.spaces["coordinator"].enter() + [
            BIN / "dilococtl",
            "--coordinator",
            "localhost:7070",
            *tls,
            "-o",
            "json",
            "status",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=pods.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def await_rounds(self, count):
        def about():
            return "\n".join(
                [str(self.status())] + [pod.text()[-2000:] for pod in (self.coordinator, self.east, self.west)]
            )

        await_true(lambda: int(self.status()["rounds_committed"]) >= count, about)

    def await_ready(self, pod, node, address):
        for probe in ("startup", "liveness", "readiness"):
            pod.await_probe(probe, self.spaces[node], address)

    def check_confined(self, pod):
        status = pod.status()
        self.assertEqual(status["Uid"], ["10001"] * 4)
        self.assertEqual(status["Gid"], ["10001"] * 4)
        self.assertEqual({status[f"Cap{kind}"][0].strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd")}, {""})
        self.assertEqual(status["NoNewPrivs"], ["1"])
        root = pathlib.Path(f"/proc/{pod.pid()}/root")
        with self.assertRaises(OSError):
            (root / "written").touch()

    def simulated_losses(self):
        """{version: loss} of the same run in one process."""
        config = self.folder / "region-a" / "run.yaml"
        workers = [
            f"--worker={pod.spec['environment']['DILOCO_ID']}={pod.volume('/data') / 'train'}"
            for pod in (self.east, self.west)
        ]
        command = [
            BIN / "diloco-worker",
            "simulate",
            "--config",
            config,
            *workers,
            "--threads",
            "1",
            "--held-out",
            self.east.volume("/data") / "held-out",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=pods.PATIENCE, check=True)
        return {line["version"]: line["loss"] for line in map(json.loads, done.stdout.splitlines())}

    def test_trains_across_regions(self):
        for pod in (self.west, self.east, self.coordinator):  # None needs another to be there first.
            pod.start()
        self.await_ready(self.coordinator, "node-a", COORDINATOR)
        self.await_ready(self.east, "node-a", EAST)
        self.await_ready(self.west, "node-b", WEST)
        self.check_confined(self.coordinator)
        self.check_confined(self.east)
        self.check_confined(self.west)

        with self.subTest("a worker's pod is deleted and comes back"):
            self.await_rounds(3)
            self.assertEqual(self.west.delete(), 0, self.west.text())
            self.assertTrue(list(self.west.volume("/var/lib/diloco").rglob("*")), "no checkpoint")
            self.west.start()
            self.await_ready(self.west, "node-b", WEST)
            self.west.await_log("event=resumed")

        with self.subTest("certificates are renewed"):
            self.certs("issue")
            for pod in (self.coordinator, self.east, self.west):
                pods.own(pod.volume("/etc/diloco/tls"), 10001, 0o440)

        with self.subTest("the coordinator's pod is deleted and comes back"):
            self.await_rounds(int(self.status()["rounds_committed"]) + 3)
            self.assertEqual(self.coordinator.delete(), 0, self.coordinator.text())
            self.coordinator.start()
            self.await_ready(self.coordinator, "node-a", COORDINATOR)

        for count in range(5, ROUNDS + 1, 5):
            self.await_rounds(count)
        for pod in (self.east, self.west):
            self.assertEqual(pod.wait(), 0, pod.text())
        status = self.status()
        self.assertEqual(status["run_id"], self.east.spec["environment"]["DILOCO_RUN"])
        simulated = self.simulated_losses()
        evaluations = {int(e["version"]): e["loss"] for e in status["evaluations"]}
        self.assertIn(ROUNDS, evaluations)
        for version, loss in evaluations.items():
            self.assertEqual(loss, simulated[version], f"version {version}")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1))
    if not may_make_namespaces():
        print("SKIPPED: only root, with the right to make namespaces, can rehearse", file=sys.stderr)
        sys.exit(77)
    unittest.main()
