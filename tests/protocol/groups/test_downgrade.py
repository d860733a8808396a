"""A log read by a version that knows fewer group types, and by this one again.

The earlier version is this one without the rows of share groups, streams groups and share state: in
one case their records have no replay, in the other not even their types are known.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from protocol import records as record_table
from protocol.config import Configs
from protocol.groups import group_types, shadowed
from protocol.groups.dispatch import Tables, merge
from protocol.groups.effects import ClientInfo, Elected, Request, TimersDue
from protocol.groups.shard import GroupShard
from protocol.records import GroupMetadataKey, Record, encode
from protocol.wire import messages as m
from protocol.wire import streams_messages as streams
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from tests.failover.apis import asks
from tests.failover.working import beat as consumer_beat
from tests.protocol.groups.conversation import START_MS, image
from tests.protocol.groups.streams.streams_talk import STATEFUL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.unread import Row

LATER = (group_types.SHARE, group_types.STREAMS)
EARLIER: Tables = merge(
    (part for part in group_types.PARTS if part not in LATER),
    (edge for edge in group_types.EDGES if "streams" not in {edge.source, edge.target}),
)
UNKNOWN = [
    row.number for key, row in record_table.RECORD_TYPES.items() if key not in EARLIER.replays
]
"""Record types that the earlier version does not replay."""

TOPICS = {"in": 3, "store-changelog": 3, "t": 4}
KINDS = ("consumer", "share", "streams")
CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{
        f"group.{kind}.assignor.offload.enable": "false"
        for kind in ("consumer", "share", "streams")
    },
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in KINDS},
}


class Log:
    """A log of one partition, and the shards that read it and add to it."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)
        self.now = START_MS
        self.tickets = 0
        self.replies: dict[int, Any] = {}

    def read(self, tables: Tables | None = None, *, is_compacted: bool = False) -> GroupShard:
        """Load a shard, and count what it skips."""
        shard = GroupShard(Configs(CONFIGS), image(TOPICS), random.Random(1), tables)
        rows = compacted(self.rows) if is_compacted else self.rows
        count, self.skipped = shard.replay_rows(rows)
        assert count == len(rows)
        return shard

    def lead(self, tables: Tables | None = None, *, is_compacted: bool = False) -> GroupShard:
        """Load a shard and let it lead."""
        shard = self.read(tables, is_compacted=is_compacted)
        self.handle(shard, Elected())
        self.settle(shard)
        return shard

    def handle(self, shard: GroupShard, event: Any) -> None:
        result = shard.handle(event, self.now)
        self.rows += [encode(record) for record in result.records]
        self.replies.update({each.ticket: each.message for each in result.replies})
        assert shard.take_failures() == []

    def settle(self, shard: GroupShard) -> None:
        while (due := shard.next_deadline()) is not None and due <= self.now:
            self.handle(shard, TimersDue())

    def advance(self, shard: GroupShard, milliseconds: int) -> None:
        """Let time pass."""
        end = self.now + milliseconds
        while (due := shard.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.handle(shard, TimersDue())
        self.now = end

    def ask(self, shard: GroupShard, message: Any, version: int) -> Any:
        """Send a request; return its answer."""
        self.tickets += 1
        event = Request(
            ticket=self.tickets,
            api_key=message.__api_key__,
            api_version=version,
            client=ClientInfo("c", "/127.0.0.1"),
            message=message,
        )
        self.handle(shard, event)
        self.settle(shard)
        return self.replies[self.tickets]


def compacted(rows: Iterable[Row]) -> list[Row]:
    """Return what compaction leaves: the last value of each key, in the order of keys."""
    return [(key, value) for key, value in sorted(dict(rows).items()) if value is not None]


def streams_beat(group: str, member: str, epoch: int = 0, **more: Any) -> Any:
    joining = {
        "topology": STATEFUL,
        "rebalance_timeout": timedelta(seconds=60),
        "active_tasks": (),
        "standby_tasks": (),
        "warmup_tasks": (),
        "process_id": f"p-{member}",
    }
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": None}
    joining = joining if epoch == 0 else {}
    return blank(streams.StreamsGroupHeartbeatRequest, **{**fields, **joining, **more})


def share_beat(group: str, member: str, epoch: int = 0) -> Any:
    return m.ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=("t",) if epoch == 0 else None,
    )


def classic_join(log: Log, shard: GroupShard, group: str) -> str:
    """Bring a classic group of one member to Stable."""
    joined = log.ask(shard, asks.join(group, instance="i"), 9)
    assert joined.error_code is ErrorCode.none
    log.ask(shard, asks.sync(group, joined.generation_id, joined.member_id, {}), 5)
    return str(joined.member_id)


def a_log_of_all_types() -> Log:
    """A classic group ``k``, a consumer group ``c``, a share group ``s``, a streams group ``g``."""
    log = Log()
    shard = log.lead()
    classic_join(log, shard, "k")
    for member in ("A", "B"):
        for message in (
            consumer_beat("c", member),
            share_beat("s", member),
            streams_beat("g", member),
        ):
            assert log.ask(shard, message, 1).error_code is ErrorCode.none
    assert shard._context.groups["s"].state_topics  # type: ignore[attr-defined]
    log.ask(shard, asks.commit("other", 7), 9)
    return log


def state(shard: GroupShard, *, but: Iterable[str] = ()) -> Any:
    """Return all hard state as values, without some groups."""
    context = shard._context
    groups = {
        group_id: (
            group.type_name,
            getattr(group, "metadata", None),
            getattr(group, "epoch", None),
            getattr(group, "assignment_epoch", None),
            getattr(group, "targets", None),
            {
                member_id: (member.metadata, member.assignment)
                for member_id, member in getattr(group, "members", {}).items()
            },
            getattr(group, "own_values", tuple)(),
        )
        for group_id, group in context.groups.items()
        if group_id not in but
    }
    return groups, context.offsets, context.shadowed.keys()


