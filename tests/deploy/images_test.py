"""What the Dockerfiles say: every file that they copy is there, the lists are what they install, nobody is root."""

import json
import pathlib
import re
import shlex
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "deploy" / "docker"
PROGRAMS = {
    "coordinator": ["diloco-coordinator", "dilococtl"],
    "worker": ["diloco-worker"],
    "worker-gpu": ["diloco-worker"],
}
LABELS = {
    f"org.opencontainers.image.{key}" for key in ("title", "description", "source", "licenses", "version", "revision")
}


def instructions(name):
    """[(instruction, rest)] of a Dockerfile, continued lines joined."""
    text = (FOLDER / f"{name}.Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).split("\n")]


def stages(name):
    result = []
    for instruction, rest in instructions(name):
        if instruction == "FROM":
            result.append([])
        if result:
            result[-1].append((instruction, rest))
    return result


def packages(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


class DockerfilesTest(unittest.TestCase):
    def each(self, check):
        for name in PROGRAMS:
            with self.subTest(image=name):
                check(name)

    def test_there_are_the_three(self):
        self.assertEqual({path.stem for path in FOLDER.glob("*.Dockerfile")}, set(PROGRAMS))

    def test_are_of_two_stages_on_one_base(self):
        def check(name):
            self.assertEqual(instructions(name)[0], ("ARG", "BASE=debian:12-slim"))
            self.assertEqual([stage[0][1] for stage in stages(name)], ["${BASE} AS build", "${BASE}"])

        self.each(check)

    def test_run_as_somebody_with_a_fixed_id(self):
        def check(name):
            final = stages(name)[-1]
            self.assertEqual([rest for what, rest in final if what == "USER"], ["10001:10001"])
            self.assertFalse([rest for what, rest in final[final.index(("USER", "10001:10001")) :] if what == "RUN"])
            (user,) = [rest for what, rest in final if what == "RUN" and rest.startswith("useradd ")]
            self.assertIn("--uid 10001 --user-group", user)

        self.each(check)

    def test_start_the_program_itself(self):
        """No shell between, so that signals reach it."""

        def check(name):
            (entry,) = [json.loads(rest) for what, rest in stages(name)[-1] if what == "ENTRYPOINT"]
            self.assertEqual(entry, [f"/usr/local/bin/{PROGRAMS[name][0]}"])
            self.assertFalse({"CMD", "ADD", "SHELL", "VOLUME"} & {what for what, _ in instructions(name)})

        self.each(check)

    def test_build_and_copy_the_same_programs(self):
        def check(name):
            build, final = stages(name)
            (command,) = [rest for what, rest in build if what == "RUN" and "cmake --build" in rest]
            self.assertEqual(command.split(" --target ")[1].split(), PROGRAMS[name])
            copied = [rest.split()[1:] for what, rest in final if what == "COPY" and "/source/build/bin/" in rest]
            self.assertEqual(
                copied, [[f"/source/build/bin/{program}" for program in PROGRAMS[name]] + ["/usr/local/bin/"]]
            )

        self.each(check)

    def test_copy_files_that_exist_and_get_into_the_context(self):
        rules = [line for line in (SOURCE / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
        self.assertEqual(rules[0], "*")
        admitted = [rule[1:] for rule in rules[1:]]
        for path in admitted:
            self.assertTrue((SOURCE / path).exists(), path)

        def check(name):
            for what, rest in instructions(name):
                if what != "COPY" or rest.startswith("--from=build "):
                    continue
                for source in rest.split()[:-1]:
                    self.assertTrue((SOURCE / source).exists(), source)
                    self.assertTrue(
                        source == "." or any(source == p or source.startswith(p + "/") for p in admitted), source
                    )

        self.each(check)

    def test_install_the_lists_and_nothing_else(self):
        used = set()

        def check(name):
            for stage, lists in zip(stages(name), (["build"], [name])):
                runs = [rest for what, rest in stage if what == "RUN"]
                self.assertFalse([run for run in runs if "apt-get" in run])
                installed = [match[1] for run in runs for match in re.finditer(r"packages-([\w-]+)\.txt", run)]
                self.assertEqual(installed[:1], lists)
                copied = {
                    match[1]
                    for what, rest in stage
                    if what == "COPY"
                    for match in re.finditer(r"packages-([\w-]+)\.txt", rest)
                }
                self.assertEqual(copied, set(installed))
                used.update(installed)

        self.each(check)
        self.assertEqual({path.stem.removeprefix("packages-") for path in FOLDER.glob("packages-*.txt")}, used)

    def test_say_what_they_are(self):
        version = re.search(r"project\(diloco VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]

        def check(name):
            (labels,) = [shlex.split(rest) for what, rest in instructions(name) if what == "LABEL"]
            labels = dict(label.split("=", 1) for label in labels)
            self.assertEqual(set(labels), LABELS)
            self.assertEqual(
                labels["org.opencontainers.image.title"],
                {"coordinator": "diloco-coordinator"}.get(name, f"diloco-{name}"),
            )
            self.assertIn(("ARG", f"VERSION={version}"), instructions(name))

        self.each(check)

    def test_what_they_are_built_with_is_what_everybody_builds_with(self):
        everything = packages(SOURCE / "deploy" / "packages.txt")
        for path in FOLDER.glob("packages-build*.txt"):
            self.assertLessEqual(set(packages(path)), set(everything), path.name)


def packages_needed(programs):
    """Packages of the shared libraries that built programs name, less those that every program has."""
    dynamic = subprocess.run(["readelf", "--dynamic", *programs], capture_output=True, text=True, check=True).stdout
    patterns = {f"*-linux-gnu/{library}" for library in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)}
    owners = subprocess.run(["dpkg-query", "--search", *patterns], capture_output=True, text=True).stdout
    return {line.split(":")[0] for line in owners.splitlines()} - {"libc6", "libstdc++6", "libgcc-s1"}


class PackagesTest(unittest.TestCase):
    """The lists name the packages of the libraries that the programs are linked with, and no others."""

    def needed(self, name):
        programs = [PROGRAMS_FOLDER / program for program in PROGRAMS[name]]
        if not all(program.exists() for program in programs):
            self.skipTest(f"{programs} are not built here")
        return packages_needed(programs)

    def test_of_the_coordinator(self):
        self.assertEqual(set(packages(FOLDER / "packages-coordinator.txt")), self.needed("coordinator"))

    def test_of_the_worker(self):
        needed = self.needed("worker")
        if "libtorch1.13" not in needed:
            self.skipTest("the worker here is built with another LibTorch")
        self.assertEqual(set(packages(FOLDER / "packages-worker.txt")) - {"libopenblas0-openmp"}, needed)
        self.assertEqual(set(packages(FOLDER / "packages-worker-gpu.txt")), needed - {"libtorch1.13"})


if __name__ == "__main__":
    import sys

    PROGRAMS_FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
