"""A storm of bytes in small: the same frames and connections as ``rollcall bench hostile``."""

import os
import random
import struct
import time
from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from bench.cases import hostile, well_behaved
from bench.cases.well_behaved import WellBehavedResult, well_behaved_clients
from bench.client.blocking_client import BlockingClient
from bench.load import hostile_connections, hostile_conversations, hostile_frames, hostile_pools
from bench.load.hostile_connections import BURST, HostileLoad, HostileTargets
from bench.load.hostile_conversations import AS_PLANNED, WAYS, Conversations, plan
from bench.load.hostile_counts import BY_SCHEMA, CHANGED_BYTES, REPEATED, HostileCounts
from bench.load.hostile_frames import Writer
from bench.load.hostile_members import HEARTBEATS, HOSTILE_KINDS, classic_member, requests_of
from bench.load.hostile_pools import (
    BURST_SIZE,
    BURSTS,
    MUTATIONS,
    REPEATED_HEARTBEATS,
    Mutator,
    Pool,
    send_pools,
)
from bench.load.offsets import groups_on
from bench.servers import machine, processes
from protocol.client.frames import frame_of
from protocol.members.requests import JOIN_GROUP, LEAVE_GROUP
from protocol.wire.apis import API
from protocol.wire.frames import BadFrame, UnsupportedApiVersion, decode_request
from tests.actors.coordinator.coordinators import running

FRAMES = 10_000
FRAMES_MIN = FRAMES // 20
FLOOD_FRAMES = 5_000
SECONDS_MAX = 30
"""A machine that is busy with other things sends fewer frames; nothing else depends on it."""


def test_a_pool_comes_again_from_its_seed_and_holds_what_it_should() -> None:
    pool, again = Pool(1, 1_000), Pool(1, 1_000)
    assert pool.valid == again.valid
    assert Pool(2, 100).valid != pool.valid[:100]
    keys = {decode_request(frame[4:]).api_key for frame in pool.valid}
    assert keys == set(API)
    bad = 0
    rough = [pool.rough() for _ in range(200)]
    assert rough == [again.rough() for _ in range(200)]
    assert len(set(rough)) > 150
    for frame in rough:
        try:
            decode_request(frame[4:])
        except (BadFrame, UnsupportedApiVersion):
            bad += 1
    assert bad > len(rough) // 3
    assert sorted(b"".join(pool.bursts(30))) == sorted(b"".join(pool.valid)), "each is in one"


def test_pools_are_made_one_after_the_other_until_nobody_takes_them() -> None:
    made: list[Pool] = []

    def send(pool: Pool) -> None:
        made.append(pool)
        if len(made) == 3:
            raise BrokenPipeError

    floods = [_flood()]
    send_pools(7, 50, floods, SimpleNamespace(send=send))  # type: ignore[arg-type]
    again = [Pool(seed, 50, floods) for seed in (7, 8, 9)]
    assert [pool.valid for pool in made] == [pool.valid for pool in again]
    assert [pool.floods for pool in made] == [pool.floods for pool in again]


def test_floods_are_distinct_mutations_of_valid_requests() -> None:
    valid = _flood()
    decoded = [decode_request(frame[4:]) for frame in valid]
    mutator = Mutator(Writer(1), valid)
    rows = [mutator.mutated() for _ in range(2_000)]
    assert {kind for kind, _ in rows} == {f"{BY_SCHEMA}_{way}" for way in MUTATIONS}
    contents = {frame[:8] + frame[12:] for _, frame in rows}
    assert len(contents) == len(rows), "they differ in more than their correlation ids"
    assert not contents & {frame[:8] + frame[12:] for frame in valid}
    found = [decode_request(frame[4:]) for _, frame in rows]
    assert {each.api_key for each in found} == {each.api_key for each in decoded}
    messages = {each.message for each in decoded}
    for (kind, _), each in zip(rows, found, strict=True):
        assert kind == f"{BY_SCHEMA}_tags" or each.message not in messages


