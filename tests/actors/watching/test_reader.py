"""The consumer without a Kafka: what is said when nobody answers, or the library is missing."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from actors.cli.main import main
from actors.errors import BadInputError, ExitCode, NoClusterError
from actors.watching import reader
from actors.watching.reader import Reader
from actors.watching.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable


@pytest.fixture
def silent_port() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def test_when_no_broker_answers(silent_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "START_S", 0.3)
    found = Reader(read_settings(None, silent_port), silent_port)
    try:
        with pytest.raises(NoClusterError, match=f"no broker answers at {silent_port} within"):
            found.find()
        assert (found.exists(), list(found.topics()), found.end_offsets([])) == (None, [], {})
    finally:
        found.close()


def test_the_command_says_so_in_one_sentence(
    silent_port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reader, "START_S", 0.3)
    assert main(["watch", "--bootstrap", silent_port, "--once"]) == ExitCode.NO_CLUSTER
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"rollcall: no broker answers at {silent_port}")


def test_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(BadInputError, match=r"needs confluent-kafka: pip install 'rollcall\[watch"):
        Reader(read_settings(None, "127.0.0.1:1"), "127.0.0.1:1")


@pytest.mark.parametrize(
    "words",
    [
        ["--bootstrap", "nowhere"],
        ["--bootstrap", "127.0.0.1:1", "--session-timeout", "0"],
        ["--bootstrap", "127.0.0.1:1", "--from", "then"],
        [],
    ],
)
def test_wrong_flags(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["watch", *words])
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert code == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith("rollcall: ")


class Unanswered:
    """A client whose requests have no answer, or are refused; it counts them."""

    def __init__(self, code: int) -> None:
        self._code, self.asked = code, 0

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics=dict.fromkeys(map(str, range(3 * reader.DESCRIBED_MAX))))

    def describe_topics(self, wanted: Any, request_timeout: float) -> dict[str, Future[Any]]:
        return self._failed(map(str, range(reader.DESCRIBED_MAX)))

    def list_offsets(self, wanted: dict[Any, Any], request_timeout: float) -> Any:
        return self._failed(wanted)

    def _failed(self, wanted: Iterable[Any]) -> dict[Any, Future[Any]]:
        self.asked += 1
        failed: Future[Any] = Future()
        failed.set_exception(KafkaException(KafkaError(self._code)))
        return dict.fromkeys(wanted, failed)


@pytest.mark.parametrize(
    ("code", "asked"),
    [(KafkaError._TIMED_OUT, 1), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 3)],
)
def test_what_has_no_answer_is_not_asked_again_and_again(
    silent_port: str, code: int, asked: int
) -> None:
    """Each request waits for its time limit, and of a large cluster there are hundreds."""
    found = Reader(read_settings(None, silent_port), silent_port)
    found._admin = Unanswered(code)
    assert list(found.topics()) == []
    assert found._admin.asked == asked
    places = (("t", number) for number in range(3 * reader.ENDS_AT_ONCE))
    found._admin.asked = 0
    assert found.end_offsets(places) == {}
    assert found._admin.asked == asked
