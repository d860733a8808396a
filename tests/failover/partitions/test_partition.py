"""A partition around a tiny machine: turns, batches, reload, failures, crashes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.effects import Effects
from failover.partitions.containment import (
    BATCH_BYTES,
    GROUP_BYTES_MAX,
    HandlerFailed,
    PartitionFailed,
)
from failover.partitions.machine import MachineAdapter
from failover.partitions.partition import Partition, PartitionState
from protocol.groups.effects import (
    ClientInfo,
    Elected,
    GroupFailed,
    Reply,
    Request,
    Resigned,
    Result,
    TimersDue,
)
from protocol.records import BadRecord, Record, UnknownRecordType
from protocol.wire.errors import ErrorCode
from storage.batch import Batch
from storage.log import AppendBatch, ApplyState, CorruptLogError, MemoryLog
from storage.messages import ReplicaKey
from storage.replica import ReplicaOptions
from storage.timing import Timing

NOW = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Key:
    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Set ``group/name`` to ``value`` (None removes it) and answer with the group's old size."""

    group: str
    name: str
    value: str | None
    then_fail: bool = False
    ends_batch: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    pass


@dataclass(frozen=True, slots=True)
class Park:
    """Wait for something that does not come."""

    group_id: str


@dataclass
class Shelf:
    """A machine with the form of a shard: named values by group."""

    values: dict[Key, str] = field(default_factory=dict)
    result: Result = field(default_factory=Result)
    elections: int = 0
    epilogue: Put | None = None

    failures: list[GroupFailed] = field(default_factory=list)
    restores: list[str] = field(default_factory=list)
    fails_to_resign: bool = False

    def groups_of(self, event: Any) -> Sequence[str] | None:
        if not isinstance(event, Request):
            return None
        group = getattr(event.message, "group", None)
        return () if group is None else (group,)

    def take_failures(self) -> list[GroupFailed]:
        taken, self.failures = self.failures, []
        return taken

    def forget(self, group_id: str) -> None:
        for key in [key for key in self.values if key.group == group_id]:
            del self.values[key]
        self.result = Result()

    def restored(self, group_id: str, now: int) -> Result:
        self.restores.append(group_id)
        return self.result

    def handle(self, event: Any, now: int) -> Result:
        self.result = Result()
        if isinstance(event, Resigned) and self.fails_to_resign:
            raise RuntimeError("a bug")
        if isinstance(event, TimersDue):
            raise RuntimeError("a bug about many groups")
        if isinstance(event, Elected):
            self.elections += 1
            if self.epilogue:
                self.put(self.epilogue)
        elif isinstance(event, Request):
            asked: Any = event.message
            if isinstance(asked, Fail):
                raise RuntimeError("a bug")
            if isinstance(asked, Put):
                self.put(asked)
                if asked.then_fail:
                    raise RuntimeError("a bug, half-way")
            if isinstance(asked, Park):
                return self.result
            group = getattr(asked, "group", None)
            size: Any = len([key for key in self.values if key.group == group])
            self.result.replies.append(Reply(event.ticket, size, group))
        return self.result

    def next_deadline(self) -> int | None:
        return None

    def shift_deadlines(self, stall_ms: int) -> None:
        pass

    def put(self, put: Put) -> None:
        key: Any = Key(put.group, put.name)
        value: Any = put.value
        record = Record(key, value)
        self.replay(record)
        self.result.records.append(record)
        self.result.ends_batch = put.ends_batch

    def replay(self, record: Record) -> None:
        key: Any = record.key
        value: Any = record.value
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


UNWRITABLE = "unwritable"


def encode(record: Record) -> tuple[bytes, bytes | None]:
    key: Any = record.key
    value: Any = record.value
    if value == UNWRITABLE:
        raise ValueError("too long for its format")
    return f"{key.group}/{key.name}".encode(), None if value is None else value.encode()


def decode(key: bytes, value: bytes | None) -> Record:
    if key.startswith(b"?"):
        raise UnknownRecordType
    if key.startswith(b"!"):
        raise BadRecord("unreadable")
    group, name = key.decode().split("/")
    typed: Any = Key(group, name)
    text: Any = None if value is None else value.decode()
    return Record(typed, text)