def test_a_flood_leaves_its_group_its_members() -> None:
    mutator = Mutator(Writer(2), _flood())
    present = {"", *(f"member-{number}" for number in range(20))}
    for _ in range(3_000):
        _, frame = mutator.mutated()
        request = decode_request(frame[4:])
        if request.api_key == JOIN_GROUP:
            assert request.message.member_id not in present
        elif request.api_key == LEAVE_GROUP:
            assert not present & {each.member_id for each in request.message.members}
        elif request.api_key in HEARTBEATS and request.message.group_id == "flooding":
            assert request.message.member_epoch > 0


def test_a_burst_consists_of_the_kinds_that_it_counts() -> None:
    valid = _flood()
    pool = Pool(1, 10, [valid, valid])
    assert [len(bursts) for bursts in pool.floods] == [BURSTS, BURSTS]
    for burst in pool.floods[0]:
        assert burst.size == burst.kinds.total() == BURST_SIZE
        assert (burst.kinds[REPEATED], burst.kinds[CHANGED_BYTES]) == (REPEATED_HEARTBEATS, 1)
        frames, rest = [], burst.frames
        while rest:
            size = 4 + int.from_bytes(rest[:4], "big")
            frames.append(rest[:size])
            rest = rest[size:]
        assert len(frames) == BURST_SIZE
        assert sum(frame in valid for frame in frames[:-1]) == REPEATED_HEARTBEATS


def test_shares_are_of_all_frames_by_kind() -> None:
    count = HostileCounts()
    assert sum(count.shares().values()) == 0
    count.sent.update(
        {
            "mutated_by_schema_ids": 30, "mutated_by_schema_null": 30, "mutated_bytes": 10,
            "repeated_heartbeats": 10, "drawn_from_schemas": 10, "rough_bytes": 5,
            "conversation_frames_as_planned": 5, "conversations": 1_000,
        }
    )  # fmt: skip
    assert count.shares() == {
        "mutated_by_schema": 0.6, "mutated_bytes": 0.1, "drawn_from_schemas": 0.1,
        "rough_bytes": 0.05, "repeated_heartbeats": 0.1, "conversation_frames": 0.05,
    }  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE_KINDS)
def test_conversations_go_wrong_in_every_way(kind: str) -> None:
    draw = random.Random(1)
    steps = HOSTILE_KINDS[kind].steps
    plans = [plan(draw, steps) for _ in range(300)]
    ways = [{step.way for step in each} for each in plans]
    assert set().union(*ways) == {AS_PLANNED, *WAYS}
    as_planned = [each for each, found in zip(plans, ways, strict=True) if found == {AS_PLANNED}]
    assert len(as_planned) > 25
    assert all(tuple(step.make for step in each) == steps for each in as_planned)
    orders = {tuple(map(steps.index, (step.make for step in each))) for each in plans}
    assert len(orders) > 20


@pytest.mark.parametrize("way", [AS_PLANNED, *WAYS])
def test_a_changed_step_differs_from_the_planned_one_only_where_it_says(way: str) -> None:
    here = ("127.0.0.1", 1)
    channel = SimpleNamespace(send=lambda _: None, close=lambda: None)
    conversations = Conversations(
        lambda *_: channel, HostileCounts(), {here: ["g"]}, lambda: 0.0, seed=1
    )
    changed = 0
    for kind in HOSTILE_KINDS.values():
        member = kind.make(conversations.writer.random, "g")
        for make in kind.steps:
            planned = hostile_conversations.PlannedStep(make, way)
            ((frame, api_key, version),) = conversations.frames(planned, member)
            try:
                changed += decode_request(frame[4:]).message != make(member)
            except (BadFrame, UnsupportedApiVersion):
                changed += 1
            assert (api_key, version) == struct.unpack_from(">hh", frame, 4)
    is_changed = way in (hostile_conversations.CHANGED_FIELD, hostile_conversations.CHANGED_BYTES)
    assert (changed > 10) if is_changed else not changed


