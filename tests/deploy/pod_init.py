"""Process 1 of a pod (see pods.py): makes its root file system out of this machine's /usr, and becomes the program."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

# What a Debian image has under /etc that programs read.
ETC = ("alternatives", "ld.so.cache", "nsswitch.conf", "passwd", "group")
DEVICES = ("null", "zero", "random", "urandom")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def bind(source, target, read_only):
    source, target = pathlib.Path(source), pathlib.Path(target)
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--bind", str(source), str(target))
    if read_only:
        mount("-o", "remount,bind,ro", str(target))


def make_root(spec):
    root = pathlib.Path(spec["root"])
    mount("-t", "tmpfs", "tmpfs", str(root))
    for path in pathlib.Path("/usr").iterdir():
        if path.is_dir() and not path.is_symlink() and path.name != "local":
            bind(path, root / "usr" / path.name, True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for program in map(pathlib.Path, spec["programs"]):
        bind(program, root / "usr/local/bin" / program.name, True)
    (root / "etc").mkdir()
    for path in (pathlib.Path("/etc") / name for name in ETC):
        if path.is_dir():
            shutil.copytree(path, root / "etc" / path.name, symlinks=True)
        else:
            shutil.copy(path, root / "etc" / path.name)
    shutil.copy(spec["hosts"], root / "etc/hosts")
    for name in DEVICES:
        bind(f"/dev/{name}", root / "dev" / name, False)
    (root / "proc").mkdir()
    mount("-t", "proc", "proc", str(root / "proc"))
    for volume in spec["mounts"]:
        bind(volume["source"], str(root) + volume["target"], volume["read_only"])
    mount("-o", "remount,ro", str(root))
    return root


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    root = make_root(spec)
    os.chroot(root)
    os.chdir("/")
    user = [f"--reuid={spec['user']}", f"--regid={spec['group']}", f"--groups={spec['fs_group']}"]
    confine = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **spec["environment"]}
    os.execve("/usr/bin/setpriv", ["setpriv", *user, *confine, "--", *spec["command"]], environment)


main()
