"""``rollcall check``: what it prints and returns, and what it says of unreadable histories."""

import json
import shutil

import msgspec
import pytest

pytest.importorskip("pyspark")

from bench import check
from bench.histories.checks import CHECKS
from bench.histories.made import GROUPS_MIN
from bench.histories.store import FACTS, HistoryError, write_run
from bench.histories.verdict import HistoryVerdict, missing_members
from tests.bench.histories.conftest import SHAPE

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FACTS_TEXT = (
    '{"run_id": "a", "what": "w", "changed_ms": 0, "ended_ms": 1, "version": %s, "rows": {}}'
)


class Borrowed:
    """The session of the tests, which a command must not stop."""

    def __init__(self, session):
        self.read = session.read

    def stop(self):
        pass


@pytest.fixture
def spark(session, monkeypatch):
    from bench.load import spark

    monkeypatch.setattr(spark, "start_session", lambda _settings: Borrowed(session))


def said(capsys):
    """Return the one sentence that was said, and that nothing was printed."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rollcall: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.thorough
def test_two_runs_have_two_verdicts_and_one_exit_code(runs, spark, tmp_path, capsys):
    out = tmp_path / "verdicts.json"
    assert check.main([str(runs), "--json", str(out)]) == 1
    first, second = capsys.readouterr().out.split("\n\nplanted: ")
    assert first.startswith(f"clean: a made history of {GROUPS_MIN} groups")
    assert first.endswith("verdict: clean")
    assert all(f"\n{name}: {each.sentence}\n  made-" in second for name, each in CHECKS.items())
    document = json.loads(out.read_text())
    assert not document["clean"]
    assert [run["clean"] for run in document["runs"]] == [True, False]
    assert list(tmp_path.glob("*.partial")) == []


@pytest.mark.thorough
def test_a_clean_run_is_a_success_unless_it_costs_too_much(runs, spark, capsys):
    run = str(runs / "run_id=clean")
    assert check.main([run]) == 0
    assert capsys.readouterr().out.endswith("verdict: clean\n")
    assert check.main([run, "--fail-on", "moved>0", "--fail-on", "failed>1000"]) == 1
    assert (
        f"\nmoved is {GROUPS_MIN * 9 // 2}, and at most 0 is allowed.\nverdict: NOT CLEAN"
        in capsys.readouterr().out
    )


def test_a_directory_without_runs_is_told(tmp_path, capsys):
    assert check.main([str(tmp_path / "none")]) == 2
    assert "is not a directory" in said(capsys)
    (tmp_path / ".partial-a").mkdir()
    assert check.main([str(tmp_path)]) == 2
    assert "There is no whole run in" in (text := said(capsys))
    assert ".partial-a was not finished" in text


def test_a_check_without_a_verdict_leaves_an_older_document_as_it_is(tmp_path, capsys):
    out = tmp_path / "verdicts.json"
    out.write_text("older")
    assert check.main([str(tmp_path / "none"), "--json", str(out)]) == 2
    assert "is not a directory" in said(capsys)
    assert out.read_text() == "older"


def test_a_limit_that_is_none_is_told_with_the_costs(tmp_path, capsys):
    for limit in ("moved", "moved<3", "movd>3"):
        assert check.main([str(tmp_path), "--fail-on", limit]) == 2
        assert "is no limit: write COST>NUMBER, where COST is one of members, " in said(capsys)


def test_facts_that_cannot_be_read_are_told(tmp_path, capsys):
    run = tmp_path / "run_id=a"
    run.mkdir()
    for text, why in (("{", "cannot be read"), (FACTS_TEXT % 99, "has version 99 of the schema")):
        (run / FACTS).write_text(text)
        assert check.main([str(tmp_path)]) == 2
        assert why in said(capsys)


def test_an_amount_of_memory_is_checked(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        check.main([str(tmp_path), "--memory", "lots"])
    assert stop.value.code == 2
    assert "'lots' is no amount such as 2g" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "partitions"), [(20_000, "1"), (1_000_000, "5"), (10_000_000, "32"), (10**9, "32")]
)
def test_a_history_is_split_into_few_parts_unless_it_is_large(rows, partitions):
    settings = check._settings(check._parser().parse_args(["d"]), rows)
    assert settings["spark.sql.shuffle.partitions"] == partitions
    is_small = settings.get("spark.sql.adaptive.enabled") == "false"
    assert is_small == (partitions == "1"), "plans are not made again for a small one"


@pytest.mark.thorough
def test_a_run_whose_files_are_missing_or_broken_is_told(runs, spark, tmp_path, capsys):
    shutil.copytree(runs / "run_id=clean", run := tmp_path / "run_id=clean")
    shutil.rmtree(run / "kind=left")
    assert check.main([str(run)]) == 2
    assert f"has 0 rows of kind left, and {GROUPS_MIN} were written." in said(capsys)
    (broken,) = (run / "kind=fault").glob("*.parquet")
    broken.write_bytes(b"PAR1")
    assert check.main([str(run)]) == 2
    assert "rollcall: Spark cannot check" in said(capsys)


@pytest.mark.thorough
def test_a_run_is_never_overwritten_nor_left_in_parts(session, runs, tmp_path):
    from bench.histories.made import made

    history = made(session, SHAPE)
    with pytest.raises(HistoryError, match="exists: remove it"):
        write_run(history, SHAPE.facts("clean"), runs)
    with pytest.raises(HistoryError, match="cannot be named"):
        write_run(history, SHAPE.facts("a/b"), tmp_path)
    with pytest.raises(HistoryError, match="A run cannot be written to"):
        write_run(
            history.selectExpr("*", "assert_true(time_ms < 0) as x"), SHAPE.facts("a"), tmp_path
        )
    assert list(tmp_path.iterdir()) == []


def test_a_history_without_some_of_its_members_is_not_clean():
    whole, lossy = SHAPE.facts("a"), msgspec.structs.replace(SHAPE.facts("a"), missing_members=3)
    assert not missing_members(whole)
    exceeded = missing_members(lossy)
    assert exceeded[0].startswith("3 members are missing: ")
    verdict = HistoryVerdict(facts=lossy, outcomes=(), costs=(), causes=(), exceeded=exceeded)
    assert not verdict.is_clean
    assert exceeded[0] in verdict.text()
