"""Faults planted in made histories, each in a group of its own: one or more for a check or a cost.

A check that finds no planted fault proves nothing, nor does a cost that is the same without one.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.changed_rows import (
    add,
    answer,
    change,
    is_assigned,
    is_of,
    rebalance,
    repeat,
    swap,
)
from bench.histories.made import (
    GROUPS_MIN,
    HAS_STATIC,
    HEIR,
    LEAVER,
    PROTOCOLS,
    READ_TICKS,
    RESTARTER,
    SLEEPER,
    TAKER,
    TICK_MS,
    TWIN,
    made_groups,
)
from bench.histories.prepared import FENCED, UNRELEASED, is_kind
from bench.histories.schema import COLUMNS, ENDED, FETCHED, FINAL
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from bench.histories.made import HistoryShape

STEADY: Final = HEIR + 1
"""A dynamic member without a part of its own."""

OTHER: Final = STEADY + 1
"""A static one."""

LATE_TICKS: Final = 6
"""So much later comes an assignment that is planted late."""

NOTHING: Final = "array()"
"""SQL for an assignment without partitions."""


class PlantedFault(NamedTuple):
    """One row: the protocol of a group that can have the fault, and what plants it in its rows.

    ``also`` has the other checks that must find it.
    """

    protocol: str
    plant: Callable[[DataFrame, HistoryShape], DataFrame]
    also: tuple[str, ...] = ()


def with_faults(history: DataFrame, shape: HistoryShape) -> DataFrame:
    """Return a made history with every fault, each in its group (:func:`group_of`).

    The shape must have at least :data:`bench.histories.made.GROUPS_MIN` groups.
    """
    numbers = [number_of(name) for name in FAULTS]
    session = history.sparkSession
    cores = session.sparkContext.defaultParallelism  # each fault costs a task for each part
    groups = made_groups(session, shape, numbers).coalesce(cores).localCheckpoint()
    changed = [
        fault.plant(groups.where(F.col("group_id") == group_of(name)), shape).select(*COLUMNS)
        for name, fault in FAULTS.items()
    ]
    is_other = F.col("group_id").isNull() | ~F.col("group_id").isin(*map(group_of, FAULTS))
    planted = reduce(lambda one, other: one.unionByName(other), changed)
    return history.where(is_other).unionByName(planted.coalesce(cores).localCheckpoint())


def number_of(name: str) -> int:
    """Return the number of the group that has a fault."""
    alike = [each for each, fault in FAULTS.items() if fault.protocol == FAULTS[name].protocol]
    return PROTOCOLS.index(FAULTS[name].protocol) + len(PROTOCOLS) * alike.index(name)


def group_of(name: str) -> str:
    """Return the id of the group that has a fault."""
    return f"made-{number_of(name)}"


def groups_of(name: str) -> frozenset[str]:
    """Return the ids of all groups in which a check must find a fault, or a cost must be more."""
    return frozenset(
        group_of(each)
        for each, fault in FAULTS.items()
        if subject_of(each) == name or name in fault.also
    )


def subject_of(name: str) -> str:
    """Return the check or the cost that a fault is for: its name up to a colon."""
    return name.partition(":")[0]


def unharmed(protocol: str) -> str:
    """Return the id of a group of a protocol that has no fault."""
    return f"made-{GROUPS_MIN - len(PROTOCOLS) + PROTOCOLS.index(protocol)}"


def _given_too_early(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Give the leaver's partitions to the taker before the leaver has left."""
    at_ms = shape.left * TICK_MS + 300
    return change(rows, is_assigned(TAKER, 4), time_ms=at_ms, asked_ms=at_ms - 1, sequence=at_ms)


