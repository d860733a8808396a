"""The how-to pages are followed word for word in a copy of the project, and what they add works."""

from pathlib import Path

import pytest

from tests.tables.pages import PAGES, Step, copy_of_the_project, run_tests, steps, take

TOYS = {
    "add-a-request.md": "DescribeDelegationToken",
    "add-a-config.md": "list.config.resources.max",
    "add-a-record-type.md": "ConsumerGroupEpochFloorKey",
}
"""The pages, and what the tests of tables call what each of them adds."""

RUN = {"add-a-drill.md": "check_drill.py", "add-a-benchmark.md": "check_benchmark.py"}
"""The pages of what can be run, and the tests that run it."""

TABLES = ("tests/tables/test_tables.py", "tests/tables/test_configs_are_read.py")
CHECKS = tuple(f"tests/tables/toys/check_{toy}.py" for toy in ("request", "config", "record_type"))
WHOLE = f"{' or '.join(TOYS.values())} or no_handler or has_a_replay or without_effect"


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_the_pages_are_followed_and_what_they_add_works(tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path)
    for page in TOYS:
        for step in steps(PAGES / page):
            take(step, project)
    ran = run_tests(project, *CHECKS, *TABLES, "-k", f"check_ or {WHOLE}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for name in (*TOYS.values(), *CHECKS):
        assert name in ran.stdout, "nothing was tested of it"


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_the_tables_miss_the_last_step_of_each_page(tmp_path: Path) -> None:
    """Without its handler, reader or replay a row is no whole row."""
    project = copy_of_the_project(tmp_path)
    for page in TOYS:
        for step in steps(PAGES / page)[:-1]:
            take(step, project)
    ran = run_tests(project, *TABLES, "-k", WHOLE)
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    for name in ("DescribeDelegationToken", "list.config.resources.max", "has_a_replay"):
        assert any(name in line for line in failed), ran.stdout + ran.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("page", "check"), RUN.items())
def test_a_page_is_followed_and_what_it_adds_runs(page: str, check: str, tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path)
    for step in steps(PAGES / page):
        take(step, project)
    ran = run_tests(project, f"tests/tables/toys/{check}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(" PASSED") == 2, ran.stdout


@pytest.mark.parametrize("page", [*TOYS, *RUN])
def test_a_page_changes_at_most_three_files(page: str) -> None:
    assert 1 <= len({step.path for step in steps(PAGES / page)}) <= 3


def test_a_place_that_is_not_there_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\none\ntwo\n")
    take(Step("a.py", " one\n+more\n two\n@@\n+end\n"), tmp_path)
    assert (tmp_path / "a.py").read_text() == "\none\nmore\ntwo\n\n\nend\n"
    with pytest.raises(AssertionError, match="has not this place once"):
        take(Step("a.py", " three\n+more\n"), tmp_path)
