"""One run of ``rollcall watch``: from the start of the log to its end, and on with what comes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.clock import wall_ms
from actors.errors import CommandError, FailureError, NoClusterError
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching import failures
from actors.watching.backoff import Backoff
from actors.watching.history import StoryHistory
from actors.watching.place import PlaceKeeper, WatchPlace
from protocol.groups.facts import GroupConverted, GroupDeleted, GroupReconciled, TargetAssigned
from protocol.stories.sentence import named
from protocol.stories.teller import DRAFTS_MAX
from protocol.watching.outlook import SESSION_TIMEOUT_MS
from protocol.watching.watch import ClusterWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors.watching.place import PlaceFile
    from actors.watching.reader import Found, ReadBatch, WatchedRecord
    from protocol.groups.facts import Fact
    from protocol.groups.topics import Topic
    from protocol.stories.storms import RebalanceStorm
    from protocol.stories.story import RebalanceStory

POLL_S: Final = 0.5
SAVE_S: Final = 1.0
"""How often the place is saved, at most."""

GROUPS_SHOWN: Final = 100
"""Groups that the metrics show one by one: the most active ones."""

LOOK_S: Final = 60.0
"""How often the topics are asked for, and whether ours is still the same."""

LOOK_AGAIN_S: Final = 10.0
"""How often, at most, for a topic whose name is not known, and after an error."""


class Source(Protocol):
    """What reads the log: ``Reader``, or a test's."""

    def find(self) -> Found:
        """Look for the topic."""

    def start(self, offsets: Mapping[int, int]) -> None:
        """Read each partition from an offset on."""

    def poll(self, timeout_s: float) -> ReadBatch:
        """Return what is there, or comes in time."""

    def take_errors(self) -> list[Any]:
        """Take out the errors since the last call."""

    def exists(self) -> bool | None:
        """Ask whether the topic is there; None: nobody answers."""

    def topic_id(self) -> str:
        """Return the id of the topic; "" if it is not known."""

    def topics(self) -> Iterable[Topic]:
        """Return the topics."""


class WatchListener(Protocol):
    """Who is told."""

    def loaded(self, session: WatchSession) -> None:
        """Take note that the state is complete: from now on things are told as they happen."""

    def told(self, stories: Iterable[RebalanceStory]) -> None:
        """Take stories."""

    def stormed(self, group_id: str, storm: RebalanceStorm) -> None:
        """Take a storm of a group."""

    def noted(self, sentence: str) -> None:
        """Take a remark about the watching itself."""


@dataclass(slots=True, kw_only=True)
class Options:
    """What to watch, and from where on it is told.

    ``is_from_beginning``: tell what the log has; otherwise only what comes, or what came since the
    place in ``place``. ``observe`` gets all facts that are told, and so do the ``metrics``.
    """

    bootstrap: str
    is_from_beginning: bool = False
    group_id: str | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    place: PlaceFile | None = None
    observe: Callable[[Fact], None] | None = None
    metrics: GroupMetrics = field(default_factory=GroupMetrics)


@dataclass(slots=True)
class _Due:
    """When something is done next (s), at most once in a time."""

    every_s: float
    at_s: float = field(default=0.0)

    def is_due(self) -> bool:
        now_s = time.monotonic()
        if now_s < self.at_s:
            return False
        self.at_s = now_s + self.every_s
        return True


