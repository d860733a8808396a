"""What the demo refuses, and what it prints of a run."""

import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import demo
from bench.demo import REPORT, STORY, main, said, table, told_report
from bench.histories.checks import CHECKS, Severity
from bench.histories.store import RunFacts
from bench.histories.verdict import CheckFinding, CheckOutcome, HistoryVerdict
from bench.pages.markdown import markdown
from bench.pages.page import page
from bench.rehearsals.spark_history import WrittenHistory
from bench.scenarios.files import found
from bench.scenarios.record import GroupCosts
from bench.scenarios.verdicts.applications import GroupVerdict
from bench.scenarios.verdicts.verdict import ScenarioVerdict
from bench.servers.server import StartError
from tests.bench.pages.histories import handed_over
from tests.waiting import patient

ROOT = Path(__file__).parents[2]
PAID = GroupCosts(
    members=2, generation=3, rebalances=1, causes={}, unavailable_member_ms=500, moved=0,
    unowned_ms=1_500, failed=0, revoked=0,
)  # fmt: skip


def test_too_small_a_crowd_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "3"]) == 2
    assert capsys.readouterr().err == (
        "The demo failed: --members must be at least 20: there are ten groups.\n"
    )


def test_the_story_has_ten_thousand_members_of_six_applications() -> None:
    scenario = found(STORY)
    assert scenario.members == 10_000
    verdict = ScenarioVerdict(
        scenario=STORY,
        how="real",
        groups=tuple(GroupVerdict(group=each, costs=PAID, exceeded=()) for each in scenario.groups),
        found={},
    )
    rows = {line.split()[0]: line.split()[1:] for line in table(verdict).splitlines()}
    assert rows["static"] == ["34", "68", "34", "17.0", "1.5", "0"]
    assert rows["bad"] == ["1", "2", "1", "0.5", "1.5", "0"]
    assert len(rows) == 1 + 6


RULE = next(name for name, check in CHECKS.items() if check.severity is Severity.BROKEN)
SUSPECT = next(name for name, check in CHECKS.items() if check.severity is Severity.SUSPECT)


def checked(rule: int = 0, suspect: int = 0, *, exceeded: tuple[str, ...] = ()) -> HistoryVerdict:
    """Return what the checks of the story's history found."""
    example = CheckFinding("deployed-static-3", "t-0", 1, "t-0 had <two> owners, x and y")
    return HistoryVerdict(
        facts=RunFacts(
            run_id=STORY, what="x", changed_ms=1_000, ended_ms=61_000, rows={"joined": 7_000}
        ),
        outcomes=(
            CheckOutcome(check=RULE, count=rule, examples=(example,) if rule else ()),
            CheckOutcome(check=SUSPECT, count=suspect),
        ),
        costs=(),
        causes=(),
        exceeded=exceeded,
    )


def test_what_the_checks_of_the_history_found_is_told_with_group_and_example() -> None:
    lines = said(checked(rule=40, suspect=2)).splitlines()
    assert lines[0] == "7,000 rows, 2 checks."
    assert lines[1] == f"BROKEN {RULE}: 40, {CHECKS[RULE].sentence}"
    assert lines[2] == "  deployed-static-3: t-0 had <two> owners, x and y"
    assert lines[3] == f"SUSPECT {SUSPECT}: 2, {CHECKS[SUSPECT].sentence}"
    assert lines[-1] == "NOT CLEAN"
    assert said(checked(exceeded=("3 members are missing.",))).splitlines()[1:] == [
        "3 members are missing.",
        "NOT CLEAN",
    ]


