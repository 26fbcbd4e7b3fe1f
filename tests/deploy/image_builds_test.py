"""The images are built from their Dockerfiles, on a base made from Debian's packages, and the laptop's overlay trains
with them. It takes many minutes, and gigabytes in STORAGE, where the next run finds what it can use again.

Usage: image_builds_test.py STORAGE     needs root; skipped without it, or where Debian's mirror cannot be reached
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import rendered
from pods import Namespace, Pod, await_true, connect

MIRROR = "http://deb.debian.org/debian"
BASE = "localhost/diloco-base"
PODS = {
    "coordinator": ("10.2.0.2", "coordinator"),
    "worker-east": ("10.2.0.3", "worker"),
    "worker-west": ("10.2.0.4", "worker"),
}
NODE = "10.2.0.1"


def buildah(*arguments):
    command = ["buildah", "--root", STORAGE / "root", "--runroot", STORAGE / "run", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-4000:]}")
    return done.stdout.strip()


def make_base():
    """What debian:12-slim is, but for the files that it leaves out."""
    if BASE in buildah("images", "--format", "{{.Name}}").splitlines():
        return
    with tempfile.TemporaryDirectory(dir=STORAGE) as folder:
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", f"{folder}/tree", MIRROR],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run(
            ["tar", "--directory", f"{folder}/tree", "--create", "--file", f"{folder}/tree.tar", "."], check=True
        )
        shutil.rmtree(f"{folder}/tree")
        pathlib.Path(folder, "Dockerfile").write_text("FROM scratch\nADD tree.tar /\n")
        buildah("bud", "--isolation", "chroot", "--tag", BASE, folder)


class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_base()
        cls.roots = {}
        cls.configurations = {}
        for name in ("coordinator", "worker"):
            tag = f"localhost/diloco-{name}"
            buildah(
                "bud",
                "--isolation",
                "chroot",
                "--layers",
                "--build-arg",
                f"BASE={BASE}",
                "--build-arg",
                "REVISION=tested",
                "--file",
                rendered.SOURCE / "deploy/docker" / f"{name}.Dockerfile",
                "--tag",
                tag,
                rendered.SOURCE,
            )
            cls.configurations[name] = json.loads(buildah("inspect", "--type", "image", tag))["OCIv1"]["config"]
            container = buildah("from", tag).splitlines()[-1]
            cls.addClassCleanup(buildah, "rm", container)
            cls.roots[name] = buildah("mount", container).splitlines()[-1]

    def test_say_what_they_are_and_who_runs_them(self):
        for name, configuration in self.configurations.items():
            self.assertEqual(configuration["User"], "10001:10001")
            self.assertEqual(configuration["Entrypoint"], [f"/usr/local/bin/diloco-{name}"])
            self.assertEqual(configuration["Labels"]["org.opencontainers.image.revision"], "tested")
            passwd = pathlib.Path(self.roots[name], "etc/passwd").read_text()
            self.assertIn("diloco:x:10001:10001:", passwd)

    def test_hold_nothing_that_builds(self):
        for root in self.roots.values():
            for path in ("source", "usr/bin/g++", "usr/bin/cmake", "usr/include/google/protobuf"):
                self.assertFalse(pathlib.Path(root, path).exists(), path)

    def test_programs_say_their_version(self):
        for name, program in (
            ("coordinator", "diloco-coordinator"),
            ("coordinator", "dilococtl"),
            ("worker", "diloco-worker"),
        ):
            command = ["chroot", "--userspec=10001:10001", self.roots[name], f"/usr/local/bin/{program}", "--version"]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertRegex(done.stdout, rf"^{program} \d+\.\d+\.\d+\n$", done.stderr)

    def test_train_as_the_laptop_has_it(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="diloco-images-"))
        self.addCleanup(shutil.rmtree, folder)
        node = Namespace("node")
        self.addCleanup(node.close)
        node.forward()
        pods = {}
        for name, (address, image) in PODS.items():
            space = Namespace(name)
            self.addCleanup(space.close)
            connect(space, address, node, NODE)
            space.ip(f"route add default via {NODE}")
            programs = [pathlib.Path(self.configurations[image]["Entrypoint"][0])]
            pods[name] = Pod(
                folder, "laptop", name, space, {"coordinator": PODS["coordinator"][0]}, programs, {}, self.roots[image]
            )
            self.addCleanup(pods[name].close)
            pods[name].start()
        for name, pod in pods.items():
            for probe in ("startup", "liveness", "readiness"):
                pod.await_probe(probe, node, PODS[name][0])

        def status():
            """What `kubectl exec coordinator-0 -- dilococtl status` says."""
            command = [
                "nsenter",
                "--target",
                str(pods["coordinator"].pid()),
                "--mount",
                "--net",
                "--pid",
                "--root",
                "--setuid=10001",
                "--setgid=10001",
                "/usr/local/bin/dilococtl",
                "--output",
                "json",
                "status",
            ]
            return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        await_true(lambda: int(status()["rounds_committed"]) >= 3, status)
        self.assertEqual(pods["worker-west"].delete(), 0)
        pods["worker-west"].start()
        pods["worker-west"].await_log("event=resumed")
        seen = int(status()["rounds_committed"])
        await_true(lambda: int(status()["rounds_committed"]) >= seen + 3, status)
        for name in reversed(PODS):
            self.assertEqual(pods[name].delete(), 0, pods[name].text())


def mirror_answers():
    done = subprocess.run(["apt-get", "update", "--quiet"], capture_output=True, text=True)
    return done.returncode == 0 and "Failed to fetch" not in done.stderr


if __name__ == "__main__":
    STORAGE = pathlib.Path(sys.argv.pop(1))
    if os.geteuid() != 0:
        print("SKIPPED: only root can build images here", file=sys.stderr)
        sys.exit(77)
    if not mirror_answers():
        print("SKIPPED: Debian's mirror cannot be reached, which images are made from", file=sys.stderr)
        sys.exit(77)
    STORAGE.mkdir(parents=True, exist_ok=True)
    unittest.main()
