"""What a session tells, from where on, and what ends it; the log is a list here."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from actors.errors import BadInputError, CommandError, ExitCode, FailureError
from actors.watching import backoff, failures, history
from actors.watching import session as sessions
from actors.watching.place import PLACE_MAX, PlaceFile, WatchPlace
from actors.watching.reader import Found, ReadBatch, WatchedRecord
from actors.watching.session import Options, WatchSession
from protocol.groups.topics import Topic
from protocol.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, Record, encode
from protocol.stories import teller
from protocol.stories.sentence import sentence
from protocol.watching import modern
from tests.protocol.watching.records import (
    NOW,
    TOPIC,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from protocol.groups.facts import Fact
    from protocol.stories.storms import RebalanceStorm
    from protocol.stories.story import RebalanceStory

BOOTSTRAP = "kafka:9092"


class SaidError:
    """An error as librdkafka reports it."""

    def __init__(self, name: str, *, is_fatal: bool = False) -> None:
        self._name, self._is_fatal = name, is_fatal

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return f"{self._name} happened\nand more"

    def fatal(self) -> bool:
        return self._is_fatal


class Log:
    """A log of one partition; ``script`` has what comes after it was read, a poll each."""

    def __init__(self, *records: tuple[Any, Any]) -> None:
        self.records = [encode(Record(*each)) for each in records]
        self.times = [NOW] * len(records)
        self.script: list[Callable[[], ReadBatch] | None] = []
        self.errors: list[SaidError] = []
        self.stop = threading.Event()
        self.at = self.polls = 0
        self.id, self.cluster, self.is_there = "one", "c", True
        self.is_answering = True
        self.known = [Topic(TOPIC, "t", 4)]
        self.looks = 0

    def find(self) -> Found:
        return Found(self.cluster, self.id, {0: 0}, {0: len(self.records)})

    def start(self, offsets: Mapping[int, int]) -> None:
        self.at = offsets[0]

    def poll(self, timeout_s: float) -> ReadBatch:
        first, self.at = self.at, len(self.records)
        if first < self.at:
            return self.batch(first)
        self.polls += 1
        if self.polls == 1:
            return ReadBatch((), (0,), ())
        if not self.script:
            self.stop.set()
            return ReadBatch((), (), ())
        action = self.script.pop(0)
        return ReadBatch((), (), ()) if action is None else action()

    def batch(self, first: int) -> ReadBatch:
        found = [
            WatchedRecord(0, offset, key, value, self.times[offset])
            for offset, (key, value) in enumerate(self.records)
        ]
        return ReadBatch(found[first:], (), ())

    def append(self, *records: tuple[Any, Any]) -> ReadBatch:
        """Write records at once, with one time."""
        first = len(self.records)
        self.records += [encode(Record(*each)) for each in records]
        self.times = self.times[:first] + [NOW + first] * len(records)
        self.at = len(self.records)
        return self.batch(first)

    def take_errors(self) -> list[Any]:
        taken, self.errors = self.errors, []
        return taken

    def exists(self) -> bool | None:
        return self.is_there if self.is_answering else None

    def topic_id(self) -> str:
        return self.id if self.is_there else ""

    def topics(self) -> Iterable[Topic]:
        self.looks += 1
        return list(self.known)


class Told:
    """What was told, as text."""

    def __init__(self) -> None:
        self.moved: list[list[str]] = []
        self.sentences: list[str] = []
        self.notes: list[str] = []
        self.storms: list[str] = []
        self.loads = 0

    def loaded(self, session: WatchSession) -> None:
        self.loads += 1

    def told(self, stories: Iterable[RebalanceStory]) -> None:
        for each in stories:
            self.sentences.append(sentence(each).split(":")[1].strip())
            self.moved.append([move.unit for move in each.moves])

    def stormed(self, group_id: str, storm: RebalanceStorm) -> None:
        self.storms.append(group_id)

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


A, B = member("a", 0, 1), member("b", 2, 3)
START = (generation(0), generation(1, A))


def of_h(record: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return a generation of another group."""
    return GroupMetadataKey("h"), record[1]


START_H = tuple(map(of_h, START))


def watched(log: Log, **options: Any) -> tuple[Told, WatchSession]:
    told = Told()
    session = WatchSession(log, Options(bootstrap=BOOTSTRAP, **options), told)
    session.run(log.stop)
    return told, session