def test_a_storm_of_bytes_harms_no_innocent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_connections, "SILENT", 100)
    with running() as cluster:
        bootstrap = [(each.listener.host, each.listener.port) for each in cluster.spec.places]
        epochs = [_epochs(each.status()) for each in cluster.coordinators]
        group_ids = [next(groups_on(number, 3, "innocent")) for number in range(3)]
        with well_behaved_clients(bootstrap, group_ids) as innocents:
            talks = hostile._talks(bootstrap[0])
            storm = HostileLoad(Pool(1, 2_000), HostileTargets(bootstrap, talks=talks))
            before = processes.resident_bytes([os.getpid()])
            deadline = time.monotonic() + SECONDS_MAX
            try:
                while storm.count.frames < FRAMES and (
                    time.monotonic() < deadline or storm.count.frames <= FRAMES_MIN
                ):
                    storm.turn()
                    assert not innocents.has_failed()
            finally:
                storm.close()
            added_mib = (processes.resident_bytes([os.getpid()]) - before) / hostile.MIB
            result = innocents.stop()
        assert not result.failure
        assert storm.count.frames > FRAMES_MIN
        assert added_mib < hostile.MEMORY_BOUND_MIB, "all three, and the generator"
        for joined in (JOIN_GROUP, *HEARTBEATS):
            assert storm.count.succeeded[joined], "conversations get somewhere"
        assert len(result.taken) and result.others
        assert [_epochs(each.status()) for each in cluster.coordinators] == epochs
        assert all(each.state == "Running" for each in cluster.coordinators)
        for address in bootstrap:
            with BlockingClient(address) as connection:
                connection.api_versions()


def test_a_flood_of_mutations_is_answered_and_leaves_its_groups_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A member's JoinGroup of which a byte was changed may be valid, and rebalance its group.
    monkeypatch.setattr(hostile_pools, "WHOLE", (hostile_frames._wrong_api,))
    with running() as cluster:
        bootstrap = [(each.listener.host, each.listener.port) for each in cluster.spec.places]
        server = SimpleNamespace(address=bootstrap[0])
        requests = hostile._floods(server, random.Random(1))  # type: ignore[arg-type]
        pool = Pool(1, 100, list(requests.values()))
        storm = HostileLoad(pool, HostileTargets((), floods=list(requests)))
        deadline = time.monotonic() + SECONDS_MAX
        try:
            while storm.count.answered < FLOOD_FRAMES and time.monotonic() < deadline:
                storm.turn()
        finally:
            storm.close()
        assert storm.count.answered > FLOOD_FRAMES // 10
        assert storm.count.answered > 0.9 * storm.count.frames, "few close the connection"
        for number in range(3):
            group_id = next(groups_on(number, 3, "flooding"))
            with BlockingClient(bootstrap[0]) as connection:
                address = connection.coordinator(group_id)
            with BlockingClient(address) as connection:
                (group,) = connection.describe((group_id,))
            assert (group.group_state, len(group.members)) == (
                "Stable",
                hostile.FLOODING_MEMBERS,
            )


class Unheard(HostileLoad):
    """A storm with the clock in our hands, on connections that take all and answer nothing."""

    def connect(self, address, broken):  # type: ignore[no-untyped-def]
        return SimpleNamespace(send=lambda _: None, close=lambda: None)


def test_floods_fill_the_pace_that_other_frames_do_not_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        hostile_connections, "RawConnection", lambda *_: SimpleNamespace(tick=lambda: None)
    )
    here = ("127.0.0.1", 1)
    targets = HostileTargets([here], floods=[here])
    storm = Unheard(Pool(1, 1_000, [_flood()]), targets, per_second=5_000)
    begun = storm.now_s
    share = 1 - hostile_connections.FLOOD_SHARE
    for second in (0.1, 0.5, 0.8):
        storm.now_s = begun + second
        storm.mutated.turn()
        storm.flooding.turn()
        assert storm.mutated.sent == pytest.approx(5_000 * second * share, abs=2 * BURST)
        due = 5_000 * second - storm.mutated.sent
        most = hostile_connections.BURST_CONNECTIONS * BURST_SIZE
        assert min(due, most) <= storm.flooding.sent <= min(due, most) + BURST_SIZE
    sent = storm.count.sent
    assert sum(sent.values()) == storm.mutated.sent + storm.flooding.sent
    shares = storm.count.shares()
    mutated = shares[BY_SCHEMA] + shares["drawn_from_schemas"]
    assert mutated + shares[CHANGED_BYTES] + shares["rough_bytes"] > 0.6


