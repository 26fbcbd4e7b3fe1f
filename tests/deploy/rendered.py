"""The manifests as a cluster would get them: every overlay, rendered by kubectl."""

import functools
import pathlib
import subprocess

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KUSTOMIZE = SOURCE / "deploy" / "kustomize"
OVERLAYS = sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir())


@functools.cache
def render(overlay):
    """The objects of an overlay, in order."""
    done = subprocess.run(
        ["kubectl", "kustomize", KUSTOMIZE / "overlays" / overlay], capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0 or done.stderr:  # Its warnings are of deprecated fields.
        raise AssertionError(f"{overlay}: {done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


def of_kind(overlay, kind):
    return [item for item in render(overlay) if item["kind"] == kind]


def find(overlay, kind, name):
    found = [item for item in of_kind(overlay, kind) if item["metadata"]["name"] == name]
    assert len(found) == 1, f"{overlay} has {len(found)} of {kind} {name}"
    return found[0]


def name_of(item):
    return f"{item['kind']} {item['metadata']['name']}"


def app_of(item):
    return item["metadata"]["labels"]["app.kubernetes.io/name"]


def pod_of(stateful_set):
    return stateful_set["spec"]["template"]["spec"]


def container_of(stateful_set):
    (container,) = pod_of(stateful_set)["containers"]
    return container


def environment_of(overlay, stateful_set):
    """The container's variables as its program sees them."""
    container = container_of(stateful_set)
    variables = {}
    for source in container.get("envFrom", []):
        variables.update(find(overlay, "ConfigMap", source["configMapRef"]["name"])["data"])
    for variable in container.get("env", []):
        variables[variable["name"]] = variable["value"]
    return variables


def flags_of(stateful_set):
    """{"--data-dir": "/var/lib/diloco/data"}: all are written with an equals sign."""
    return dict(argument.split("=", 1) for argument in container_of(stateful_set)["args"])


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def run_config_of(overlay):
    """The text of run.yaml that the overlay's coordinator gets."""
    (coordinator,) = [item for item in of_kind(overlay, "StatefulSet") if app_of(item) == "diloco-coordinator"]
    (name,) = [v["configMap"]["name"] for v in pod_of(coordinator)["volumes"] if "configMap" in v]
    return find(overlay, "ConfigMap", name)["data"]["run.yaml"]
