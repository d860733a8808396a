"""What the demo refuses."""

import pytest

from bench.demo import main


def test_too_small_a_crowd_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "3"]) == 1
    assert capsys.readouterr().err == (
        "The demo failed: --members must be at least 20: there are ten groups.\n"
    )
