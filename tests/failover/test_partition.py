"""A partition around a tiny machine: turns, batches, reload, failures, crashes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.effects import Effects
from failover.partition import HandlerFailed, Kind, Partition, PartitionFailed, PartitionState
from protocol.groups.effects import Client, Elected, Reply, Request, Result
from protocol.records import BadRecord, Record, UnknownRecordType
from storage.batch import Batch
from storage.log import AppendBatch, ApplyState, CorruptLogError, MemoryLog
from storage.messages import ReplicaKey
from storage.replica import Setting
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


@dataclass
class Shelf:
    """A machine with the form of a shard: named values by group."""

    values: dict[Key, str] = field(default_factory=dict)
    result: Result = field(default_factory=Result)
    elections: int = 0
    epilogue: Put | None = None

    @property
    def has_emitted(self) -> bool:
        return bool(self.result.records)

    def handle(self, event: Any, now: int) -> Result:
        self.result = Result()
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
            group = getattr(asked, "group", None)
            size: Any = len([key for key in self.values if key.group == group])
            self.result.replies.append(Reply(event.ticket, size, group))
        return self.result

    def next_deadline(self) -> int | None:
        return None

    def forgive(self, stall_ms: int) -> None:
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


def encode(record: Record) -> tuple[bytes, bytes | None]:
    key: Any = record.key
    value: Any = record.value
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


KIND = Kind(encode, decode, lambda key: key.group)


def request(ticket: int, message: Any) -> Request:
    client = Client("client", "/127.0.0.1")
    return Request(ticket=ticket, api_key=0, api_version=0, client=client, message=message)


class Bench:
    """One partition, its log, and what came out of it."""

    def __init__(self, log: MemoryLog, machine: Shelf | None = None, *, load: bool = True) -> None:
        self.log = log
        self.shelf = machine or Shelf()
        me = ReplicaKey(0, "directory")
        setting = Setting(
            me=me, partition=0, voters=(me,), timing=Timing(), rng=random.Random(1), log=log
        )
        self.partition = Partition(setting, lambda: self.shelf, KIND, NOW)
        self.answered: list[int] = []
        if load:
            while self.partition.state is PartitionState.LOADING:
                self.partition.load_slice(3)
            self.pump()

    def ask(self, ticket: int, message: Any, waits: Sequence[str] | None = ()) -> None:
        self.partition.handle(request(ticket, message), NOW, waits)

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


def test_a_handler_that_fails_half_way_fails_its_partition() -> None:
    bench = Bench(MemoryLog())
    with pytest.raises(PartitionFailed, match="partition 0 failed on Request"):
        bench.ask(1, Put("g", "x", "1", then_fail=True))
    with pytest.raises(PartitionFailed):
        bench.drain()
    with pytest.raises(PartitionFailed):
        bench.ask(2, Put("g", "y", "1"))


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