def test_from_now_on_only_what_comes_is_told() -> None:
    log = Log(*START)
    log.script = [lambda: log.append(generation(2, A, B)), lambda: log.append(generation(3, B))]
    facts: list[Fact] = []
    told, session = watched(log, observe=facts.append)
    assert told.sentences == ["generation 1 → 2", "generation 2 → 3"]
    assert (told.loads, told.notes, session.partitions) == (1, [], 1)
    assert len(facts) == 4  # joined, its rebalance, gone, its rebalance
    assert len(session.history.stories("g")) == 2


def test_a_log_to_which_clients_commit_all_the_time_is_read() -> None:
    """Its end, as librdkafka tells it, never comes."""
    log = Log(*START)
    log.polls = 1
    log.script = [lambda: log.append(generation(2, A, B)), lambda: log.append(generation(3, B))]
    told, _ = watched(log)
    assert told.loads == 1
    assert told.sentences == ["generation 1 → 2", "generation 2 → 3"]


def test_from_the_beginning_all_is_told() -> None:
    log = Log(*START, generation(2, A, B))
    told, _ = watched(log, is_from_beginning=True)
    assert told.sentences == ["generation 0 → 1", "generation 1 → 2"]


def test_with_a_place_what_came_since_is_told_once(tmp_path: Path) -> None:
    place = PlaceFile(tmp_path / "place")
    log = Log(*START)
    assert watched(log, place=place)[0].sentences == []
    assert place.load() is not None
    log = Log(*START, generation(2, A, B))
    assert watched(log, place=place)[0].sentences == ["generation 1 → 2"]
    assert watched(Log(*START, generation(2, A, B)), place=place)[0].sentences == []


def test_the_end_of_a_rebalance_that_was_under_way_is_told(tmp_path: Path) -> None:
    place = PlaceFile(tmp_path / "place")
    begun = (joined("a"), epoch(2), *targets(2, {"a": (0,)}))
    told, _ = watched(Log(*begun), place=place, is_from_beginning=True)
    assert told.sentences == ["epoch 1 → 2"]
    told, session = watched(Log(*begun, current("a", 2, 0)), place=place)
    assert told.sentences == ["epoch 1 → 2"]
    (story,) = session.history.stories("g")
    assert (story.outcome, story.revision) == ("stable", 1)


def test_a_place_of_another_log_is_refused_or_left_alone(tmp_path: Path) -> None:
    place = PlaceFile(tmp_path / "place")
    watched(Log(*START, generation(2, A, B)), place=place)
    log = Log(*START)
    log.cluster = "other"
    with pytest.raises(FailureError, match="the state is of the cluster c, and this is other"):
        watched(log, place=place)
    for log in (Log(*START), Log(*START, generation(2, A, B))):
        log.id = "two" if len(log.records) == 3 else log.id
        told, _ = watched(log, place=place)
        assert told.notes == ["__consumer_offsets is not the one of before: starting anew"]
        assert told.sentences == []


IDS = '"version": 1, "cluster_id": "c", "topic_id": "t"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ('{"version": 1' + "0" * 5_000 + "}", "it is no JSON"),
        ("null", "it is no JSON object"),
        ("[]", "it is no JSON object"),
        ("{}", "its version is not 1"),
        ('{"version": 2}', "its version is not 1"),
        ('{"version": true}', "its version is not 1"),
        ('{"version":1}', "its cluster_id is no text"),
        ('{"version":1, "cluster_id": "c", "topic_id": 5}', "its topic_id is no text"),
        (f"{{{IDS}}}", "its offsets are no object"),
        (f'{{{IDS}, "offsets": [1]}}', "its offsets are no object"),
        *(
            (f'{{{IDS}, "offsets": {{"0": {bad}}}}}', "the offset of partition 0 is no number from")
            for bad in ("Infinity", "-Infinity", "NaN", "1e3", "-5", '"7"', "true", "null", 1 << 63)
        ),
        *(
            (f'{{{IDS}, "offsets": {{"{bad}": 3}}}}', "is the number of no partition")
            for bad in ("x1", "-1", "1.5", "", " 1", "01", "1_0", "\\u0661", 1 << 31, "9" * 5_000)
        ),
        ("x" * (PLACE_MAX + 1), "it is longer than"),
    ],
    ids=lambda value: value[:30],
)
def test_a_file_that_is_no_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "place"
    path.write_text(text)
    with pytest.raises(BadInputError) as raised:
        PlaceFile(path).load()
    assert raised.value.exit_code is ExitCode.BAD_INPUT
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path} is no state of `rollcall watch`: ")
    assert said in line
    assert line.endswith("; give another file with --state, or remove it")
    assert len(line) < len(str(path)) + 400


