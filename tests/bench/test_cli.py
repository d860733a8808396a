"""What ``rollcall bench`` says to a wrong command line."""

import subprocess
import sys

import pytest

from bench.cli import BENCHES, STANDALONE, main, of_type
from tests.waiting import patient


def test_the_list_names_every_benchmark(capsys):
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *BENCHES,
        *STANDALONE,
    ]


def test_an_unknown_benchmark_is_bad_input_and_said_in_one_sentence(capsys):
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err == "rollcall: There is no benchmark 'nonsense': see --list.\n"


def test_a_benchmark_without_a_peer_refuses_one(capsys):
    assert main(["memory", "--kafka"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["joins", "--seconds", "5"], "--seconds: omit it"),
        (["memory", "--rounds", "2"], "--rounds: omit it"),
        (["storm", "--members", "9", "--kills", "1"], "--kills, --members: omit them"),
    ],
)
def test_an_option_that_a_benchmark_does_not_use_is_refused(words, unused, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err == f"rollcall: {words[0]} does not use {unused}.\n"


@pytest.mark.parametrize(
    ("name", "group_type", "found"),
    [
        ("heartbeats", "classic", "heartbeats"),
        ("heartbeats", "share", "share-heartbeats"),
        ("joins", "consumer", "consumer-joins"),
        ("storm", "consumer", "storm"),
        ("storm", "streams", "streams-storm"),
    ],
)
def test_a_type_of_groups_has_its_own_benchmarks(name, group_type, found):
    assert of_type(name, group_type) == found
    assert found in BENCHES


def test_a_type_that_a_benchmark_does_not_have_is_bad_input(capsys):
    assert main(["commits", "--type", "share"]) == 2
    said = "rollcall: There is no benchmark 'share-commits': see --list.\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_senseless_rounds_are_bad_input(rounds, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["commits", "--rounds", rounds])
    assert ended.value.code == 2
    assert rounds in capsys.readouterr().err


def test_ray_is_not_imported_before_a_benchmark_has_its_token():
    """Ray reads how to authenticate when it is imported; the cluster starts later."""
    code = "import sys, bench.cli; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patient(60))
