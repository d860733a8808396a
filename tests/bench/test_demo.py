"""What the demo refuses, and what it prints of a run."""

import re
import shutil
from pathlib import Path

import pytest

from bench import demo
from bench.demo import REPORT, STORY, main, table
from bench.scenarios.files import found
from bench.scenarios.record import GroupCosts
from bench.scenarios.verdict import GroupVerdict, ScenarioVerdict
from tests.bench.rehearsals.shortened import fewer, shortened

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
    assert rows["static"] == ["30", "60", "30", "15.0", "1.5", "0"]
    assert rows["bad"] == ["1", "2", "1", "0.5", "1.5", "0"]
    assert len(rows) == 1 + 6


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17")
def test_the_story_is_told_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the demo, with one group of each application, and half of the time."""
    monkeypatch.setattr(demo, "found", lambda name: shortened(fewer(found(name), 100), 2))
    page = tmp_path / "page.html"
    code = main(["--report", str(page)])
    told = capsys.readouterr().out
    assert code == 0, told
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
    demo._tell(1_000, "deployed-0: rolling-deploy")
    demo._tell(1_000, "deployed-12: rolling-deploy")
    demo._tell(2_500, "kill node 1")
    assert [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "deployed-0: rolling-deploy",
        "kill node 1",
    ]


def test_the_page_is_where_the_readme_says_and_is_cleaned_up() -> None:
    assert f"writes `{REPORT}`" in (ROOT / "README.md").read_text()
    assert re.search(rf"rm -rf .*{REPORT}", (ROOT / "Makefile").read_text())
    assert f"/{REPORT}" in (ROOT / ".gitignore").read_text().splitlines()
