"""The dashboard and the alert rules in ``docs/monitoring`` use metrics that exist."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.metrics.row import MetricKind
from actors.metrics.table import ROWS
from tests.promtool import needs_promtool

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
RULES = FOLDER / "alerts.yml"
NAME = re.compile(r"\b(?:rollcall|kafka|group_coordinator_metrics|share_coordinator_metrics)_\w+")
LABEL = re.compile(r"by \(([^)]*)\)|{{\s*\$?(?:labels\.)?(\w+)\s*}}")
ENDS = {
    MetricKind.GAUGE: ("",),
    MetricKind.COUNTER: ("_total",),
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
LABELS_OF_PROMETHEUS = {"le", "value"}


def samples() -> set[str]:
    return {name + end for row in ROWS for name in row.families for end in ENDS[row.kind]}


def labels() -> set[str]:
    return LABELS_OF_PROMETHEUS | {label for row in ROWS for label in row.all_labels}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana-dashboard.json").read_text())[
        "panels"
    ]
    return found


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def check(text: str) -> None:
    for pattern in re.findall(r'__name__=~"([^"]*)"', text):
        assert [each for each in samples() if re.fullmatch(pattern, each)], pattern
    for name in NAME.findall(re.sub(r'{__name__=~"[^"]*"', "{", text)):
        assert name in samples(), name
    for listed, single in LABEL.findall(text):
        names = {each.strip() for each in (listed or single).split(",")}
        assert names <= labels(), names


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_shows_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["targets"]
    for target in panel["targets"]:
        check(target["expr"])
        check(target["legendFormat"])


def test_panels_do_not_lie_on_each_other() -> None:
    taken = set()
    for at in (panel["gridPos"] for panel in panels()):
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken
                assert x < 24
                taken.add((x, y))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_uses_metrics_that_exist_and_says_what_to_do(rule: dict[str, Any]) -> None:
    check(rule["expr"])
    assert rule["labels"]["severity"] in {"warning", "critical"}
    for text in rule["annotations"].values():
        check(text)
        assert text.endswith(".")


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
