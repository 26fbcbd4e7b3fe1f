"""Pods without a cluster: programs started as the rendered manifests say, in namespaces of their own.

What a node would do is done here with Linux's own means: a network namespace a pod, joined by routers as regions are by
a WAN; a root file system that is read-only, with the volumes at the manifests' paths; the manifests' user and group, no
capabilities, no new privileges; the program as process 1, on as many CPUs as its limit says. Left out: seccomp's
profile, the limit of memory, and network policies.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import rendered

PATIENCE = 300.0  # Seconds: a failure's, not what anything takes.
POLL = 0.2  # Seconds: each look starts a process.
DIES_WITH_ITS_PARENT = ["setpriv", "--pdeathsig=KILL"]
FOLDER = pathlib.Path(__file__).resolve().parent


def await_true(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:.0f} s in vain: {what()}")
        time.sleep(POLL)


class Namespace:
    """A network namespace, kept by a process."""

    def __init__(self, name):
        self.name = name
        self.holder = subprocess.Popen(
            DIES_WITH_ITS_PARENT + ["unshare", "--net", "sh", "-c", "echo up; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        self.holder.stdout.readline()
        self.ip("link set lo up")

    def enter(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def ip(self, command):
        subprocess.run(self.enter() + ["ip"] + command.split(), check=True, capture_output=True)

    def forward(self):
        subprocess.run(self.enter() + ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], check=True)

    def get(self, url):
        """Status of an HTTP GET from here; 0: no connection."""
        script = (
            "import sys, urllib.request, urllib.error\n"
            "try: print(urllib.request.urlopen(sys.argv[1], timeout=5).status)\n"
            "except urllib.error.HTTPError as error: print(error.code)\n"
            "except OSError: print(0)"
        )
        done = subprocess.run(self.enter() + [sys.executable, "-c", script, url], capture_output=True, text=True)
        return int(done.stdout)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


def connect(first, first_address, second, second_address):
    """A link between two namespaces, with a route each way."""
    here, there = f"to-{second.name}"[:15], f"to-{first.name}"[:15]
    first.ip(f"link add {here} type veth peer name {there} netns {second.holder.pid}")
    for space, link, own, other in (
        (first, here, first_address, second_address),
        (second, there, second_address, first_address),
    ):
        space.ip(f"addr add {own}/32 dev {link}")
        space.ip(f"link set {link} up")
        space.ip(f"route add {other}/32 dev {link}")


def own(folder, group, mode):
    """As the kubelet does for a volume: root's, and the group's; files of a secret with its mode."""
    os.chown(folder, 0, group)
    folder.chmod(0o2775)
    for path in (path for path in folder.iterdir() if path.is_file()):
        os.chown(path, 0, group)
        if mode is not None:
            path.chmod(mode)


class Pod:
    """One pod of a StatefulSet. Its volumes outlive the process, as claims outlive pods."""

    def __init__(self, folder, overlay, name, network, hosts, programs, contents, image=None):
        """`programs`: what the image has in /usr/local/bin, its own first. `contents`: folders to mount for secrets and
        claims, by volume name. `image`: a folder with the image's files; None: this machine's, and the programs.
        """
        self.folder = pathlib.Path(folder) / name
        self.stateful_set = rendered.find(overlay, "StatefulSet", name)
        self.overlay = overlay
        self.network = network
        self.log = self.folder / "log"
        self.process = None
        (self.folder / "root").mkdir(parents=True)
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in hosts.items()))
        pod, container = rendered.pod_of(self.stateful_set), rendered.container_of(self.stateful_set)
        user = pod["securityContext"]
        self.spec = {
            "root": str(self.folder / "root"),
            "hosts": str(self.folder / "hosts"),
            "image": image,
            "cpus": int(container["resources"]["limits"]["cpu"]),
            "programs": [str(program) for program in programs],
            "user": user["runAsUser"],
            "group": user["runAsGroup"],
            "fs_group": user["fsGroup"],
            "mounts": [
                {
                    "source": str(self.source(mount["name"], pod, contents)),
                    "target": mount["mountPath"],
                    "read_only": mount.get("readOnly", False),
                }
                for mount in container["volumeMounts"]
            ],
            "command": [f"/usr/local/bin/{programs[0].name}"] + container["args"],
            "environment": rendered.environment_of(overlay, self.stateful_set),
        }
        (self.folder / "spec.json").write_text(json.dumps(self.spec))

    def source(self, volume, pod, contents):
        """The folder that a volume is, owned as the kubelet would have it."""
        if volume in contents:
            folder = pathlib.Path(contents[volume])
        else:
            folder = self.folder / volume
            folder.mkdir()
            for kind in (v["configMap"] for v in pod["volumes"] if v["name"] == volume and "configMap" in v):
                for name, text in rendered.find(self.overlay, "ConfigMap", kind["name"])["data"].items():
                    (folder / name).write_text(text)
        own(
            folder,
            pod["securityContext"]["fsGroup"],
            next((v["secret"]["defaultMode"] for v in pod["volumes"] if v["name"] == volume and "secret" in v), None),
        )
        return folder

    def volume(self, mount_path):
        (source,) = [mount["source"] for mount in self.spec["mounts"] if mount["target"] == mount_path]
        return pathlib.Path(source)

    def start(self):
        command = (
            DIES_WITH_ITS_PARENT
            + self.network.enter()
            + [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--propagation=private",
                sys.executable,
                "-B",
                str(FOLDER / "pod_init.py"),
                str(self.folder / "spec.json"),
            ]
        )
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def pid(self):
        """Of process 1 inside, as seen from outside."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def status(self):
        lines = pathlib.Path(f"/proc/{self.pid()}/status").read_text().splitlines()
        return {key: value.split() for key, value in (line.split(":", 1) for line in lines)}

    def text(self):
        return self.log.read_text(errors="replace")

    def await_log(self, text):
        await_true(lambda: text in self.text(), lambda: f"{text} in {self.text()[-2000:]}")

    def await_probe(self, probe, node, address):
        """What the kubelet asks, from the node."""
        container = rendered.container_of(self.stateful_set)
        get = container[f"{probe}Probe"]["httpGet"]
        (port,) = [p["containerPort"] for p in container["ports"] if p["name"] == get["port"]]
        url = f"http://{address}:{port}{get['path']}"
        await_true(
            lambda: self.process.poll() is not None or node.get(url) == 200, lambda: f"{url}: {self.text()[-2000:]}"
        )
        assert self.process.poll() is None, self.text()[-2000:]

    def delete(self):
        """What the kubelet does: SIGTERM, then the grace period of the manifest. Returns the exit code."""
        os.kill(self.pid(), signal.SIGTERM)
        return self.wait()

    def wait(self):
        grace = rendered.pod_of(self.stateful_set)["terminationGracePeriodSeconds"]
        return self.process.wait(timeout=min(grace, PATIENCE))

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
