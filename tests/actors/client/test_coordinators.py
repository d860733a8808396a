"""The coordinators of groups that an administrator's client remembers between requests."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from actors.cli.client import (
    COORDINATORS_MAX,
    AdminClient,
    ApiNotServedError,
    ClientError,
    SilentError,
    UnreachableError,
)
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    Coordinator,
    DeleteTopicsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)

BOOTSTRAP, FIRST, SECOND = (("broker", number) for number in (9092, 9093, 9094))


class Scripted(AdminClient):
    """A client whose brokers are said by the test: where the coordinator is, and who fails how."""

    def __init__(self) -> None:
        super().__init__([BOOTSTRAP], 1.0)
        self.at = FIRST
        self.failing: dict[Any, ClientError] = {}
        self.asked: list[Any] = []
        """Addresses of the requests; ``BOOTSTRAP`` was asked where the coordinator is."""

    def ask_at(self, address: Any, message: Any) -> Any:
        """Answer as brokers do of which ``at`` is the coordinator of all groups."""
        self.asked.append(address)
        if isinstance(message, FindCoordinatorRequest):
            found = Coordinator(
                key=message.coordinator_keys[0], node_id=1, host=self.at[0], port=self.at[1],
                error_code=ErrorCode.none, error_message=None,
            )  # fmt: skip
            return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=(found,))
        if address in self.failing:
            raise self.failing[address]
        code = ErrorCode.none if address == self.at else ErrorCode.not_coordinator
        return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code)

    def beat(self, group_id: str = "g") -> ErrorCode:
        """Send a request to the coordinator of a group."""
        message = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
        answer = self.ask_coordinator(group_id, message, lambda answer: [answer.error_code])
        return ErrorCode(answer.error_code)

    def taken(self) -> list[Any]:
        """Return who was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr("actors.cli.client.BACKOFF_S", 0)
    with Scripted() as client:
        yield client


def test_a_coordinator_is_looked_for_once(client: Scripted) -> None:
    assert [client.beat() for _ in range(3)] == [ErrorCode.none] * 3
    assert client.taken() == [BOOTSTRAP, FIRST, FIRST, FIRST]
    client.beat("another")
    assert client.taken() == [BOOTSTRAP, FIRST], "each group has its own"


def test_a_coordinator_that_moved_is_looked_for_again(client: Scripted) -> None:
    client.beat()
    client.at = SECOND
    client.taken()
    assert client.beat() == ErrorCode.none
    assert client.taken() == [FIRST, BOOTSTRAP, SECOND]


def test_a_coordinator_that_went_away_is_looked_for_again(client: Scripted) -> None:
    client.beat()
    client.at, client.failing = SECOND, {FIRST: UnreachableError("it went away")}
    client.taken()
    assert client.beat() == ErrorCode.none
    assert client.taken() == [FIRST, BOOTSTRAP, SECOND]


@pytest.mark.parametrize("error", [ClientError("no answer in time"), ApiNotServedError("too old")])
def test_a_request_that_failed_is_not_sent_twice(client: Scripted, error: ClientError) -> None:
    client.beat()
    client.failing = {FIRST: error}
    client.taken()
    with pytest.raises(type(error)):
        client.beat()
    assert client.taken() == [FIRST]
    client.failing = {}
    client.beat()
    assert client.taken() == [BOOTSTRAP, FIRST], "the next looks for the coordinator first"


def test_the_coordinators_of_so_many_groups_are_remembered(client: Scripted) -> None:
    for number in range(COORDINATORS_MAX + 1):
        client.beat(f"g-{number}")
    client.taken()
    client.beat("g-1")
    assert client.taken() == [FIRST]
    client.beat("g-0")
    assert client.taken() == [BOOTSTRAP, FIRST]


class Silent(AdminClient):
    """A client some of whose brokers do not answer, or cannot be reached."""

    def __init__(self, failing: dict[Any, ClientError]) -> None:
        super().__init__([FIRST, SECOND, BOOTSTRAP], 1.0)
        self.failing = failing
        self.asked: list[Any] = []

    def ask_at(self, address: Any, message: Any) -> Any:
        """Fail as the test says, or answer with the address."""
        self.asked.append(address)
        if address in self.failing:
            raise self.failing[address]
        return address


QUESTION = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
CHANGE = DeleteTopicsRequest(topics=(), timeout=timedelta(seconds=1))


def test_a_question_goes_on_to_a_broker_that_answers_and_stays_there() -> None:
    client = Silent({FIRST: SilentError("frozen"), SECOND: UnreachableError("dead")})
    assert client.ask(QUESTION) == BOOTSTRAP
    assert client.asked == [FIRST, SECOND, BOOTSTRAP]
    client.asked.clear()
    assert client.ask(QUESTION) == BOOTSTRAP
    assert client.asked == [BOOTSTRAP]
    client.failing = {BOOTSTRAP: UnreachableError("dead")}
    assert client.ask(QUESTION) == FIRST


def test_a_change_is_not_sent_again_if_it_may_have_been_made() -> None:
    client = Silent({FIRST: SilentError("frozen")})
    with pytest.raises(SilentError):
        client.ask(CHANGE)
    assert client.asked == [FIRST]


def test_all_brokers_that_fail_are_named() -> None:
    client = Silent({each: SilentError(f"{each} is frozen") for each in (FIRST, SECOND, BOOTSTRAP)})
    with pytest.raises(ClientError, match=r"; .* is frozen; "):
        client.ask(QUESTION)
