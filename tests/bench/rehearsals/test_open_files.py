"""Members that a machine has no open files for are refused before anything starts."""

import pytest
from msgspec.structs import replace

from actors.errors import BadInputError
from bench.rehearsals import open_files
from bench.rehearse import main
from bench.scenarios.files import found, parse
from bench.scenarios.plan import expand
from bench.scenarios.scenario import Scenario

CRASH_ALL = '{ do = "crash", at = "1m", pods = "100%" }'


def allow(monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (files, files))


@pytest.mark.parametrize(
    ("tasks", "is_own", "needed"),
    [
        (1, True, 50_512),
        pytest.param(3, True, 17_366, id="the largest of unequal shares"),
        pytest.param(4, True, 14_798, id="a node has those of one that is down"),
        (4, False, 13_039),
    ],
)
def test_a_process_needs_a_file_for_each_of_its_members(
    monkeypatch: pytest.MonkeyPatch, tasks: int, is_own: bool, needed: int
) -> None:
    scenario = replace(found("fifty-thousand"), members_per_connection=1, nodes=7)
    plan = expand(scenario)
    for files in (needed, open_files.resource.RLIM_INFINITY):
        allow(monkeypatch, files)
        open_files.check_open_files(scenario, plan, tasks, is_own=is_own)
    allow(monkeypatch, needed - 1)
    with pytest.raises(BadInputError, match=rf"run `ulimit -n {needed}` in this shell"):
        open_files.check_open_files(scenario, plan, tasks, is_own=is_own)


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        pytest.param((), 100, id="as many as there are"),
        pytest.param((f"behaviours = [{CRASH_ALL}]",), 100, id="some after the others"),
        pytest.param(
            ("maxSurge = 30", 'behaviours = [{ do = "rolling-deploy", at = "1m" }]'), 130,
            id="more in a deploy",
        ),
        pytest.param(
            ('behaviours = [{ do = "scale", at = "1m", replicas = 400 }]',), 400, id="more later"
        ),
        pytest.param(
            ("static = true", 'behaviours = [{ do = "duplicate", at = "1m", pods = 20 }]'), 120,
            id="zombies, too",
        ),
    ],
)  # fmt: skip
def test_there_are_files_for_the_most_members_that_there_may_be(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], files: int
) -> None:
    assert needed(monkeypatch, scenario(*lines)) == files


def test_members_that_share_a_connection_need_one_file_but_classic_ones_also_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = {"members_per_connection": 10}
    classic, consumer = scenario(), scenario('protocol = "consumer"')
    assert needed(monkeypatch, replace(consumer, **shared)) == 10 + 1
    assert needed(monkeypatch, replace(classic, **shared)) == 100 + 10 + 1


def scenario(*lines: str) -> Scenario:
    text = [
        'about = "x"', 'duration = "10m"', "topics = { t = { partitions = 4 } }",
        "[[groups]]", 'name = "a"', 'topics = ["t"]', "replicas = 100", *lines,
    ]  # fmt: skip
    return parse("s", "\n".join(text))


def needed(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> int:
    """Return how many files one process needs for the members of a cluster that runs."""
    plan = expand(scenario)
    for files in range(open_files.RESERVED_FILES, 2_000):
        allow(monkeypatch, files)
        try:
            open_files.check_open_files(scenario, plan, 1, is_own=False)
        except BadInputError:
            continue
        return files - open_files.RESERVED_FILES
    raise AssertionError(scenario)


def test_it_is_said_in_one_sentence_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    allow(monkeypatch, 20_000)
    assert main(["fifty-thousand", "--bootstrap", "127.0.0.1:1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "rollcall: 50000 members need 26515 open files in one process, and 20000 are allowed here:"
        " run `ulimit -n 26515` in this shell, as root.\n"
    )
