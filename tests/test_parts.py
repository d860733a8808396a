"""Every test belongs to a part of one of two commands, and what a part says is read as meant."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("parts", ROOT / ".ci" / "parts.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "parts", module)  # dataclasses look there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    module.CACHE.mkdir()
    return module


def test_every_path_of_a_part_exists_and_the_rest_is_one_part(parts: ModuleType) -> None:
    every = [*parts.WAITING, *parts.COMPUTING, *parts.SYSTEM]
    named = [path for part in every for path in part.paths]
    assert len(set(named)) == len(named)
    assert all((ROOT / path).exists() for path in named)
    (rest,) = (part for part in every if not part.paths)
    assert rest.elsewhere() == named
    assert not rest.only_computes
    assert len({part.name for part in every}) == len(every)


def test_a_part_leaves_out_what_is_another_one(parts: ModuleType) -> None:
    by_name = {part.name: part for part in parts.WAITING}
    assert by_name["actors"].elsewhere() == ["tests/actors/deployment"]
    assert by_name["deployment"].elsewhere() == []
    assert "tests/clients/tools" in by_name["clients"].elsewhere()
    assert "--ignore=tests/actors/deployment" in by_name["actors"].command()


TESTS = """
import pathlib

def test_passes():
    pass

def test_fails_once():
    ran = pathlib.Path(__file__).with_suffix(".ran")
    seen = ran.exists()
    ran.touch()
    assert seen
"""


def test_a_failed_test_runs_again_alone(parts: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-c", os.devnull, f"--rootdir={tmp_path}"]
    part = parts.Part("waiting", [*options, str(tmp_path / "test_it.py")])
    parts.carry_out(part)
    assert part.code == 1
    assert "1 failed, 1 passed" in part.said
    assert [name.rpartition("::")[2] for name in parts.failed_tests(part)] == ["test_fails_once"]
    flaky = parts.second_chance([part])
    assert [name.rpartition("::")[2] for name in flaky] == ["test_fails_once"]
    assert part.code == 0
    assert "1 passed" in part.said


def test_many_failed_tests_are_no_accident(parts: ModuleType) -> None:
    part = parts.Part("waiting", [], code=1)
    noted = part.cache / parts.LASTFAILED
    noted.parent.mkdir(parents=True)
    many = parts.AGAIN_MAX + 1
    noted.write_text(json.dumps({f"test_{number}": True for number in range(many)}, indent=2))
    assert len(parts.failed_tests(part)) == many
    assert parts.second_chance([part]) == []
    assert part.code == 1


def test_the_slowest_tests_of_a_part_are_found_in_what_it_says(parts: ModuleType) -> None:
    said = "x\n====== slowest 15 durations ======\n2.00s call a\n1.00s call b\n=== 2 passed ===\n"
    assert parts.section(said, "slowest 15 durations") == "2.00s call a\n1.00s call b\n"
    assert parts.section(said, "warnings") == ""
