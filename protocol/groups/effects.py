"""What goes into a shard and what comes out of it: every event and every result is a value.

A shard never calls out. Whoever drives it (the Ray actor or the simulator) hands it events and
carries out the :class:`Result`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.static.protocol import Entity

    from protocol.groups.facts import Fact
    from protocol.records import Record

Ticket: TypeAlias = int
"""Names one parked request. Drawn by the driver, answered at most once."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request: its client id and its host as Kafka writes it (``/127.0.0.1``)."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client's request in the newest shape of its API.

    ``api_version`` is the version the client used: a few rules depend on it (KIP-394's
    MEMBER_ID_REQUIRED from JoinGroup 4 on, for one).
    """

    ticket: Ticket
    api_key: int
    api_version: int
    client: Client
    message: Entity


@dataclass(frozen=True, slots=True)
class Elected:
    """This replica now leads the partition: re-arm the timers of every group."""


@dataclass(frozen=True, slots=True)
class Resigned:
    """This replica no longer leads the partition: answer what is parked, drop the soft state.

    The answers (NOT_COORDINATOR) wait for nothing. Every HeartbeatLease given out ends.
    """


@dataclass(frozen=True, slots=True)
class TimersDue:
    """The deadline that the shard asked for has come."""


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics are gone from the catalogue: their committed offsets go too."""

    names: Sequence[str]


Event: TypeAlias = Request | Elected | Resigned | TimersDue | TopicsDeleted


Task: TypeAlias = object
"""Work for an assignor worker."""


class SessionHolder(Protocol):
    """The soft state of a member as the heartbeat path sees it."""

    session_timeout_ms: int
    session_deadline_ms: int


class StampHolder(Protocol):
    """The soft state of a group as the heartbeat path sees it."""

    stamp: int


@dataclass(frozen=True, slots=True)
class HeartbeatLease:
    """Leave to repeat a heartbeat's answer without asking the shard again.

    While ``group.stamp`` is still ``stamp``, the same heartbeat gets the same answer; whoever
    repeats it must move ``member.session_deadline_ms`` to now + ``member.session_timeout_ms``.
    Anything that could change the answer (a rebalance, a new generation, removal of the group, loss
    of leadership) bumps the group's stamp.
    """

    group: StampHolder
    stamp: int
    member: SessionHolder


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a ticket, in the newest shape of its API.

    ``group_id`` names the group whose records must be committed before the answer may leave; None
    where that is told by the request (APIs about many groups: whoever routes it knows which).
    """

    ticket: Ticket
    message: Entity
    group_id: str | None = None
    lease: HeartbeatLease | None = None


@dataclass(slots=True)
class Result:
    """Everything one event led to, in the order in which it came about.

    ``tasks`` are to be run elsewhere (an assignor, a regular expression over all topics); each
    comes back as an event of its own.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