KIND = MachineAdapter(encode, decode, lambda key: key.group, lambda group: (f"{group}/".encode(),))


HEARTBEAT, JOIN = 12, 11
"""A request that never waits for other members, and one that may."""


def request(ticket: int, message: Any, api_key: int = HEARTBEAT) -> Request:
    client = ClientInfo("client", "/127.0.0.1")
    return Request(ticket=ticket, api_key=api_key, api_version=4, client=client, message=message)


class Bench:
    """One partition, its log, and what came out of it."""

    def __init__(self, log: MemoryLog, machine: Shelf | None = None, *, load: bool = True) -> None:
        self.log = log
        self.shelf = machine or Shelf()
        me = ReplicaKey(0, "directory")
        setting = ReplicaOptions(
            me=me, partition=0, voters=(me,), timing=Timing(), rng=random.Random(1), log=log
        )
        self.partition = Partition(setting, lambda: self.shelf, KIND, NOW)
        self.answered: list[int] = []
        if load:
            while self.partition.state is PartitionState.LOADING:
                self.partition.load_slice(3)
            self.pump()

    def ask(
        self,
        ticket: int,
        message: Any,
        waits: Sequence[str] | None = (),
        api_key: int = HEARTBEAT,
    ) -> None:
        self.partition.handle(request(ticket, message, api_key), NOW, waits)

    def drain(self) -> Effects:
        effects = Effects()
        self.partition.drain(NOW, effects)
        self.answered += [reply.ticket for reply in effects.replies]
        return effects

    def pump(self) -> None:
        while effects := self.drain():
            self.log.write(effects.writes, sync=True)
            self.partition.replica.persisted(NOW)


def appended(effects: Effects) -> list[Batch]:
    return [write.batch for write in effects.writes if isinstance(write, AppendBatch)]


def test_a_turn_appends_one_batch_with_the_last_value_per_key_in_order_of_the_last_write() -> None:
    bench = Bench(MemoryLog())
    for ticket, (name, value) in enumerate([("x", "1"), ("y", "1"), ("x", "2"), ("z", None)]):
        bench.ask(ticket, Put("g", name, value))
    [batch] = appended(bench.drain())
    assert batch.records == ((b"g/y", b"1"), (b"g/x", b"2"), (b"g/z", None))


def test_what_an_event_ends_a_batch_with_is_written_whatever_comes_later_in_the_turn() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("g", "a", "1"))
    bench.ask(2, Put("g", "b", "1", ends_batch=True))
    bench.ask(3, Put("g", "a", "2"))
    effects = bench.drain()
    written = [[value for _, value in batch.records] for batch in appended(effects)]
    assert written == [[b"1", b"1"], [b"2"]]
    bench.log.write(effects.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    bench.pump()
    assert bench.answered == [1, 2, 3]


def test_replies_wait_for_the_batch_of_their_group_and_others_pass() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("a", "x", "1"))
    bench.ask(2, "a question about no group")
    effects = bench.drain()
    assert bench.answered == [2]
    bench.log.write(effects.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    bench.drain()
    assert bench.answered == [2, 1]


def test_an_answer_about_several_groups_waits_for_all_of_them() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("a", "x", "1"))
    bench.ask(2, "what is there of a and b", ["a", "b"])
    bench.ask(3, "what is there of b", ["b"])
    bench.ask(4, "what is there", None)
    bench.drain()
    assert bench.answered == [3]
    bench.pump()
    assert bench.answered == [3]  # the first write was drained and not yet persisted
    bench.partition.replica.persisted(NOW)
    bench.pump()
    assert sorted(bench.answered) == [1, 2, 3, 4]


def test_an_idle_turn_does_nothing() -> None:
    bench = Bench(MemoryLog())
    assert not bench.drain()