def _given_twice(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Assign to the leaver, before it leaves, what the taker gets in the same generation."""
    return add(rows, is_assigned(LEAVER, 3), shape.left * TICK_MS + 550, generation=4)


def _forgotten(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let nobody own some partitions in the end."""
    return change(rows, is_of(STEADY, FINAL), owned=NOTHING)


def _older(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Tell a member an old generation in one heartbeat."""
    is_last = F.col("time_ms") >= shape.ticks * TICK_MS
    return change(rows, is_of(STEADY, Kind.HEARTBEAT) & is_last, generation=1)


def _newcomer_behind(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let the next life of a static member join in an old generation."""
    return change(rows, is_of(RESTARTER, Kind.JOINED) & (F.col("life") == 2), generation=3)


def _joined_behind(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let a member that was expelled join in a generation that is old for the others."""
    is_back = F.col("time_ms") >= shape.back * TICK_MS
    return change(rows, is_of(SLEEPER, Kind.JOINED) & is_back, generation=1)


def _lost(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let the committed offsets be less than what was acknowledged."""
    return change(rows, is_kind(FETCHED), offsets="transform_values(offsets, (_, at) -> at - 1)")


def _committed_over(rows: DataFrame, shape: HistoryShape) -> DataFrame:  # noqa: ARG001 - as all
    """Let somebody read once more what was there before the last commits; members commit on."""
    at_ms = READ_TICKS * TICK_MS
    return add(rows, is_kind(FETCHED) & (F.col("time_ms") == at_ms), at_ms + 700)


def _last_read(shape: HistoryShape) -> Column:
    return is_kind(FETCHED) & (F.col("time_ms") > shape.ticks * TICK_MS)


def _rolled_back(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let offsets be read that are not there in the end, of a commit without an answer."""
    more = "transform_values(offsets, (_, at) -> at + 5)"
    at_ms = shape.ticks * TICK_MS + 900
    read = add(rows, _last_read(shape), at_ms, offsets=more)
    return _of_steady(read, is_kind(FETCHED) & (F.col("time_ms") == at_ms), at_ms - 10,
                      kind=f"'{Kind.COMMIT_FAILED}'", error="'disconnected'")  # fmt: skip


def _of_steady(rows: DataFrame, like: Column, at_ms: int, **columns: object) -> DataFrame:
    """Add rows like those of a group, and let them be a member's."""
    return add(rows, like, at_ms, member=f"'m-{STEADY}'", life=1, member_id=f"'m-{STEADY}-1'",
               **columns)  # fmt: skip


def _all_gone(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let no committed offset be there in the end."""
    return change(rows, is_kind(FETCHED), offsets="map_filter(offsets, (_, at) -> at < 0)")


def _never_read(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let nobody read the committed offsets."""
    return rows.where(~is_kind(FETCHED))


def _refused_and_written(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Refuse a commit, and let its offsets be there in the end all the same."""
    more = "transform_values(offsets, (_, at) -> at + 5)"
    at_ms = shape.ticks * TICK_MS + 800
    refused = _of_steady(rows, _last_read(shape), at_ms, kind=f"'{Kind.COMMIT_FAILED}'",
                         error="'illegal_generation'", offsets=more)  # fmt: skip
    return change(refused, _last_read(shape), offsets=more)


def _moved(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let a static member lose a partition in its restart, and have it again soon after."""
    where = is_assigned(RESTARTER, 4) & (F.col("life") == 2)
    at_ms = (shape.restarted + 2) * TICK_MS + 40
    again = add(rows, where, at_ms)
    less = "slice(assigned, 2, 100)"
    return change(again, where & (F.col("time_ms") < at_ms), owned=less, assigned=less)


def _moved_for_nothing(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let the restart of a static member cause a rebalance, in which it changes its place."""
    return swap(_bounced(rows, shape), 5, RESTARTER, STEADY)


def _others_moved(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let it cause a rebalance in which it keeps its place, and two others change theirs."""
    return swap(_bounced(rows, shape), 5, STEADY, OTHER)


def _bounced(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let the restart of a static member cause a rebalance, with the same assignment."""
    since_ms = shape.restarted * TICK_MS + 600
    others = is_assigned(RESTARTER, 4) | is_assigned(LEAVER, 4) | (F.col("life") == 2)
    is_early = F.col("time_ms") < since_ms
    last = is_kind(Kind.ASSIGNED) & (F.col("generation") == 4) & is_early & ~others
    again = add(rows, last, since_ms + 80, generation=5, revoked="null")
    told = is_kind(Kind.JOINED, Kind.ASSIGNED, Kind.HEARTBEAT, FINAL)
    return change(again, told & (F.col("time_ms") > since_ms), generation=5)


def _left_out(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Give a partition to nobody, until the group rebalances once more before its end."""
    less = "slice(assigned, 2, 100)"
    where = is_assigned(STEADY, 4)
    return change(_once_more(rows, shape), where, owned=less, assigned=less)


def _left_out_in_churn(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Do the same while the group rebalances again and again."""
    times = {4 + number: (shape.left + 2 * number) * TICK_MS + 900 for number in range(1, 5)}
    times[9] = shape.ticks * TICK_MS + 700
    less, is_whole = "slice(assigned, 2, 100)", F.col("generation").isin(*range(1, 4), 9)
    rows = rebalance(rows, times)
    return change(rows, is_of(STEADY, Kind.ASSIGNED) & ~is_whole, owned=less, assigned=less)


def _left_out_soon(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Give a partition to nobody in a generation that lasts for a tenth of a second."""
    less, at_ms = "slice(assigned, 2, 100)", shape.ticks * TICK_MS + 700
    joins = {5: at_ms - 50, 6: at_ms + 50}
    joined = repeat(rows, is_assigned(STEADY, 4), joins, kind=f"'{Kind.JOINED}'", owned="null",
                    assigned="null")  # fmt: skip
    again = rebalance(rows, {5: at_ms, 6: at_ms + 100}).unionByName(joined)
    return change(again, is_assigned(STEADY, 5), owned=less, assigned=less)


def _foreign(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Assign a partition that there is not."""
    return change(rows, is_assigned(STEADY, 4), assigned="concat(assigned, array('x-9'))")


def _ended_early(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """End the run soon after a member vanished."""
    at_ms = shape.ticks * TICK_MS + 700
    none = "null"
    gone = add(rows.where(~is_of(STEADY, FINAL)), is_assigned(STEADY, 4), at_ms, kind=f"'{ENDED}'",
               assigned=none, owned=NOTHING, generation=none, asked_ms=none)  # fmt: skip
    return gone.where((F.col("member") != f"m-{STEADY}") | (F.col("time_ms") <= at_ms)
                      | F.col("member").isNull())  # fmt: skip


def _served(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Serve a fenced member once more."""
    like = is_of(TWIN, Kind.HEARTBEAT) & (F.col("time_ms") == shape.doubled * TICK_MS + TWIN)
    return add(rows, like, (shape.doubled + 2) * TICK_MS + 100)


def _fenced(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Fence a static member before its next life begins."""
    like = is_assigned(RESTARTER, 4) & (F.col("life") == 1)
    return answer(rows, like, shape.restarted * TICK_MS + 590, Kind.FAILED, FENCED)


def _fenced_too_early(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Fence a static member when its next life has started, and has not asked to join."""
    like = is_assigned(RESTARTER, 4) & (F.col("life") == 1)
    return answer(rows, like, shape.restarted * TICK_MS + 655, Kind.FAILED, FENCED)


def _fenced_newer(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Fence the twin in place of the older life, which goes on and joins once more."""
    at_ms = (shape.doubled + 1) * TICK_MS
    older = rows.where(~is_of(TWIN, Kind.FAILED))
    is_twin = (F.col("member") == f"m-{TWIN}") & (F.col("life") == 2)
    is_later = is_kind(FINAL) | (F.col("time_ms") > at_ms)
    kept = change(older, is_twin & is_later, life=1, member_id=f"'m-{TWIN}-1'")
    told = answer(kept, is_twin & is_kind(Kind.ASSIGNED), at_ms + 20, Kind.FAILED, FENCED)
    like = is_assigned(TWIN, 4) & (F.col("life") == 1)
    joined = add(told, like, at_ms + 200, kind=f"'{Kind.JOINED}'", owned="null", assigned="null")
    return add(joined, like, at_ms + 300)


def _kept(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Serve an older life, and do not fence it, when another one has its instance id."""
    at_ms = (shape.doubled + 3) * TICK_MS
    ends = change(rows, is_of(TWIN, Kind.FAILED), kind=f"'{ENDED}'", time_ms=at_ms, sequence=at_ms,
                  asked_ms="null", error="null")  # fmt: skip
    return _served(ends, shape)


def _unreleased(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Refuse the only process with an instance id once, before it joins."""
    like = is_of(OTHER, Kind.JOINED)
    return answer(rows, like, 20, Kind.RETRIED, UNRELEASED)


def _expelled(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Tell a member that heartbeats that it is no member."""
    at_ms = (shape.ticks - 1) * TICK_MS + 200
    return answer(rows, is_assigned(STEADY, 4), at_ms, Kind.LOST, "unknown_member_id")


def _behind(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Leave a member in an old generation in the end."""
    return change(rows, is_of(STEADY, FINAL), generation=3)


# --- what costs more: nothing of it is forbidden


def _another(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let a member have a double that shares its partitions, in a share group."""
    double = rows.where(F.col("member") == f"m-{STEADY}").withColumns(
        {"member": F.lit("double"), "member_id": F.lit("double-1")}
    )
    return rows.unionByName(double)


def _once_more(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let the group rebalance once more before its end, with the same assignment."""
    is_before = F.col("protocol").isin(*HAS_STATIC) & (F.col("life") == 1)
    has_ended = is_before & is_of(RESTARTER, Kind.ASSIGNED)
    is_last = is_kind(Kind.ASSIGNED) & (F.col("generation") == 4) & ~has_ended
    last = add(rows, is_last, shape.ticks * TICK_MS + 700, generation=5)
    return change(last, is_kind(FINAL), generation=5)


def _late(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let a member wait for its assignment."""
    at_ms = (shape.left + LATE_TICKS) * TICK_MS + 900
    return change(rows, is_assigned(STEADY, 4), time_ms=at_ms, asked_ms=at_ms - 1, sequence=at_ms)


def _waits(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Ask a member to join again shortly before the end, and let it wait."""
    at_ms = shape.ticks * TICK_MS + 700
    return answer(rows, is_assigned(STEADY, 4), at_ms, Kind.REBALANCING, "rebalance_in_progress")


def _taken(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Take partitions away from a member that stays."""
    return change(rows, is_assigned(STEADY, 4), revoked="array('t-1000', 't-1001', 't-1002')")


def _swapped(rows: DataFrame, _shape: HistoryShape) -> DataFrame:
    """Let two members change their places in a rebalance."""
    return swap(rows, 4, STEADY, OTHER)


def _two_leave(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let another member leave with the leaver; its neighbour takes over."""
    leaves_ms = shape.left * TICK_MS + 590
    is_late = (F.col("member") == f"m-{OTHER}") & (F.col("time_ms") > leaves_ms)
    left = is_of(LEAVER, Kind.LEFT)
    gone = rows.where(left).withColumns(
        {"member": F.lit(f"m-{OTHER}"), "instance_id": F.lit(None).cast("string"),
         "member_id": F.lit(f"m-{OTHER}-1")}
    )  # fmt: skip
    late = F.coalesce(is_late, F.lit(False))
    heirs = rows.where(late & is_kind(Kind.COMMITTED)).withColumns(
        {"member": F.lit(f"m-{STEADY}"), "member_id": F.lit(f"m-{STEADY}-1")}
    )
    both = rows.where(~late).unionByName(gone).unionByName(heirs)
    takes = is_assigned(STEADY, 4) | is_of(STEADY, FINAL)
    more = f"concat(owned, array('t-{2 * OTHER}', 't-{2 * OTHER + 1}'))"
    return change(both, takes, owned=more, assigned=f"if(assigned is null, null, {more})")


def _silent(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Let a member hear nothing from the change to the end."""
    is_heartbeat = is_of(STEADY, Kind.HEARTBEAT) & (F.col("time_ms") > shape.left * TICK_MS + 900)
    return rows.where(~is_heartbeat)


def _lost_generation(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """Tell a member once that its generation is not the group's."""
    at_ms = shape.ticks * TICK_MS + 600
    return answer(rows, is_assigned(STEADY, 4), at_ms, Kind.LOST, "illegal_generation")


def _refused(rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """End a member with an error."""
    at_ms = shape.ticks * TICK_MS + 600
    return answer(rows, is_assigned(STEADY, 4), at_ms, Kind.FAILED, "group_authorization_failed")


def _one_more(kind: str) -> Callable[[DataFrame, HistoryShape], DataFrame]:
    def plant(rows: DataFrame, shape: HistoryShape) -> DataFrame:
        """Add one row like a commit."""
        at_ms = shape.frozen * TICK_MS + 777
        like = is_of(STEADY, Kind.COMMITTED) & (F.col("time_ms") < 3 * TICK_MS)
        return add(rows, like, at_ms, kind=f"'{kind}'")

    return plant


FAULTS: Final[Mapping[str, PlantedFault]] = {
    "two-owners": PlantedFault("consumer", _given_too_early),
    "two-owners-in-generation": PlantedFault("classic", _given_twice),
    "no-owner": PlantedFault("share", _forgotten),
    "ended-early": PlantedFault("share", _ended_early),
    "incomplete": PlantedFault("streams", _left_out),
    "incomplete: churn": PlantedFault("streams", _left_out_in_churn),
    "incomplete: short": PlantedFault("classic", _left_out_soon),
    "foreign-partition": PlantedFault("streams", _foreign),
    "backward": PlantedFault("streams", _older),
    "backward: static": PlantedFault("classic", _newcomer_behind),
    "backward: another": PlantedFault("streams", _joined_behind),
    "lost-commit": PlantedFault("classic", _lost),
    "lost-commit: all": PlantedFault("classic", _all_gone),
    "lost-commit: committed over": PlantedFault("consumer", _committed_over),
    "rolled-back": PlantedFault("streams", _rolled_back),
    "uncommitted": PlantedFault("classic", _refused_and_written),
    "never-read": PlantedFault("streams", _never_read),
    "static-moved": PlantedFault("consumer", _moved),
    "static-moved: new generation": PlantedFault(
        "consumer", _moved_for_nothing, ("static-rebalanced",)
    ),
    "static-moved: others": PlantedFault("consumer", _others_moved, ("static-rebalanced",)),
    "static-rebalanced": PlantedFault("consumer", _once_more),
    "fenced-came-back": PlantedFault("classic", _served),
    "fenced-wrongly": PlantedFault("classic", _fenced),
    "fenced-wrongly: early": PlantedFault("classic", _fenced_too_early),
    "fenced-wrongly: newer": PlantedFault("classic", _fenced_newer, also=("zombie-served",)),
    "zombie-served": PlantedFault("classic", _kept),
    "refused-wrongly": PlantedFault("consumer", _unreleased),
    "expelled-early": PlantedFault("share", _expelled),
    "not-converged": PlantedFault("consumer", _behind),
    "members": PlantedFault("share", _another),
    "rebalances": PlantedFault("share", _once_more),
    "slowest-rebalance-ms": PlantedFault("streams", _late),
    "converged-ms": PlantedFault("consumer", _late),
    "converged-ms: never": PlantedFault("classic", _waits),
    "survivor-revocations": PlantedFault("consumer", _taken),
    "moved": PlantedFault("classic", _swapped),
    "moved-at-least": PlantedFault("streams", _two_leave),
    "unavailable-member-ms": PlantedFault("classic", _late),
    "unowned-ms": PlantedFault("classic", _late),
    "heartbeat-gap-ms": PlantedFault("share", _silent),
    "expelled": PlantedFault("share", _lost_generation),
    "failed": PlantedFault("streams", _refused),
    "commits": PlantedFault("consumer", _one_more(Kind.COMMITTED)),
    "failed-commits": PlantedFault("streams", _one_more(Kind.COMMIT_FAILED)),
    "disconnects": PlantedFault("consumer", _one_more(Kind.DISCONNECTED)),
}
"""The faults by the names of the checks that must find them, and of the costs that must grow.

A further fault for the same check or cost has a word after a colon.
"""
