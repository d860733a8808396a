"""``rollcall rehearse --history``: the checks of a run's history are a part of its verdict."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

from actors.cli.client import shown
from bench.rehearsals import real
from bench.rehearse import main
from protocol.members.history import MemberHistoryKind

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SHORT = """
about = "a member is fenced, and nobody has its instance id"
duration = "4s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
static = true
workload = "StatefulSet"
heartbeat_interval_ms = 500
"""


class Borrowed:
    """The session of the tests, which a command must not stop."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def stop(self):
        pass


@pytest.fixture
def spark(session, monkeypatch):
    from bench.load import spark

    monkeypatch.setattr(spark, "start_session", lambda _settings: Borrowed(session))


@contextmanager
def planted(monkeypatch, plant):
    """Let ``plant`` change what real runs recorded."""
    run = real.run
    with monkeypatch.context() as patch:
        patch.setattr(real, "run", lambda *arguments: plant(run(*arguments)))
        yield


def fenced(record):
    """Tell a member that it is fenced: no rule of the scenario itself is about that."""
    life, *others = record.lives
    timeline = life.timeline
    last = timeline.events[-1]
    end = replace(
        last, kind=MemberHistoryKind.FAILED, error="fenced_instance_id", asked_ms=last.time_ms
    )
    told = replace(timeline, events=(*timeline.events, end))
    return replace(record, lives=[replace(life, timeline=told), *others])


def test_a_promise_that_a_history_breaks_fails_the_rehearsal(
    node, spark, tmp_path, capsys, monkeypatch
):
    file, out, page = (tmp_path / name for name in ("short.toml", "v.json", "v.md"))
    file.write_text(SHORT)
    html, data = tmp_path / "r.html", tmp_path / "r.json"
    words = [str(file), "--bootstrap", shown(node.address), "--json", str(out)]
    words += ["--markdown", str(page), "--report", str(html), "--report", str(data)]
    rule = "fenced-wrongly, in the history"
    with planted(monkeypatch, fenced):
        assert main([*words, "--history", str(tmp_path / "planted")]) == 1
    said = capsys.readouterr().out
    assert "checks of its history (" in said
    assert f"\n{rule}: 1\n  a: " in said
    assert "\nNOT CLEAN\n" in said
    document = json.loads(out.read_text())
    assert not document["clean"]
    assert list(document["violations"]) == [rule]
    assert document["history"]["checks"]["fenced-wrongly"] == 1
    assert "**NOT CLEAN**" in page.read_text()
    assert f"- {rule}: 1" in page.read_text()
    assert rule in html.read_text()
    (run,) = json.loads(data.read_text())["runs"]
    assert not run["is_clean"]
    assert rule in run["found"]
    assert run["verdict"] == f"{rule}: 1."
