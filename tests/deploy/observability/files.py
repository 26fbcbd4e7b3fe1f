"""What the project says about its metrics: their names, dashboards, alerts and documents."""

import json
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
OBSERVABILITY = ROOT / "deploy" / "observability"
DASHBOARDS = sorted((OBSERVABILITY / "dashboards").glob("*.json"))
RULES = OBSERVABILITY / "alerts" / "diloco.rules.yaml"
PROMETHEUS = OBSERVABILITY / "prometheus.yaml"
RUNBOOK = ROOT / "deploy" / "RUNBOOK.md"
README = ROOT / "README.md"
NAMES = ROOT / "common" / "metrics" / "names.h"
ALERT_TESTS = pathlib.Path(__file__).parent / "alerts"

METRIC = re.compile(r"\b(?:diloco|process)_[a-z0-9_]*[a-z0-9]\b(?!:)")


def defined():
    """Every metric of names.h."""
    return set(re.findall(r'"((?:diloco|process)_[a-z_]+)"', NAMES.read_text()))


def named(text):
    """The metrics that a text names; of a histogram's series, the histogram."""
    known = defined()
    names = set()
    for name in METRIC.findall(text):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        names.add(family if family in known else name)
    return names


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in DASHBOARDS}


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard):
    """(panel's title, expression) of every query."""
    return [(panel["title"], target["expr"]) for panel in panels(dashboard) for target in panel["targets"]]


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts():
    return [rule for rule in rules() if "alert" in rule]
