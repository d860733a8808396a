"""``rollcall upgrade``: what it makes of the coordinators' versions and levels. Needs no Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli import upgrade
from actors.cli.main import main
from actors.errors import ExitCode
from protocol.wire.admin_messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode


def row(node_id: int, highest: int | None, finalized: int = 0, version: str = "2") -> Any:
    levels = {"supported": [0, highest], "finalized": finalized}
    shown = {"node_id": node_id, "host": f"h{node_id}", "ray_host": None, "version": version}
    return {**shown, "levels": {} if highest is None else levels}


class Servers:
    """The cluster: its status, and what it answers to UpdateFeatures."""

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)
        self.asked: list[UpdateFeaturesRequest] = []
        self.answers = [blank(UpdateFeaturesResponse)]

    def status(self, _found: object) -> Any:
        return {"coordinators": self.rows, "bootstrap": "127.0.0.1:1"}

    def ask(self, message: UpdateFeaturesRequest) -> Any:
        self.asked.append(message)
        return self.answers.pop(0)

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def run(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: Any, *flags: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(upgrade, "find_cluster", lambda *_: SimpleNamespace())
    monkeypatch.setattr(upgrade, "read_status", servers.status)
    monkeypatch.setattr(upgrade, "AdminClient", lambda _: servers)
    code = main(["upgrade", *flags])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_it_raises_the_level_once_all_support_it(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Servers(row(0, 1), row(1, 1))
    servers.answers.insert(0, blank(UpdateFeaturesResponse, error_code=ErrorCode.not_controller))
    code, out, err = run(servers, monkeypatch, capsys, *flags)
    assert (code, err) == (ExitCode.OK, "")
    assert out.splitlines()[1].split() == ["0", "h0", "2", "0-1"]
    end = "can be raised to level 1." if flags else "is raised to level 1."
    assert out.splitlines()[-2:] == [
        "rollcall.version is finalized at level 0.",
        f"rollcall.version {end}",
    ]
    message = servers.asked[-1]
    assert message.validate_only is bool(flags)
    assert [(one.feature, one.max_version_level) for one in message.feature_updates] == [
        ("rollcall.version", 1)
    ]


def test_nothing_is_asked_if_the_newest_level_is_finalized(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Servers(row(0, 1, 1), row(1, 1, 1))
    code, out, _ = run(servers, monkeypatch, capsys)
    assert code == ExitCode.OK and not servers.asked
    assert out.endswith("No coordinator supports a later level.\n")


SILENT = {key: value for key, value in row(1, None).items() if key not in {"version", "levels"}}


@pytest.mark.parametrize(
    "rows, sentence",
    [
        ((row(0, 1), row(1, None, version="1")), "not supported by coordinator 1 (version 1)"),
        ((row(0, 2, 1), row(1, 1, 1, "1"), row(2, 2, 1)), "Level 2 is not supported by"),
        ((row(0, 1), SILENT), "Coordinator 1 does not answer"),
    ],
)
def test_a_coordinator_that_is_older_or_silent_is_named(
    rows: Any, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Servers(*rows)
    code, out, err = run(servers, monkeypatch, capsys)
    assert code == ExitCode.FAILURE and not servers.asked
    assert sentence in err and err.count("\n") == 1
    assert len(out.splitlines()) == len(rows) + 2, "the table is shown all the same"


def test_a_refusal_of_the_catalogue_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Servers(row(0, 1))
    servers.answers = [
        blank(
            UpdateFeaturesResponse,
            error_code=ErrorCode.invalid_update_version,
            error_message="It is not supported by node 1 (supports 0).",
        )
    ]
    code, _, err = run(servers, monkeypatch, capsys)
    assert (code, err) == (
        ExitCode.FAILURE, "rollcall: It is not supported by node 1 (supports 0).\n"
    )  # fmt: skip