def test_a_place_that_was_saved_is_read_again(tmp_path: Path) -> None:
    place = WatchPlace(cluster_id="c", topic_id="", offsets={0: 0, 49: (1 << 63) - 1})
    PlaceFile(tmp_path / "place").save(place)
    assert PlaceFile(tmp_path / "place").load() == place


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "bytes"):
        (tmp_path / "bytes").write_bytes(b"\xff")
        with pytest.raises(BadInputError, match="cannot be read"):
            PlaceFile(path).load()


def test_what_the_log_lost_is_read_anew_and_not_told_again() -> None:
    log = Log(*START)

    def truncate() -> ReadBatch:
        del log.records[-1]
        log.polls = 0
        return ReadBatch((), (), (0,))

    log.script = [
        lambda: log.append(generation(2, A, B)),
        truncate,
        lambda: log.append(generation(2, A, B), generation(3, A)),
    ]
    told, session = watched(log)
    assert told.notes == [
        "partition 0 of __consumer_offsets was cut off before offset 3: reading everything again"
    ]
    assert told.sentences == ["generation 1 → 2", "generation 1 → 2", "generation 2 → 3"]
    assert (told.loads, session.watch.records) == (2, 4)


def cuts(log: Log, errors: list[CommandError]) -> Callable[[], ReadBatch]:
    """Return what loses the last record; then looking for the topic fails with these errors."""
    find = log.find

    def fail() -> Found:
        if errors:
            raise errors.pop(0)
        return find()

    def truncate() -> ReadBatch:
        log.find = fail  # type: ignore[method-assign]
        del log.records[-1]
        log.polls = 0
        return ReadBatch((), (), (0,))

    return truncate


AWAY = (
    lambda: failures.unreachable(BOOTSTRAP, 15.0),
    "no broker answers: trying again until one does",
    "a broker answers again",
)
WITHOUT_LEADER = (
    lambda: failures.unreadable(0, [SaidError("LEADER_NOT_AVAILABLE")], BOOTSTRAP),
    "partition 0 of __consumer_offsets cannot be read now: LEADER_NOT_AVAILABLE happened:"
    " trying again until it can be read",
)


@pytest.mark.parametrize(
    ("failing", "notes"), [(AWAY[0], AWAY[1:]), (WITHOUT_LEADER[0], WITHOUT_LEADER[1:])]
)
def test_what_the_log_lost_is_read_anew_once_brokers_answer(
    failing: Callable[[], CommandError], notes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST_S", 0.0)
    log = Log(*START)
    log.script = [
        lambda: log.append(generation(2, A, B)),
        cuts(log, [failing() for _ in range(5)]),
        lambda: log.append(generation(2, A, B), generation(3, A)),
    ]
    told, _ = watched(log)
    assert told.sentences[-1] == "generation 2 → 3"
    assert told.notes == [
        "partition 0 of __consumer_offsets was cut off before offset 3: reading everything again",
        *notes,
    ]


def test_while_it_waits_to_read_anew_it_can_be_stopped() -> None:
    log = Log(*START)

    def stops() -> Found:
        log.stop.set()
        raise failures.unreachable(BOOTSTRAP, 15.0)

    def truncate() -> ReadBatch:
        log.find = stops  # type: ignore[method-assign]
        return ReadBatch((), (), (0,))

    log.script = [truncate]
    assert watched(log)[0].notes[1:] == ["no broker answers: trying again until one does"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (failures.missing(BOOTSTRAP), "has no __consumer_offsets"),
        (failures.fatal(SaidError("_AUTHENTICATION"), BOOTSTRAP), "refuse the connection"),
    ],
)
def test_what_ends_the_reading_anew(error: CommandError, said: str) -> None:
    log = Log(*START)
    log.script = [cuts(log, [error])]
    with pytest.raises(CommandError, match=said):
        watched(log)


def test_another_topic_is_not_read_anew() -> None:
    log = Log(*START)

    def truncate() -> ReadBatch:
        log.id = "two"
        return ReadBatch((), (), (0,))

    log.script = [truncate]
    with pytest.raises(FailureError, match="__consumer_offsets was deleted"):
        watched(log)