class WatchSession:
    """Reads, concludes, tells. ``watch`` has the state; ``is_loaded``: it is complete.

    Other threads hold ``lock`` while they read ``watch`` and ``history``.
    """

    def __init__(self, source: Source, options: Options, listener: WatchListener) -> None:
        self.watch = self._new_watch(options)
        self.history = StoryHistory(wall_ms())
        self.lock = threading.Lock()
        self.is_loaded = False
        self.cluster_id = ""
        self._source = source
        self._options = options
        self._listener = listener
        file = options.place
        self._keeper = None if file is None else PlaceKeeper(file, listener.noted)
        self._topic_id = ""
        self._begun: OrderedDict[str, Fact] = OrderedDict()
        self._told_from: dict[int, int] = {}
        self._told_to: dict[int, int] = {}  # a place, if saved, is never beyond
        self._next: dict[int, int] = {}
        self._unread: dict[int, int] = {}  # where partitions ended at the start
        self.is_down = False
        self._is_cut_off = self._is_delayed = False
        self._backoff = Backoff()
        self._save, self._look = _Due(SAVE_S), _Due(LOOK_S)
        self._look_again = _Due(LOOK_AGAIN_S)

    def run(self, stop: threading.Event, *, is_once: bool = False) -> None:
        """Watch until ``stop`` is set, or the state is complete. Raises CommandError."""
        self._start()
        try:
            while not stop.is_set() and not (is_once and self.is_loaded):
                if self._is_cut_off and not self._reload():
                    self._backoff.wait(stop)
                else:
                    self._turn()
        finally:
            self._save_place()

    @property
    def failed(self) -> int:
        """How often something that records say could not be told."""
        return self.watch.outlook.troubles.count + self.history.troubles.count

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return len(self._next)

    # --- starting

    def _start(self) -> None:
        place = None if self._keeper is None else self._keeper.load()
        found = self._source.find()
        self.cluster_id, self._topic_id = found.cluster_id, found.topic_id
        self._told_from = self._first_told(found, place)
        self._told_to = dict(self._told_from)
        self._look.is_due()
        self._refresh_topics()
        self._read(found)

    def _first_told(self, found: Found, place: WatchPlace | None) -> dict[int, int]:
        """Return, by partition, the first offset whose stories are told."""
        if place is not None:
            place = self._checked(place, found)
        if place is not None:
            return {each: place.offsets.get(each, found.starts[each]) for each in found.starts}
        return dict(found.starts if self._options.is_from_beginning else found.ends)

    def _checked(self, place: WatchPlace, found: Found) -> WatchPlace | None:
        if failures.is_other(place.cluster_id, found.cluster_id):
            raise FailureError(
                f"the state is of the cluster {place.cluster_id}, and this is {found.cluster_id}:"
                " give another --state."
            )
        is_other = failures.is_other(place.topic_id, found.topic_id)
        if is_other or any(at > found.ends.get(each, at) for each, at in place.offsets.items()):
            self._listener.noted(f"{failures.TOPIC} is not the one of before: starting anew")
            return None
        return place

    def _read(self, found: Found) -> None:
        self._next = dict(found.starts)
        self._unread = dict(found.ends)
        self.is_loaded = False
        self._source.start(found.starts)

    def _note_read(self, ends: Iterable[int]) -> None:
        """Note what has been read to its end, or to where that was at the start.

        A partition to which clients commit all the time has no end that could be reached.
        """
        for each in ends:
            self._unread.pop(each, None)
        for each in [one for one, end in self._unread.items() if self._next[one] >= end]:
            del self._unread[each]

    def _cut_off(self, truncated: Iterable[int]) -> None:
        """Note that brokers have lost a part of the log: everything is read again."""
        for each in truncated:
            self._listener.noted(
                f"partition {each} of {failures.TOPIC} was cut off before offset"
                f" {self._next.get(each, 0)}: reading everything again"
            )
        self._is_cut_off = True

    def _reload(self) -> bool:
        """Begin anew, and return whether that was possible; what was told is not told again.

        Brokers that have just lost something may be away. Raises CommandError for what stays so.
        """
        try:
            found = self._source.find()
        except CommandError as error:
            if not failures.passes(error):
                raise
            self._delayed(error)
            return False
        if failures.is_other(self._topic_id, found.topic_id):
            raise failures.deleted()
        self._is_answered()
        self._is_cut_off = self._is_delayed = False
        self._backoff.reset()
        self._told_from = {
            each: min(self._told_to.get(each, 0), end) for each, end in found.ends.items()
        }
        self._told_to = dict(self._told_from)
        fresh = self._new_watch(self._options)
        fresh.outlook.topics = self.watch.outlook.topics
        with self.lock:
            self.watch = fresh
        self._begun.clear()
        self._read(found)
        return True

    def _delayed(self, error: CommandError) -> None:
        """Say once that what is due is tried again."""
        if isinstance(error, NoClusterError):
            self._is_away()
        elif not self._is_delayed:
            self._is_delayed = True
            self._listener.noted(f"{str(error).rstrip('.')}: trying again until it can be read")

    @staticmethod
    def _new_watch(options: Options) -> ClusterWatch:
        return ClusterWatch(options.session_timeout_ms, options.group_id)

    # --- reading

    def _turn(self) -> None:
        batch = self._source.poll(POLL_S)
        facts: list[Fact] = []
        with self.lock:
            for record in batch.records:
                facts += self._take(record)
            if is_whole := self.is_loaded and not batch.is_full:
                facts += self.watch.flush()
            self._options.metrics.count([self.watch.shard], GROUPS_SHOWN)
        self._tell(facts)
        if is_whole:
            self._told_to = dict(self._next)
        self._name_troubles()
        self._handle_errors()
        if batch.records or batch.ends:
            self._is_answered()
        if batch.truncated:
            self._cut_off(batch.truncated)
            return
        self._note_read(batch.ends)
        if not self._unread and not self.is_loaded:
            self.is_loaded = True
            self._listener.loaded(self)
        if self._look.is_due():
            self._look_around()
        if self._save.is_due():
            self._save_place()

    def _take(self, record: WatchedRecord) -> Iterable[Fact]:
        is_silent = record.offset < self._told_from.get(record.partition, 0)
        self.watch.outlook.is_silent = is_silent
        facts = list(self.watch.take(record.key, record.value, record.time_ms))
        self._next[record.partition] = record.offset + 1
        if is_silent:
            self._note_begun(facts)
            return ()
        return facts

    def _note_begun(self, facts: Iterable[Fact]) -> None:
        """Keep the rebalances that were told, or passed over, and that are still under way."""
        for fact in facts:
            if isinstance(fact, TargetAssigned):
                self._begun[fact.group_id] = fact
            elif isinstance(fact, GroupReconciled | GroupConverted | GroupDeleted):
                self._begun.pop(fact.group_id, None)
        while len(self._begun) > DRAFTS_MAX:
            self._begun.popitem(last=False)

    def _tell(self, facts: list[Fact]) -> None:
        if (facts or self.is_loaded) and self.watch.outlook.topics.misses:
            self._look_for_names()
        if not facts:
            return
        if self._options.observe is not None:
            for fact in facts:
                self._options.observe(fact)
        with self.lock:
            for fact in facts:
                self._options.metrics.observe(fact)
                if (begun := self._begun.pop(fact.group_id, None)) is not None:
                    self.history.begin(begun)
            stories = self.history.tell(facts)
        if not stories:
            return
        self._listener.told(stories)
        for group_id, storm in self.history.storms(stories, wall_ms()):
            self._listener.stormed(group_id, storm)

    # --- what goes wrong

    def _name_troubles(self) -> None:
        """Say of which groups something could not be told: of each once, of so many at most."""
        for each in (*self.watch.outlook.troubles.take(), *self.history.troubles.take()):
            self._listener.noted(
                f"group {named(each.group_id)}: something that its records say could not be told:"
                f" {each.reason}"
            )

    def _handle_errors(self) -> None:
        for error in self._source.take_errors():
            if (ended := failures.fatal(error, self._options.bootstrap)) is not None:
                raise ended
            if failures.is_missing(error):
                if self._look_again.is_due():
                    self._look.at_s = 0.0
            elif failures.is_unreachable(error):
                self._is_away()

    def _is_away(self) -> None:
        if not self.is_down:
            self.is_down = True
            self._look.at_s = 0.0
            self._listener.noted("no broker answers: trying again until one does")

    def _is_answered(self) -> None:
        if self.is_down:
            self.is_down = False
            self._listener.noted("a broker answers again")

    def _look_around(self) -> None:
        """Ask for the topics; the one that is read may be gone."""
        exists = self._source.exists()
        if exists is None:
            self._look.at_s = time.monotonic() + LOOK_AGAIN_S
            return
        self._is_answered()
        topic_id = self._source.topic_id()
        if not exists or failures.is_other(self._topic_id, topic_id):
            raise failures.deleted()
        self._topic_id = self._topic_id or topic_id  # nobody may have told it at the start
        self._refresh_topics()

    def _look_for_names(self) -> None:
        """Ask for the topics before something is told of one whose name is not known."""
        if self._look_again.is_due():
            self._refresh_topics()

    def _refresh_topics(self) -> None:
        topics = list(self._source.topics())
        if topics:
            with self.lock:
                self.watch.outlook.topics.replace(topics)

    def _save_place(self) -> None:
        if self._keeper is not None and self.is_loaded:
            place = WatchPlace(
                cluster_id=self.cluster_id, topic_id=self._topic_id, offsets=dict(self._told_to)
            )
            self._keeper.save(place)