def test_a_restart_replays_the_state_and_the_tail_and_then_elects() -> None:
    first = Bench(MemoryLog())
    for n in range(10):
        first.ask(n, Put("g", f"k{n % 4}", str(n)))
        first.pump()
        if n == 5:
            first.log.write(first.partition.compact(), sync=False)
    second = Bench(first.log)
    assert second.shelf.values == first.shelf.values
    assert second.shelf.elections == 1
    assert second.partition.state is PartitionState.LEADER
    assert second.partition.replica.epoch == 2


def test_the_log_is_loaded_in_slices() -> None:
    first = Bench(MemoryLog())
    for n in range(10):
        first.ask(n, Put("g", f"k{n}", "v"))
    first.pump()
    first.log.write(first.partition.compact(), sync=True)
    second = Bench(first.log, load=False)
    assert second.partition.load_slice(4) == 4
    assert len(second.shelf.values) == 4
    assert second.partition.load_slice(4) == 4
    assert second.partition.state is PartitionState.LOADING
    assert second.partition.load_slice(4) == 2
    assert second.partition.state is PartitionState.FOLLOWER


def test_nothing_is_answered_after_an_election_before_its_first_record_is_committed() -> None:
    bench = Bench(MemoryLog(), load=False)
    bench.partition.load_slice(1)
    vote = bench.drain()
    bench.log.write(vote.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    change = bench.drain()
    assert bench.partition.state is PartitionState.LEADER
    bench.ask(1, Put("g", "x", None))
    bench.drain()
    bench.log.write(change.writes, sync=True)
    assert bench.answered == []


def test_what_an_election_emits_is_appended_after_the_leader_change() -> None:
    log = MemoryLog()
    Bench(log, Shelf(epilogue=Put("g", "elected", "yes")))
    change, emitted = log.batches(0, 0)
    assert change.control
    assert emitted.records == ((b"g/elected", b"yes"),)


def test_events_that_an_election_asks_for_come_right_after_it() -> None:
    bench = Bench(MemoryLog(), load=False)
    bench.partition.upon_election = lambda: (request(1, Put("g", "x", "1")),)
    bench.partition.load_slice(1)
    bench.pump()
    assert bench.shelf.elections == 1
    assert bench.shelf.values == {Key("g", "x"): "1"}
    assert bench.answered == [1]


def test_a_handler_that_fails_before_it_changed_anything_fails_alone() -> None:
    bench = Bench(MemoryLog())
    with pytest.raises(HandlerFailed, match="RuntimeError: a bug"):
        bench.ask(1, Fail())
    bench.ask(2, Put("g", "x", "1"))
    bench.pump()
    assert bench.answered == [2]


def refusals(effects: Effects) -> dict[int, ErrorCode]:
    return {reply.ticket: reply.message.error_code for reply in effects.replies}  # type: ignore[attr-defined]


@pytest.mark.parametrize("written", ["in this turn", "in the log", "in the state"])
def test_a_handler_that_fails_half_way_fails_alone_and_its_group_is_what_the_log_says(
    written: str,
) -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("g", "x", "1"))
    bench.ask(2, Put("g", "y", "1"))
    bench.ask(3, Put("other", "x", "1"))
    if written != "in this turn":
        bench.pump()
    if written == "in the state":
        bench.log.write(bench.partition.compact(), sync=True)
    bench.ask(4, Put("g", "y", None))
    with pytest.raises(HandlerFailed, match="RuntimeError: a bug, half-way"):
        bench.ask(5, Put("g", "x", "2", then_fail=True))
    bench.ask(6, Put("g", "z", "1"))
    expected = {Key("g", "x"): "1", Key("g", "z"): "1", Key("other", "x"): "1"}
    assert bench.shelf.values == expected
    bench.pump()
    assert sorted(bench.answered) == [1, 2, 3, 4, 6]
    assert Bench(bench.log).shelf.values == expected


def test_what_is_handed_out_and_not_written_yet_counts_when_a_group_is_built_again() -> None:
    bench = Bench(MemoryLog())
    for number in range(2_500):  # so that the state is due to be written
        bench.ask(number, Put("g", f"k{number}", "1"))
    bench.log.write(bench.drain().writes, sync=True)
    bench.partition.replica.persisted(NOW)
    effects = bench.drain()
    assert any(isinstance(write, ApplyState) for write in effects.writes)
    with pytest.raises(HandlerFailed):
        bench.ask(9_999, Put("g", "k0", "2", then_fail=True))
    assert bench.shelf.values == {Key("g", f"k{number}"): "1" for number in range(2_500)}


