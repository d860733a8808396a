"""Every timer and every answer follows the configs of its group when they change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from protocol.config import Configs
from protocol.groups.timers import TimerKind
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk

TALKS = {"consumer": ConsumerTalk, "share": ShareTalk, "streams": StreamsTalk}
SESSION = "consumer.session.timeout.ms"
INTERVAL = "consumer.assignment.interval.ms"


def settled(talk: Any) -> None:
    talk.join("A")
    for _ in range(4):
        talk.beat("A")


@pytest.mark.parametrize("group_type", TALKS)
@pytest.mark.parametrize("beats_first", [0, 3])
@pytest.mark.parametrize(
    ("before", "after"), [(60_000, 45_000), (60_000, 60_000), (45_000, 60_000)]
)
def test_a_member_is_silent_for_the_session_timeout_in_force_at_its_last_heartbeat(
    before: int, after: int, beats_first: int, group_type: str
) -> None:
    session = f"{group_type}.session.timeout.ms"
    talk: Any = TALKS[group_type]({f"group.{session}": "45000"})
    talk.shard.group_configs = {GROUP: {session: str(before)}}
    settled(talk)
    talk.shard.group_configs = {GROUP: {session: str(after)}}
    for _ in range(1 + beats_first):
        talk.advance(1_000)
        talk.beat("A")
    last = talk.now
    while talk.group.members:
        talk.advance(100)
    assert talk.now - last == after


def test_a_session_timeout_that_is_much_shorter_counts_from_the_next_heartbeat_on() -> None:
    talk = ConsumerTalk({"group.consumer.min.session.timeout.ms": "6000"})
    talk.shard.group_configs = {GROUP: {SESSION: "60000"}}
    settled(talk)
    talk.advance(1_000)
    talk.shard.group_configs = {GROUP: {SESSION: "6000"}}
    talk.advance(20_000)
    talk.beat("A")
    last = talk.now
    while talk.group.members:
        talk.advance(100)
    assert talk.now - last == 6_000


@pytest.mark.parametrize("group_type", TALKS)
@pytest.mark.parametrize("whose", ["broker", "group"])
def test_a_shorter_assignment_interval_is_in_force_at_once(whose: str, group_type: str) -> None:
    """KIP-1263: 15000 to 0 took effect after 15 seconds."""
    interval = f"{group_type}.assignment.interval.ms"
    talk: Any = TALKS[group_type](is_prompt=True, interval_ms=15_000)
    settled(talk)
    talk.join("B")
    for _ in range(3):
        talk.beat("B")
    assert talk.group.assignment_epoch < talk.group.epoch
    if whose == "group":
        talk.shard.group_configs = {GROUP: {interval: "0"}}
    else:
        talk.shard.configs = talk.shard.configs.with_overrides({f"group.{interval}": "0"})
    talk.advance(1)
    talk.work()
    assert talk.group.assignment_epoch == talk.group.epoch


def test_a_longer_assignment_interval_is_in_force_at_once() -> None:
    talk = ConsumerTalk(in_place=False, is_prompt=True, interval_ms=5_000)
    settled(talk)
    first = talk.group.assignment_timestamp_ms
    talk.join("B")
    talk.shard.group_configs = {GROUP: {INTERVAL: "10000"}}
    while talk.group.assignment_epoch < talk.group.epoch:
        talk.advance(100)
        talk.work()
    assert talk.now - first == 10_000


def test_a_run_is_given_up_by_the_time_limit_in_force() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.shard.configs = talk.shard.configs.with_overrides(
        {"group.coordinator.background.timeout.ms": "1000"}
    )
    deadline_ms = talk.context.timers.deadline(TimerKind.ASSIGNMENT, GROUP, "")
    assert deadline_ms == talk.now + 61_000


def test_expressions_are_resolved_by_the_interval_in_force() -> None:
    talk = ConsumerTalk(is_prompt=True)
    talk.join("A", topics=None, regex="a.*")
    talk.work()
    talk.shard.configs = talk.shard.configs.with_overrides(
        {"group.consumer.regex.refresh.interval.ms": "10000"}
    )
    resolved_ms = talk.group.regexes["a.*"].timestamp_ms
    talk.advance(9_000)
    talk.beat("A")
    talk.advance(1_000)
    talk.work()
    assert talk.group.regexes["a.*"].timestamp_ms == resolved_ms + 10_000


def test_offsets_are_looked_through_by_the_interval_in_force() -> None:
    talk = ConsumerTalk()
    name = "offsets.retention.check.interval.ms"
    talk.shard.configs = talk.shard.configs.with_overrides({name: "1000"})
    deadline_ms = talk.context.timers.deadline(TimerKind.OFFSET_EXPIRY, "", "")
    assert deadline_ms == talk.now + 1_000


def test_a_groups_number_out_of_the_brokers_bounds_is_the_bound() -> None:
    talk = ConsumerTalk()
    talk.shard.group_configs = {
        GROUP: {SESSION: "10000", "consumer.heartbeat.interval.ms": "99000"}
    }
    settled(talk)
    assert talk.beat("A").heartbeat_interval == timedelta(milliseconds=15_000)
    last = talk.now
    while talk.group.members:
        talk.advance(100)
    assert talk.now - last == 45_000


def test_a_switch_may_have_blanks_around_it() -> None:
    talk = ConsumerTalk({"group.consumer.assignor.offload.enable": "false"}, in_place=False)
    talk.shard.group_configs = {GROUP: {"consumer.assignor.offload.enable": " true "}}
    talk.join("A")
    assert talk.tasks
    assert Configs({"group.consumer.assignor.offload.enable": " TRUE "}).boolean(
        "group.consumer.assignor.offload.enable"
    )


def test_static_members_who_are_all_away_are_not_counted_again_at_once() -> None:
    """Their rebalance timeout is 0, so the join phase was over two thousand times in a moment."""
    talk = ClassicTalk()
    talk.enter("A", instance="a", rebalance_ms=0, session_ms=1_800_000)
    talk.advance(3_000)
    talk.sync("A", {"A": b""})
    talk.enter("B", rebalance_ms=0)
    talk.leave("B")
    for _ in range(10):
        due = talk.shard.next_deadline()
        if due is None or due > talk.now:
            break
        talk.advance(0)
    assert due is not None
    assert due > talk.now
