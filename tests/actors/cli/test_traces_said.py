"""What ``rollcall up`` says about traces, and which variables it passes on."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli.up import _environment, _say_where_traces_go
from actors.telemetry.transports import FILE

OWN_RAY: Any = SimpleNamespace()
SPEC: Any = SimpleNamespace(traces_path=lambda name: Path(f"/data/traces/{name}.jsonl"))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "ROLLCALL_TRACES"))]:
        monkeypatch.delenv(name)


def test_an_external_ray_is_given_the_variables_of_telemetry_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {FILE: "/logs/traces.jsonl", "OTEL_SERVICE_NAME": "shop"}
    for name, text in {**given, "ROLLCALL_OTHER": "x"}.items():
        monkeypatch.setenv(name, text)
    assert _environment(None) == given
    assert _environment(OWN_RAY) == {}, "our own Ray inherits them"


@pytest.mark.parametrize(
    ("node", "environ", "said"),
    [
        (OWN_RAY, {}, "Traces go to files: /data/traces/<process>.jsonl."),
        (OWN_RAY, {"OTEL_TRACES_EXPORTER": "none"}, "Traces go nowhere."),
        (
            None,
            {},
            "Traces go where the variables of `ray start` say,"
            " otherwise to files: /data/traces/<process>.jsonl.",
        ),
        (None, {FILE: "/l/t.jsonl"}, "Traces go to files: /l/t-<pid>.jsonl."),
        (
            OWN_RAY,
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:secret@c:4318/secret"},
            "Traces go to http://c:4318 by http/protobuf.",
        ),
    ],
)
def test_up_says_where_traces_go(
    node: Any,
    environ: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    _say_where_traces_go(node, SPEC)
    assert capsys.readouterr().err == f"rollcall: {said}\n"
