"""What the console is told of a watched Kafka, and how often it asks for the ends of partitions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from actors.console.source import ConsoleSource, Member, Offset, SourceError
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching.console import INFERRED, INFERRED_STATE, WatchedSource
from actors.watching.ends import FRESH_S, PartitionEnds
from actors.watching.session import Options, WatchSession
from protocol.records import OffsetCommitKey, OffsetCommitValue
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, Told
from tests.promtool import check_metrics, has_promtool
from tests.protocol.watching.records import NOW, current, epoch, generation, joined, targets

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ends:
    """A cluster whose partitions all end at 20."""

    def __init__(self) -> None:
        self.asked: list[set[tuple[str, int]]] = []

    def end_offsets(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self.asked.append(set(wanted))
        return dict.fromkeys(self.asked[-1], 20)


def commit(partition: int, offset: int) -> tuple[Any, Any]:
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=NOW)
    return OffsetCommitKey("g", "t", partition), value


def source(log: Log) -> tuple[ConsoleSource, Ends]:
    metrics, ends = GroupMetrics(), Ends()
    session = WatchSession(
        log, Options(bootstrap=BOOTSTRAP, is_from_beginning=True, metrics=metrics), Told()
    )
    session.run(log.stop)
    return WatchedSource(session, BOOTSTRAP, PartitionEnds(ends), metrics), ends


def test_groups_and_one_of_them() -> None:
    async def scenario() -> None:
        log = Log(*START, generation(2, A, B), commit(0, 5), commit(3, 25))
        log.script = [None]
        watched, ends = source(log)
        listed = await watched.groups()
        (row,) = listed.groups
        assert (row.group_id, row.group_type, row.state) == ("g", "classic", "Stable")
        assert (row.members, row.rebalances, row.lately, row.lag) == (2, 2, 2, 15)
        assert listed.notes == (INFERRED_STATE, INFERRED)
        found = await watched.group("g")
        assert found is not None
        assert [each.owned for each in found.members] == [("t-0", "t-1"), ("t-2", "t-3")]
        assert (found.members[0].target, found.members[0].host) == (None, "10.0.0.4")
        assert (found.epoch, found.target_epoch, len(found.stories)) == (2, None, 2)
        assert list(found.units) == ["t-0", "t-1", "t-2", "t-3"]
        assert found.offsets == [
            Offset(unit="t-0", committed=5, end=20),
            Offset(unit="t-3", committed=25, end=20),
        ]
        assert [each.lag for each in found.offsets] == [15, 0]
        assert ends.asked == [{("t", 0), ("t", 3)}]
        assert await watched.group("none") is None
        cluster = await watched.cluster()
        assert "5 records, 2 offsets, groups: 1 classic" in cluster.notes[0]
        text = await watched.metrics()
        assert text is not None
        assert 'kafka_consumergroup_members{consumergroup="g",coordinator="0"} 2.0' in text
        assert 'trigger="joined"' in text
        labels = 'consumergroup="g",partition="0",topic="t"'
        assert f"kafka_consumergroup_lag{{{labels}}} 15.0" in text
        assert f"kafka_consumergroup_current_offset{{{labels}}} 5.0" in text
        assert "kafka_consumergroup_lag_left_out 0.0" in text
        assert "kafka_consumergroup_offsets_left_out 0.0" in text
        if has_promtool():
            check_metrics(text)
        with pytest.raises(SourceError):
            await watched.remove("g", Member(member_id="x"), "")

    asyncio.run(scenario())


def test_a_group_with_targets() -> None:
    async def scenario() -> None:
        log = Log(joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0))
        watched, _ = source(log)
        found = await watched.group("g")
        assert found is not None
        (member,) = found.members
        assert (member.owned, member.target, member.epoch) == (("t-0",), ("t-0", "t-1"), 2)
        assert (found.epoch, found.target_epoch) == (2, 2)
        assert found.notes == (await watched.groups()).notes == (INFERRED,)
        assert list(found.units) == ["t-0", "t-1", "t-2", "t-3"]

    asyncio.run(scenario())


def test_ends_are_asked_for_only_when_they_are_old() -> None:
    now_s, source = [0.0], Ends()
    ends = PartitionEnds(source, lambda: now_s[0])
    wanted = {("t", 0)}
    for now_s[0] in (0.0, FRESH_S - 1, FRESH_S, FRESH_S + 1):
        ends.refresh(lambda: wanted)
    assert len(source.asked) == 2
    assert (ends.of("t", 0), ends.of("t", 1)) == (20, None)