def test_what_the_checks_of_the_history_found_is_on_the_page_with_group_and_example() -> None:
    ran = handed_over()
    made = told_report(found(STORY), ran.record, ran.verdict, checked(rule=40, suspect=2))
    assert not made.is_clean
    assert made.verdict == f"{RULE}, in the history: 40."
    sentence = "deployed-static-3: t-0 had <two> owners, x and y"
    assert made.runs[0].found == {f"{RULE}, in the history": [sentence]}
    assert any(f"Suspect is {SUSPECT} (2)" in note for note in made.runs[0].notes)
    assert "deployed-static-3: t-0 had &lt;two&gt; owners, x and y" in page(made)
    assert "deployed-static-3: t-0 had" in markdown(made)


def test_members_missing_in_the_history_make_the_page_not_clean() -> None:
    ran = handed_over()
    made = told_report(
        found(STORY), ran.record, ran.verdict, checked(exceeded=("3 members are missing.",))
    )
    assert not made.is_clean
    assert made.verdict == "3 members are missing."
    assert made.runs[0].verdict == "3 members are missing."
    assert not made.runs[0].is_clean
    assert "No rule was broken" not in page(made) + markdown(made)
    assert told_report(found(STORY), ran.record, ran.verdict, checked()).is_clean


def test_a_history_that_cannot_be_checked_leaves_a_page_that_says_so() -> None:
    ran = handed_over()
    error = StartError("Spark cannot check the history: it ran out of memory.")
    made = told_report(found(STORY), ran.record, ran.verdict, error)
    assert not made.is_clean
    assert made.verdict == "Spark cannot check the history: it ran out of memory."
    assert "No rule was broken" not in page(made) + markdown(made)


def test_a_demo_without_its_checks_still_writes_its_page_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = handed_over()
    history = SimpleNamespace(finish=lambda *_: WrittenHistory(None, "The disk is full."))
    made = SimpleNamespace(
        history=lambda _name: nullcontext(history), of=lambda _history: None, session=object()
    )
    monkeypatch.setattr(demo, "need_spark", lambda: None)
    monkeypatch.setattr(demo, "crowds", lambda *_: nullcontext(made))
    monkeypatch.setattr(
        demo, "own_stage", lambda _scenario: nullcontext(SimpleNamespace(how="real"))
    )
    monkeypatch.setattr(demo.real, "run", lambda *_: ran.record)
    monkeypatch.setattr(demo, "judge", lambda *_: ran.verdict)
    path = tmp_path / "page.html"
    assert main(["--report", str(path)]) == 2
    assert capsys.readouterr().err == "The demo failed: The disk is full.\n"
    assert "The disk is full." in path.read_text()


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17")
def test_the_story_is_told_to_its_end(tmp_path: Path) -> None:
    """All of the demo, in a new process: in each, Ray reads once how to authenticate."""
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.short_demo", str(page)],
        cwd=ROOT, capture_output=True, text=True, timeout=patient(140), check=False,
    )  # fmt: skip
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    happens = (
        "Starting three coordinators ...",
        "bad: flap",
        "deployed-static-0: rolling-deploy",
        "kill node ",
        "application ",
        "Spark checks what every member saw ...",
        "No promise was broken.",
    )
    at = [told.find(each) for each in happens]
    assert at == sorted(at), told
    assert min(at) >= 0, told
    assert re.search(r"^static +1 +5 +0 +0.0 ", told, re.MULTILINE), "its members noticed nothing"
    assert page.read_text().startswith("<!doctype html>")


def test_of_the_copies_of_an_application_only_the_first_one_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell = demo._teller(found(STORY))
    tell(1_000, "deployed-modern-0: rolling-deploy")
    tell(1_000, "deployed-modern-2: rolling-deploy")
    tell(2_500, "kill node 1")
    assert [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "deployed-modern-0: rolling-deploy",
        "kill node 1",
    ]


def test_the_page_is_where_the_readme_says_and_is_cleaned_up() -> None:
    assert f"writes `{REPORT}`" in (ROOT / "README.md").read_text()
    assert re.search(rf"rm -rf .*{REPORT}", (ROOT / "Makefile").read_text())
    assert f"/{REPORT}" in (ROOT / ".gitignore").read_text().splitlines()