@pytest.fixture(params=["has no replay", "does not know the type"])
def is_unknown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give what makes the earlier version forget record types, and remember them again."""

    def forget(is_earlier: bool) -> None:
        monkeypatch.undo()
        if is_earlier and request.param == "does not know the type":
            known = {n: row for n, row in record_table._BY_NUMBER.items() if n not in UNKNOWN}
            monkeypatch.setattr(record_table, "_BY_NUMBER", known)
            monkeypatch.setattr(record_table, "_ROWS", tuple(known.values()))

    yield forget


# --- what the earlier version does not know stays


@pytest.mark.parametrize("is_compacted", [False, True])
def test_what_an_earlier_version_skips_is_all_there_afterwards(
    is_unknown: Any, is_compacted: bool
) -> None:
    log = a_log_of_all_types()
    before = state(log.read())
    assert {kind for kind, *_ in before[0].values()} == {"classic", "consumer", "share", "streams"}

    is_unknown(True)
    shard = log.lead(EARLIER, is_compacted=is_compacted)
    rows = compacted(log.rows) if is_compacted else log.rows
    unknown = [key for key, _ in rows if int.from_bytes(key[:2], "big") in UNKNOWN]
    assert log.skipped == len(unknown) > 16
    context = shard._context
    assert sorted(context.groups) == ["c", "k", "other"]
    epoch = context.groups["c"].epoch
    assert log.ask(shard, consumer_beat("c", "C"), 1).error_code is ErrorCode.none
    assert context.groups["c"].epoch == epoch + 1
    log.ask(shard, asks.commit("other", 8), 9)
    log.advance(shard, 200_000)  # no member of its groups is left
    assert log.ask(shard, m.DeleteGroupsRequest(groups_names=("k", "c")), 2)

    is_unknown(False)
    for again in (log.read(), log.read(is_compacted=True)):
        assert log.skipped == 0
        groups, offsets, conflicts = state(again)
        assert not conflicts
        assert {name: groups[name] for name in ("s", "g")} == {
            name: before[0][name] for name in ("s", "g")
        }
        assert offsets["other"]["t"][0].offset == 8
        assert "k" not in groups
    shard = log.lead()
    for group_id, beat in (("s", share_beat), ("g", streams_beat)):
        epoch = shard._context.groups[group_id].members["A"].assignment.epoch  # type: ignore[attr-defined]
        assert log.ask(shard, beat(group_id, "A", epoch), 1).error_code is ErrorCode.none


# --- the same id in two types


def taken_meanwhile(log: Log, is_unknown: Any, how: str) -> None:
    """Let clients of an earlier version use the ids of the share group and the streams group."""
    is_unknown(True)
    shard = log.lead(EARLIER)
    for group_id in ("s", "g"):
        if how == "classic":
            classic_join(log, shard, group_id)
        else:
            assert log.ask(shard, consumer_beat(group_id, "A"), 1).error_code is ErrorCode.none
        assert log.ask(shard, asks.commit(group_id, 9), 9)
    is_unknown(False)


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("how", ["classic", "consumer"])
def test_a_group_that_an_earlier_version_made_has_the_id(
    is_unknown: Any, how: str, is_compacted: bool
) -> None:
    """It is the newer one: this version removes a group before another type takes its id."""
    log = a_log_of_all_types()
    taken_meanwhile(log, is_unknown, how)
    one, other = log.read(), log.read(is_compacted=True)
    assert state(one) == state(other)
    assert {each: set(kinds) for each, kinds in one._context.shadowed.items()} == {
        "s": {"share"},
        "g": {"streams"},
    }
    members = state(one)[0]["g"]

    shard = log.lead(is_compacted=is_compacted)  # the leader removes what is shadowed
    assert shard._context.shadowed == {}
    assert state(shard)[0]["g"] == members
    left = {int.from_bytes(key[:2], "big") for key, _ in compacted(log.rows)}
    assert not left & {10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23}
    for again in (log.read(), log.read(is_compacted=True)):
        assert state(again) == state(shard)


@pytest.mark.parametrize("how", ["classic", "consumer"])
def test_a_group_that_was_deleted_again_shadows_nothing(is_unknown: Any, how: str) -> None:
    log = a_log_of_all_types()
    before = state(log.read())[0]
    taken_meanwhile(log, is_unknown, how)
    is_unknown(True)
    shard = log.lead(EARLIER)
    log.advance(shard, 200_000)
    deleted = log.ask(shard, m.DeleteGroupsRequest(groups_names=("s", "g")), 2)
    assert [each.error_code for each in deleted.results] == [ErrorCode.none] * 2
    is_unknown(False)
    for again in (log.read(), log.read(is_compacted=True)):
        groups = state(again)[0]
        assert {name: groups[name] for name in ("s", "g")} == {
            name: before[name] for name in ("s", "g")
        }
        assert again._context.shadowed == {}


def test_many_records_of_a_shadowed_group_are_removed_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadowed, "SLICE_RECORDS", 4)
    log = a_log_of_all_types()
    group = log.read()._context.groups["k"]
    assert group.type_name == "classic"
    value = replace(group.metadata, generation=4)  # type: ignore[attr-defined]
    log.rows.append(encode(Record(GroupMetadataKey(group="g"), value)))
    shard = log.lead()
    assert shard._context.shadowed == {}
    assert shard._context.groups["g"].type_name == "classic"
    assert state(log.read(is_compacted=True)) == state(shard)
