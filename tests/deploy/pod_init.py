"""Process 1 of a pod (see pods.py): makes its root file system, of an image or of this machine's /usr, and becomes the
program.
"""

import json
import os
import pathlib
import random
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


def fill_from_machine(root, programs):
    """What a Debian image with the programs has, as far as they see."""
    for path in pathlib.Path("/usr").iterdir():
        if path.is_dir() and not path.is_symlink() and path.name != "local":
            bind(path, root / "usr" / path.name, True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for program in map(pathlib.Path, programs):
        bind(program, root / "usr/local/bin" / program.name, True)
    (root / "etc").mkdir()
    for path in (pathlib.Path("/etc") / name for name in ETC):
        if path.is_dir():
            shutil.copytree(path, root / "etc" / path.name, symlinks=True)
        else:
            shutil.copy(path, root / "etc" / path.name)


def make_root(spec):
    top = pathlib.Path(spec["root"])
    mount("-t", "tmpfs", "tmpfs", str(top))
    root = top / "root"
    for name in ("root", "upper", "work"):
        (top / name).mkdir()
    if spec["image"]:
        layers = f"lowerdir={spec['image']},upperdir={top}/upper,workdir={top}/work"
        mount("-t", "overlay", "overlay", "-o", layers, str(root))
    else:
        mount("--bind", str(root), str(root))
        fill_from_machine(root, spec["programs"])
    shutil.copy(spec["hosts"], root / "etc/hosts")
    # Whatever else is asked for is refused at once, as a cluster's name server would, and not after a time-out.
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
    for name in DEVICES:
        bind(f"/dev/{name}", root / "dev" / name, False)
    (root / "proc").mkdir(exist_ok=True)
    mount("-t", "proc", "proc", str(root / "proc"))
    for volume in spec["mounts"]:
        bind(volume["source"], str(root) + volume["target"], volume["read_only"])
    mount("-o", "remount,bind,ro" if not spec["image"] else "remount,ro", str(root))
    return root


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, random.sample(usable, min(spec["cpus"], len(usable))))
    root = make_root(spec)
    os.chroot(root)
    os.chdir("/")
    user = [f"--reuid={spec['user']}", f"--regid={spec['group']}", f"--groups={spec['fs_group']}"]
    # The last is so that it ends with the process that waits for it, which the kernel forgets as the user changes.
    confine = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--pdeathsig=KILL"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **spec["environment"]}
    os.execve("/usr/bin/setpriv", ["setpriv", *user, *confine, "--", *spec["command"]], environment)


main()
