"""What is shown while assignors are timed."""

import io

import pytest

from bench.cases.assignors import main


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("group_type", "shape"), [("consumer", "buckets"), ("share", "buckets"), ("streams", "threads")]
)
def test_a_terminal_sees_which_case_is_timed(
    group_type: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    words = ["--type", group_type, "--shapes", shape, "--modes", "full", "join", "--no-worker"]
    words += ["--members", "4", "--topics", "5", "--partitions", "2", "--calls", "20"]
    assert main(words) == 0
    assert screen.getvalue().splitlines() == [
        f"{shape}: a group is made ...",
        f"{shape} full ...",
        f"{shape} join ...",
    ]