def test_who_waits_in_a_group_that_is_built_again_is_sent_off_and_nobody_else() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Park("g"))
    bench.ask(2, Park("other"))
    bench.ask(3, Put("g", "x", "1"))
    with pytest.raises(HandlerFailed):
        bench.ask(4, Put("g", "x", "2", then_fail=True))
    effects = bench.drain()
    assert refusals(effects) == {1: ErrorCode.not_coordinator}
    bench.log.write(effects.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    bench.pump()
    assert sorted(bench.answered) == [1, 3]


def test_a_client_that_makes_handlers_fail_again_and_again_hinders_nobody() -> None:
    bench = Bench(MemoryLog())
    for ticket in range(0, 300, 3):
        bench.ask(ticket, Put("other", "x", str(ticket)))
        with pytest.raises(HandlerFailed):
            bench.ask(ticket + 1, Put("g", "x", "2", then_fail=True))
        bench.ask(ticket + 2, Put("g", "y", str(ticket)))
        bench.pump()
    assert len(bench.answered) == 200
    assert bench.shelf.values == {Key("other", "x"): "297", Key("g", "y"): "297"}


def test_a_group_that_fails_by_itself_is_built_again_and_told_of_in_one_line() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("g", "x", "1"))
    bench.shelf.values[Key("g", "x")] = "spoilt"
    bench.shelf.failures.append(GroupFailed("g", "timer session", "RuntimeError: a bug"))
    effects = bench.drain()
    assert effects.notes == [
        "timer session for group g failed: RuntimeError: a bug; the group was built again from the"
        " log of partition 0"
    ]
    assert bench.shelf.values == {Key("g", "x"): "1"}


def test_an_event_about_no_group_in_particular_that_fails_fails_its_partition() -> None:
    bench = Bench(MemoryLog())
    with pytest.raises(PartitionFailed, match="partition 0 failed on TimersDue"):
        bench.partition.handle(TimersDue(), NOW)
    with pytest.raises(PartitionFailed):
        bench.drain()
    with pytest.raises(PartitionFailed):
        bench.ask(2, Put("g", "y", "1"))