def test_it_waits_longer_each_time_up_to_a_limit() -> None:
    waits: list[float] = []
    stop = SimpleNamespace(wait=waits.append)
    waiting = backoff.Backoff()
    for _ in range(7):
        waiting.wait(stop)  # type: ignore[arg-type]
    waiting.reset()
    waiting.wait(stop)  # type: ignore[arg-type]
    assert waits == [1, 2, 4, 8, 16, 30, 30, 1]


@pytest.mark.parametrize(
    ("module", "name"), [(modern, "last_signs"), (teller, "TargetDraft"), (history, "entry_of")]
)
def test_a_group_of_which_something_cannot_be_told_is_named_and_others_go_on(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise IndexError("a fault")

    log = Log(joined("a"), epoch(2), *targets(2, {"a": (0,)}), current("a", 2, 0), *START_H)

    def leave() -> ReadBatch:
        monkeypatch.setattr(module, name, fail)
        return log.append(*gone("a"), epoch(3))

    def join() -> ReadBatch:
        monkeypatch.undo()
        return log.append(of_h(generation(2, A, B)))

    log.script = [leave, None, None, join]
    told, session = watched(log)
    (note,) = told.notes
    assert note.startswith(
        "group g: something that its records say could not be told: IndexError: a fault (test_"
    )
    assert session.failed == 1
    assert told.sentences[-1] == "generation 1 → 2"


def test_what_the_log_loses_while_it_is_read_first_is_not_told() -> None:
    log = Log(*START, generation(2, A, B), generation(3, A))
    read, cut = log.poll, [True]

    def poll(timeout_s: float) -> ReadBatch:
        if not cut:
            return read(timeout_s)
        cut.clear()
        found = log.batch(0)
        del log.records[-1]
        return ReadBatch(found.records[:2], (), (0,))

    log.poll = poll  # type: ignore[method-assign]
    log.script = [lambda: log.append(generation(3, A))]
    told, _ = watched(log)
    assert told.sentences == ["generation 2 → 3"]


def test_a_member_that_came_back_is_told_though_records_come_all_the_time() -> None:
    log = Log(joined("x", instance_id="i"), epoch(2), *targets(2, {"x": (0,)}), current("x", 2, 0))
    commit = (
        OffsetCommitKey("other", "t", 0),
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=NOW),
    )
    others = [lambda: log.append(commit)] * 3
    back = (*gone("x"), joined("y", instance_id="i"), *targets(2, {"y": (0,)})[:-1])
    log.script = [lambda: log.append(*back, current("y", 2, 0)), *others]
    told, _ = watched(log)
    assert told.sentences == [
        "member i (10.0.0.4) came back under a new member id; nothing else changed"
    ]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_write_does_not_end_while_other_partitions_have_more_than_comes_at_once(
    is_full: bool,
) -> None:
    log = Log(joined("x", instance_id="i"), epoch(2), *targets(2, {"x": (0,)}), current("x", 2, 0))

    def part(*records: tuple[Any, Any]) -> ReadBatch:
        first = len(log.records)
        log.append(*records)
        log.times[first:] = [NOW + 1_000] * len(records)
        return log.batch(first)

    others = [lambda: ReadBatch((), (), (), is_full=is_full)] * 3
    back = (joined("y", instance_id="i"), *targets(2, {"y": (0,)})[:-1], current("y", 2, 0))
    log.script = [lambda: part(*gone("x")), *others, lambda: part(*back), None, None]
    told, _ = watched(log)
    came_back = "member i (10.0.0.4) came back under a new member id; nothing else changed"
    assert (told.sentences == [came_back]) is is_full


def test_while_no_broker_answers_it_says_so_once() -> None:
    log = Log(*START)

    def fail() -> ReadBatch:
        log.is_answering = False
        log.errors = [SaidError("_ALL_BROKERS_DOWN"), SaidError("_TRANSPORT")]
        return ReadBatch((), (), ())

    log.script = [fail, fail, lambda: log.append(generation(2, A, B))]
    told, _ = watched(log)
    assert told.notes == [
        "no broker answers: trying again until one does",
        "a broker answers again",
    ]
    assert told.sentences == ["generation 1 → 2"]


