"""Members that a machine has no open files for are refused before anything starts."""

import pytest

from actors.errors import BadInputError
from bench.rehearsals import open_files
from bench.rehearse import main
from bench.scenarios.files import found


def allow(monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (files, files))


@pytest.mark.parametrize(
    ("tasks", "is_own", "needed"),
    [
        (1, True, 50_512),
        (3, True, 17_179),
        pytest.param(4, True, 14_798, id="a node has those of one that is down"),
        (4, False, 13_012),
    ],
)
def test_a_process_needs_a_file_for_each_of_its_members(
    monkeypatch: pytest.MonkeyPatch, tasks: int, is_own: bool, needed: int
) -> None:
    scenario = found("fifty-thousand")
    for files in (needed, open_files.resource.RLIM_INFINITY):
        allow(monkeypatch, files)
        open_files.check_open_files(scenario, tasks, is_own=is_own)
    allow(monkeypatch, needed - 1)
    with pytest.raises(BadInputError, match=rf"run `ulimit -n {needed}` in this shell"):
        open_files.check_open_files(scenario, tasks, is_own=is_own)


def test_it_is_said_in_one_sentence_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    allow(monkeypatch, 20_000)
    assert main(["fifty-thousand", "--bootstrap", "127.0.0.1:1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "rollcall: 50000 members need 50512 open files in one process, and 20000 are allowed here:"
        " run `ulimit -n 50512` in this shell, as root.\n"
    )
