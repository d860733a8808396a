"""What ``rollcall bench`` says to a wrong command line."""

import pytest

from bench.cli import BENCHES, main


def test_the_list_names_every_benchmark(capsys):
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *BENCHES,
        "assignors",
    ]


def test_an_unknown_benchmark_is_bad_input_and_said_in_one_sentence(capsys):
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err == "There is no benchmark 'nonsense': see --list.\n"


def test_a_benchmark_without_a_peer_refuses_one(capsys):
    assert main(["memory", "--kafka"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_senseless_rounds_are_bad_input(rounds, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["commits", "--rounds", rounds])
    assert ended.value.code == 2
    assert rounds in capsys.readouterr().err
