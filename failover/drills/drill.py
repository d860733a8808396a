"""Drills: rehearsed failures as data, the same for a live cluster and for the simulator.

A drill is a TOML file: the members (``workload``), what happens to the cluster, step by step
(``steps``), and what it may cost (``expect``). This module reads and checks drills and defines
their members. Each runner executes the steps in its own way and passes what it recorded to
:mod:`failover.drills.verdict`.
"""

from __future__ import annotations

import tomllib
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from failover.drills.checked import DrillError, checked
from protocol.members.classic import MemberConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
"""The types of groups that members of a drill may have."""

MODERN_TYPES: Final = GROUP_TYPES[1:]
"""Those whose members cannot ask for a session timeout or a heartbeat interval."""

WITHOUT_STATIC: Final = "share"
"""The one whose members are never static (KIP-932)."""


class Action(StrEnum):
    """The kinds of steps."""

    KILL = "kill"  # end the target's processes at once, as kill -9 does
    START = "start"  # restart every killed node (a live cluster restarts them by itself)
    FREEZE = "freeze"  # stop the target's processes without ending them, as SIGSTOP does
    THAW = "thaw"  # resume every frozen process
    CUT = "cut"  # disconnect the target from all other nodes, but not from its clients
    MEND = "mend"  # end every cut
    LOSE_DISK = "lose-disk"  # end the target's processes and delete their data
    ROLL = "roll"  # drain, end and restart the target's nodes, one after the other
    FILL_DISK = "fill-disk"  # fill the target's disk
    FREE_DISK = "free-disk"  # free the disk
    SLOW_DISK = "slow-disk"  # let each sync of the target's logs take sync_ms longer
    FAST_DISK = "fast-disk"  # end the delay of syncs
    RESTART_MEMBERS = "restart-members"  # stop a share of the static members and start them again
    JOIN_MEMBERS = "join-members"  # add dynamic members, as a share of the existing ones
    WAIT = "wait"  # wait until the condition holds


class Target(StrEnum):
    """The target of a step; its nodes are chosen when the step starts.

    LEADER leads the partition of the first group. MAJORITY is that leader and as many other nodes
    as it takes to leave a minority.
    """

    LEADER = "leader"
    MAJORITY = "majority"
    ALL = "all"
    CONTROLLER = "controller"


class Condition(StrEnum):
    """What a step waits for: partitions that are led, fully in sync, or groups that are Stable."""

    LED = "led"
    REPLICATED = "replicated"
    STABLE = "stable"


FAULTS: Final = frozenset(
    {
        Action.KILL, Action.FREEZE, Action.CUT, Action.LOSE_DISK, Action.ROLL, Action.FILL_DISK,
        Action.SLOW_DISK, Action.RESTART_MEMBERS, Action.JOIN_MEMBERS,
    }
)  # fmt: skip
"""The actions that clients may notice: a drill's costs count from the first of them."""


OF_MEMBERS: Final = frozenset({Action.RESTART_MEMBERS, Action.JOIN_MEMBERS})
"""The actions that need members of the drill's own."""

UNTIL_WHOLE: Final = (FAULTS - OF_MEMBERS) | {
    Action.THAW,
    Action.MEND,
    Action.FREE_DISK,
    Action.FAST_DISK,
}
"""The time to full replication counts from the last of these actions."""


NUMBER_MAX: Final = 10**9

Count = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
AnyCount = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Share = Annotated[float, Meta(ge=0, le=1)]
SyncMs = Annotated[int, Meta(ge=0, le=10_000)]
Text = Annotated[str, Meta(min_length=1)]


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The members. They are spread evenly; each group reads a topic with the group's name.

    A topic has three partitions for two members, so that more can join. Members commit every
    ``commit_interval_ms``, for each partition they own, the time of the commit: later commits are
    larger ones.
    """

    groups: Count = 6
    members: Count = 300
    static_share: Share = 0.5
    consumer_share: Share = 0.0
    """The share of the groups that are consumer groups (KIP-848)."""
    share_share: Share = 0.0
    """The share of the groups that are share groups (KIP-932)."""
    streams_share: Share = 0.0
    """The share of the groups that are streams groups (KIP-1071); the others are classic."""
    commit_interval_ms: Count = 1_000
    heartbeat_interval_ms: Count = 1_000
    session_timeout_ms: Count = 30_000
    request_timeout_ms: Count = 30_000
    settle_ms: AnyCount = 5_000
    """How long the members continue after the last step, so that its costs are visible."""

    @property
    def partitions_each(self) -> int:
        """Partitions of each topic."""
        return -(-3 * self.members // (2 * self.groups))

    def group_ids(self, prefix: str) -> tuple[str, ...]:
        """Return the group ids, which are also the topic names."""
        return tuple(f"{prefix}-{number}" for number in range(self.groups))

    def group_types(self, prefix: str) -> dict[str, str]:
        """Return the type of each group; the types are spread among each other, classic first.

        Only live clusters have groups of all types: in the simulator all are classic.
        """
        modern = {
            "consumer": self.consumer_share,
            "share": self.share_share,
            "streams": self.streams_share,
        }
        shares = {"classic": max(0.0, 1 - sum(modern.values())), **modern}
        counts = dict.fromkeys(shares, 0)
        types = {}
        for number, group_id in enumerate(self.group_ids(prefix), 1):
            chosen = max(shares, key=lambda each: shares[each] * number - counts[each])
            counts[chosen] += 1
            types[group_id] = chosen
        return types

    def configs(self, prefix: str) -> tuple[MemberConfig, ...]:
        """Return the members, taken from each group in turn, so that any prefix is balanced."""
        group_ids = self.group_ids(prefix)
        counts = [0] * self.groups
        configs = []
        for number in range(self.members):
            group = number % self.groups
            place, counts[group] = counts[group], counts[group] + 1
            is_static = int((place + 1) * self.static_share) > int(place * self.static_share)
            configs.append(self.config(group_ids[group], f"{place:05d}", is_static=is_static))
        return tuple(configs)

    def config(self, group_id: str, name: str, *, is_static: bool) -> MemberConfig:
        """Return one member's settings; ``name`` is unique in its group."""
        full_name = f"{group_id}-{name}"
        return MemberConfig(
            group_id=group_id,
            topics=(group_id,),
            client_id=full_name,
            instance_id=full_name if is_static else None,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            request_timeout_ms=self.request_timeout_ms,
        )


class DrillStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action, ``after_ms`` after the previous step was done (the first: after Stable).

    ``until`` and ``within_ms`` are a wait's condition and time limit, ``share`` is the part of the
    members that restart or join, ``sync_ms`` how much longer a slow disk's syncs take.
    """

    do: Action
    target: Target = Target.LEADER
    after_ms: AnyCount = 0
    until: Condition = Condition.REPLICATED
    within_ms: Count = 60_000
    share: Share = 1.0
    sync_ms: SyncMs = 200

    def __str__(self) -> str:
        words = [str(self.do)]
        if self.do in _TARGETED:
            words.append(str(self.target))
        elif self.do is Action.WAIT:
            words += ["until", str(self.until)]
        return " ".join(words)


_TARGETED: Final = frozenset(
    {
        Action.KILL, Action.FREEZE, Action.CUT, Action.LOSE_DISK, Action.ROLL, Action.FILL_DISK,
        Action.SLOW_DISK,
    }
)  # fmt: skip


class Expect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the drill may cost. What may never be lost is not listed here: it is always checked.

    ``rebalances_max`` is for each group. The times are from one successful heartbeat to the next
    (99 of 100 members), from one acknowledged commit to the next (of all members of a group
    together), and from the last fault to all replicas in sync.
    """

    rebalances_max: AnyCount = 0
    expelled_max: AnyCount = 0
    unheard_p99_ms_max: Count = 5_000
    silent_ms_max: Count = 60_000
    replicated_ms_max: Count = 60_000


class Drill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rehearsed failure; ``about`` describes it in words."""

    name: str
    about: Text
    workload: Workload = Workload()
    steps: Annotated[tuple[DrillStep, ...], Meta(min_length=1)]
    expect: Expect = Expect()

    def of_size(self, members: int | None) -> Drill:
        """Return the same drill with another number of members (None: unchanged)."""
        if members is None:
            return self
        groups = min(self.workload.groups, members)
        return replace(self, workload=replace(self.workload, members=members, groups=groups))

    def of_types(self, types: Sequence[str] | None) -> Drill:
        """Return the same drill with groups of these types, spread evenly (None: unchanged)."""
        if types is None:
            return self
        if len(types) > self.workload.groups:
            raise DrillError(
                f"Drill {self.name} has fewer groups than --types names: {self.workload.groups}."
            )
        if WITHOUT_STATIC in types and self.does(Action.RESTART_MEMBERS):
            raise DrillError(
                f"Drill {self.name} restarts static members, and groups of type {WITHOUT_STATIC}"
                f" have none: omit {WITHOUT_STATIC} from --types."
            )
        shares = {f"{each}_share": (each in types) / len(types) for each in MODERN_TYPES}
        return replace(self, workload=replace(self.workload, **shares))

    def does(self, action: Action) -> bool:
        """Whether one of the steps is ``action``."""
        return any(step.do is action for step in self.steps)


def names() -> tuple[str, ...]:
    """Return the names of the drills included in the program."""
    files = (each.name for each in _directory().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def named(name: str) -> Drill:
    """Return a drill included in the program."""
    if name not in names():
        raise DrillError(f"There is no drill {name!r}: see --list.")
    return parse(name, (_directory() / f"{name}.toml").read_text("utf-8"))


def parse(name: str, text: str) -> Drill:
    """Read a drill; raises :class:`DrillError` with one sentence for each mistake."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DrillError(f"Drill {name} is no TOML: {error}.") from None
    if "name" in table:
        raise DrillError(f"Drill {name}: leave `name` out: the name of the file is the drill's.")
    return checked(Drill, {**table, "name": name}, f"Drill {name}")


def _directory() -> Any:
    return resources.files(__package__)
