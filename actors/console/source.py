"""What the console shows, as values, and whom it asks for them: a cluster of ours, or any Kafka.

A source is only asked while somebody looks, and not too often (``hub.py``). Texts are as clients
gave them: the pages escape them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.stories.story import RebalanceStory


class SourceError(Exception):
    """A question could not be answered; the text is one sentence for people."""


class ActionRefusedError(SourceError):
    """An action was not carried out; the text says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group in a list. None: not known.

    ``rebalances`` counts up for as long as the source watches; ``lately`` counts those of the last
    minutes. ``lag`` is the sum over the group's partitions.
    """

    group_id: str
    group_type: str
    state: str
    members: int | None = None
    rebalances: int | None = None
    lately: int | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """All groups, in any order; ``notes`` are sentences of what is missing or inferred."""

    groups: Sequence[ListedGroup]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. ``owned`` and ``target`` are partitions (``orders-3``) or tasks.

    ``session_left_ms`` of ``session_ms`` are left until it is expelled, unless it is heard of.
    ``target`` is None where the group has no targets.
    """

    member_id: str
    instance_id: str = ""
    client_id: str = ""
    host: str = ""
    software: str = ""
    epoch: int | None = None
    owned: tuple[str, ...] = ()
    target: tuple[str, ...] | None = None
    session_ms: int | None = None
    session_left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Where a group is in a partition; None: not known."""

    unit: str
    committed: int | None = None
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """How many records the group is behind; a partition that was cut off may end before it."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """One group with its recent rebalances, the oldest first, of which ``dropped`` made room.

    ``units`` are all partitions (or tasks) that are to be owned, also those that nobody owns.
    ``since_ms`` (Unix) is when the history begins. ``now`` is a sentence of the rebalance that is
    under way.
    """

    summary: ListedGroup
    coordinator: str = ""
    assignor: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: Sequence[Member] = ()
    units: Sequence[str] = ()
    offsets: Sequence[Offset] = ()
    stories: Sequence[RebalanceStory] = ()
    since_ms: int = 0
    dropped: int = 0
    now: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A coordinator, or a broker. ``facts`` are further columns by their titles."""

    node_id: int
    address: str
    state: str = ""
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPartition:
    """A partition of a log on which coordinators stand, with its replicas.

    ``number`` is what drills call it; None: they cannot.
    """

    title: str
    number: int | None = None
    leader: int | None
    epoch: int | None = None
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that computes assignments, and its queue."""

    name: str
    state: str
    runs: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster; ``problems`` are sentences."""

    cluster_id: str
    bootstrap: str
    nodes: Sequence[ShownNode] = ()
    partitions: Sequence[ShownPartition] = ()
    workers: Sequence[Worker] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ConsoleSource(Protocol):
    """Whom the console asks. Every method raises :class:`SourceError` if it has no answer."""

    title: str
    """What is watched, in a word or two, for the head of each page."""

    may_act: bool
    """Whether members may be removed."""

    may_drill: bool
    """Whether drills may be carried out."""

    async def groups(self) -> GroupList:
        """Return all groups."""

    async def group(self, group_id: str) -> GroupDetail | None:
        """Return one group; None if there is none, and no rebalance of one is remembered."""

    async def cluster(self) -> Cluster:
        """Return the cluster."""

    async def remove(self, group_id: str, member: Member, reason: str) -> None:
        """Remove a member from its group."""

    async def drill(self, name: str, *arguments: int) -> str:
        """Carry out a drill; return what was done. Raises :class:`ActionRefusedError`."""

    async def metrics(self) -> str | None:
        """Return metrics in Prometheus' text format; None if there are none."""

    async def status(self) -> Mapping[str, object] | None:
        """Return the status as programs read it (``/status.json``); None if there is none."""