@pytest.mark.parametrize("name", ["_TRANSPORT", "_TIMED_OUT", "_RESOLVE"])
def test_of_one_broker_that_fails_it_says_nothing(name: str) -> None:
    log = Log(*START)

    def fail() -> ReadBatch:
        log.errors = [SaidError(name)]
        return ReadBatch((), (), ())

    log.script = [fail, lambda: log.append(generation(2, A, B))]
    told, _ = watched(log)
    assert told.notes == []
    assert told.sentences == ["generation 1 → 2"]


@pytest.mark.parametrize("is_other", [False, True])
def test_a_topic_that_is_deleted_ends_it(is_other: bool) -> None:
    log = Log(*START)

    def delete() -> ReadBatch:
        log.is_there, log.id = is_other, "two"
        log.errors = [SaidError("UNKNOWN_TOPIC_OR_PART")]
        return ReadBatch((), (), ())

    log.script = [delete, None]
    with pytest.raises(FailureError, match="__consumer_offsets was deleted"):
        watched(log)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SaidError("_AUTHENTICATION"), "refuse the connection: _AUTHENTICATION happened; give"),
        (SaidError("TOPIC_AUTHORIZATION_FAILED"), "not allowed to read __consumer_offsets: it"),
        (SaidError("_FATAL", is_fatal=True), "the consumer cannot go on: _FATAL happened"),
    ],
)
def test_what_ends_it(error: SaidError, said: str) -> None:
    log = Log(*START)
    log.errors = [error]
    with pytest.raises(CommandError, match=said) as raised:
        watched(log)
    assert raised.value.exit_code is ExitCode.FAILURE


def test_what_does_not_end_it() -> None:
    log = Log(*START)
    log.errors = [SaidError("GROUP_AUTHORIZATION_FAILED"), SaidError("_MSG_TIMED_OUT")]
    assert watched(log)[0].notes == []


def target(number: int, topic_id: UUID, *partitions: int) -> list[tuple[Any, Any]]:
    """Return the records of a new epoch, in which one member gets partitions of one topic."""
    rows = targets(number, {"a": partitions}, topic_id)
    return [epoch(number, number), *rows]


def test_a_topic_that_came_after_the_last_look_is_looked_up_before_its_story_is_told() -> None:
    log = Log(joined("a"), *target(1, TOPIC, 0))
    new = UUID(int=8)

    def create() -> ReadBatch:
        log.known.append(Topic(new, "new", 1))
        return log.append(*target(2, new, 0))

    log.script = [create]
    told, _ = watched(log)
    assert told.moved[-1] == ["new-0", "t-0"]
    assert log.looks == 2


def test_a_topic_that_cannot_be_described_stays_an_id_and_takes_no_look_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log = Log(joined("a"), *target(1, TOPIC), current("a", 1))
    secret, new = UUID(int=8), UUID(int=9)

    def write(after_s: float, number: int, topic_id: UUID) -> None:
        def act() -> ReadBatch:
            now[0] += after_s
            if topic_id == new:
                log.known.append(Topic(new, "new", 1))
            return log.append(*target(number, topic_id, 0))

        log.script += [act, None]

    write(1, 2, secret)
    write(sessions.LOOK_AGAIN_S, 3, TOPIC)
    write(sessions.LOOK_AGAIN_S, 4, secret)
    write(1, 5, new)
    told, _ = watched(log)
    assert told.moved[0] == [f"{secret}-0"]
    assert told.moved[-1] == [f"{secret}-0", "new-0"]
    assert log.looks == 3  # at the start, for the first story, for the last one


def test_a_storm_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "wall_ms", lambda: NOW)
    records = [generation(number, A, *([B] if number % 2 else [])) for number in range(2, 12)]
    log = Log(*START, *records)
    told, _ = watched(log, is_from_beginning=True)
    assert told.storms == ["g"]


def test_an_id_that_nobody_told_at_the_start_is_known_later() -> None:
    log = Log(*START)
    log.id = ""

    def tell(name: str) -> Callable[[], ReadBatch]:
        def act() -> ReadBatch:
            log.id = name
            log.errors = [SaidError("UNKNOWN_TOPIC_OR_PART")]
            return ReadBatch((), (), ())

        return act

    log.script = [tell("one"), None, tell("two"), None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "LOOK_AGAIN_S", 0.0)
        with pytest.raises(FailureError, match="__consumer_offsets was deleted"):
            watched(log)