@pytest.mark.parametrize(
    ("calm", "neutral", "storm", "is_good"),
    [
        (1.0, 1.0, 2.0, True),
        (1.0, 1.0, 2.1, False),
        (1.0, 3.0, 5.9, True),  # the generator alone does as much: the machine, not the cluster
        (1.0, 3.0, 6.1, False),
        (3.0, 1.0, 5.9, True),
    ],
)
def test_the_innocents_p99_may_double_against_a_machine_with_the_generator_on_it(
    calm: float, neutral: float, storm: float, is_good: bool
) -> None:
    result = WellBehavedResult(due=array("d"), taken=array("d"), others=0, failure="")
    figures = {"calm_p99_ms": calm, "neutral_p99_ms": neutral, "storm_p99_ms": storm}
    broken = hostile._broken(figures, result, hostile.ClusterObservation([1.0], [1.0]))
    assert (not broken) is is_good


def test_each_whole_minute_of_the_storm_has_its_p99() -> None:
    due = array("d", [0.5 * number for number in range(2 * 200)])
    taken = array("d", [0.003 if at < 60 else 0.001 for at in due])
    result = WellBehavedResult(due=due, taken=taken, others=0, failure="")
    assert result.minute_p99s_ms(0.0, 179.0) == pytest.approx([3.0, 1.0])
    assert result.minute_p99s_ms(30.0, 180.0) == pytest.approx([3.0, 1.0])
    assert result.minute_p99s_ms(0.0, 59.0) == []


def test_each_quarter_of_the_storm_has_its_p99() -> None:
    due = array("d", [0.5 * number for number in range(2 * 200)])
    taken = array("d", [0.001 if at < 150 else 0.003 for at in due])
    result = WellBehavedResult(due=due, taken=taken, others=0, failure="")
    no_use = machine.usage([])
    storm = hostile.MeasuredPhase(0.0, 200.0, no_use, no_use)
    p99s = hostile._quarter_p99s(result, storm)
    assert [*p99s] == [f"storm_quarter_{number}_p99_ms" for number in range(1, 5)]
    assert [*p99s.values()] == pytest.approx([1.0, 1.0, 1.0, 3.0])


def test_the_last_minute_is_told_without_what_was_told_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(well_behaved, "note", told.append)
    beats: list[Any] = [SimpleNamespace(latencies_s=array("d", [0.002])) for _ in range(2)]
    counts = [0, 0]
    well_behaved._tell_last_minute(beats, counts)
    well_behaved._tell_last_minute(beats, counts)
    beats[1].latencies_s.append(0.004)
    well_behaved._tell_last_minute(beats, counts)
    assert [line.split(": ")[1] for line in told] == ["2.00 ms", "4.00 ms"]


def test_a_failed_request_an_election_and_too_much_memory_are_broken_each() -> None:
    result = WellBehavedResult(due=array("d"), taken=array("d"), others=0, failure="no answer")
    observed = hostile.ClusterObservation([1.0], [1_000.0], gone=True, elections=2)
    assert len(hostile._broken({}, result, observed)) == 4


def _epochs(status: dict) -> list[int]:  # type: ignore[type-arg]
    return [row["epoch"] for row in status["partitions"]]


def _flood() -> list[bytes]:
    draw = random.Random(1)
    members = [classic_member("flooding", f"member-{n}", 3, "bench") for n in range(20)]
    requests = [each for member in members for each in requests_of(draw, member, "hostile-1")]
    return [bytes(frame_of(each)) for each in requests]