def test_a_record_that_can_not_be_written_fails_its_group_and_no_other() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("g", "x", "1"))
    bench.pump()
    bench.ask(2, Put("g", "y", "1"))
    bench.ask(3, Put("g", "x", UNWRITABLE))
    bench.ask(4, Put("other", "x", "1"))
    bench.ask(5, "what is there of both", ["g", "other"])
    effects = bench.drain()
    failed = ErrorCode.unknown_server_error
    again = ErrorCode.coordinator_not_available
    assert refusals(effects) == {2: failed, 3: failed, 5: again}
    assert len(effects.notes) == 3
    bench.log.write(effects.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    bench.pump()
    assert bench.answered[-1] == 4
    assert bench.shelf.values == {Key("g", "x"): "1", Key("other", "x"): "1"}
    assert Bench(bench.log).shelf.values == bench.shelf.values


def test_a_group_that_writes_too_much_in_a_turn_fails_and_the_others_are_cut_into_batches() -> None:
    bench = Bench(MemoryLog())
    large = "x" * (BATCH_BYTES * 2 // 3)
    for ticket, group in enumerate("abcab"):
        bench.ask(ticket, Put(group, "x", large))
    for ticket in range(10, 17):
        bench.ask(ticket, Put("huge", str(ticket), large), api_key=JOIN)
    effects = bench.drain()
    assert refusals(effects) == dict.fromkeys(range(10, 17), ErrorCode.unknown_server_error)
    assert [len(batch.records) for batch in appended(effects)] == [1, 1, 1]
    assert 7 * len(large) > GROUP_BYTES_MAX
    bench.log.write(effects.writes, sync=True)
    bench.partition.replica.persisted(NOW)
    bench.pump()
    assert sorted(bench.answered) == [*range(5), *range(10, 17)]
    assert {key.group for key in bench.shelf.values} == {"a", "b", "c"}


def test_requests_that_are_too_large_together_and_wait_for_nobody_are_written_one_by_one() -> None:
    bench = Bench(MemoryLog())
    large = "x" * (BATCH_BYTES * 2 // 3)
    for ticket in range(7):
        bench.ask(ticket, Put("huge", str(ticket), large))
    bench.pump()
    assert sorted(bench.answered) == [*range(7)]
    assert len(bench.shelf.values) == 7


def test_removals_are_written_however_many_they_are() -> None:
    bench = Bench(MemoryLog())
    name = "x" * 100_000
    for number in range(100):
        bench.ask(number, Put("g", f"{number}{name}", None))
    batches = appended(bench.drain())
    assert sum(len(batch.records) for batch in batches) == 100
    assert len(batches) == 3


def test_a_machine_that_can_not_resign_is_read_again() -> None:
    bench = Bench(MemoryLog())
    bench.ask(1, Put("g", "x", "1"))
    bench.pump()
    bench.shelf.fails_to_resign = True
    effects = Effects()
    bench.partition._demote(NOW, effects)
    assert bench.partition.state is PartitionState.LOADING


def test_an_unknown_record_type_is_skipped_and_counted_and_a_bad_record_refused() -> None:
    log = MemoryLog()
    log.write([ApplyState(0, 2, 1, [(b"?new", b""), (b"g/x", b"1")])], sync=True)
    bench = Bench(log)
    assert bench.shelf.values == {Key("g", "x"): "1"}
    assert bench.partition.skipped == 1
    log.write([ApplyState(0, 3, 1, [(b"!bad", b"")])], sync=True)
    with pytest.raises(CorruptLogError, match="partition 0: unreadable"):
        Bench(log)


def test_the_state_on_disk_follows_in_steps_and_the_log_is_dropped_behind_it() -> None:
    bench = Bench(MemoryLog())
    for n in range(4_000):
        bench.ask(n, Put("g", f"k{n % 10}", str(n)))
        bench.pump()
    stored = bench.log.stored(0)
    assert stored.applied_offset >= 2_000
    assert stored.start_offset > 0
    assert len(list(bench.log.batches(0, 0))) < 3_500
    again = Bench(bench.log)
    assert again.shelf.values == bench.shelf.values


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("put"),
                st.sampled_from("abc"),
                st.sampled_from("xyz"),
                st.one_of(st.none(), st.integers(0, 99).map(str)),
            ),
            st.sampled_from(["drain", "write", "pump", "compact", "crash"]).map(lambda s: (s,)),
        ),
        max_size=60,
    ),
    st.data(),
)
def test_what_was_answered_survives_any_crash(
    steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """After a crash the machine equals the model after some prefix that holds every answer."""
    bench, model = Bench(MemoryLog()), [dict[Key, str]()]
    asked: dict[int, int] = {}  # ticket: how many puts were applied when it was asked
    pending: Effects | None = None
    for ticket, (step, *what) in enumerate(steps):
        if step == "put":
            group, name, value = what
            bench.ask(ticket, Put(group, name, value))
            model.append(dict(bench.shelf.values))
            asked[ticket] = len(model) - 1
        elif step == "drain" and pending is None:
            pending = bench.drain()
        elif step == "write" and pending is not None:
            bench.log.write(pending.writes, sync=True)
            bench.partition.replica.persisted(NOW)
            pending = None
        elif step == "pump" and pending is None:
            bench.pump()
        elif step == "compact" and pending is None:
            bench.log.write(bench.partition.compact(), sync=False)
        elif step == "crash":
            if pending is not None:
                bench.log.write(pending.writes, sync=False)
            promised = max((asked[t] for t in bench.answered if t in asked), default=0)
            bench = Bench(bench.log.crash(data.draw(st.integers(0, bench.log.unsynced))))
            assert bench.shelf.values in model[promised:]
            model, asked, pending = [dict(bench.shelf.values)], {}, None
