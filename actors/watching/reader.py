"""Reads ``__consumer_offsets`` with an ordinary consumer: it joins no group and commits nothing.

The consumer follows the leaders of the partitions by itself, so a broker that fails only delays it.
"""

from __future__ import annotations

import logging
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from actors.errors import BadInputError, CommandError, NoClusterError
from actors.watching import failures
from actors.watching.failures import TOPIC
from protocol.groups.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

START_S: Final = 15.0
"""How long to wait for the first answer."""

ASK_S: Final = 4.0
"""How long to wait for one answer at the start, before it is looked at what was reported."""

BATCH_MAX: Final = 2_000
DESCRIBED_MAX: Final = 500
"""Topics that one request describes."""

ENDS_AT_ONCE: Final = 1_000
"""Partitions whose ends one request asks for."""

TOPICS_MAX: Final = 100_000
EVENTS_MAX: Final = 100
"""Errors that librdkafka reported since they were last looked at."""


class WatchedRecord(NamedTuple):
    """A record of the topic, and when it was written (Unix ms)."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int


class ReadBatch(NamedTuple):
    """What came at once: records, partitions read to their ends, and partitions cut off.

    ``is_full``: as much as comes at once. More was there, and none of it may be of a partition
    whose records were there, too.
    """

    records: Sequence[WatchedRecord]
    ends: Sequence[int]
    truncated: Sequence[int]
    is_full: bool = False


class Found(NamedTuple):
    """The topic: its id ("" if brokers do not tell), the first and next offset by partition."""

    cluster_id: str
    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]


class Reader:
    """One consumer, used by one thread, and an administrator's client that only asks.

    The consumer is opened last: a group id alone makes librdkafka look for a coordinator, and that
    makes brokers create the topic where it is missing.
    """

    def __init__(self, settings: Mapping[str, Any], bootstrap: str) -> None:
        """Open the client that asks. Raises BadInputError for wrong settings."""
        self._kafka = _library()
        self._bootstrap = bootstrap
        self._errors: list[Any] = []
        quiet = logging.getLogger("rollcall.librdkafka")
        quiet.propagate = False
        quiet.addHandler(logging.NullHandler())
        self._settings = {**settings, "error_cb": self._noticed, "logger": quiet}
        self._admin = self._opened(self._kafka.admin.AdminClient)
        self._consumer: Any = None

    def find(self) -> Found:
        """Look for the topic. Raises CommandError."""
        cluster = self._metadata()
        topic = cluster.topics.get(TOPIC)
        if topic is None or not topic.partitions:
            raise failures.missing(self._bootstrap)
        numbers = sorted(topic.partitions)
        first, last = self._kafka.admin.OffsetSpec.earliest(), self._kafka.admin.OffsetSpec.latest()
        return Found(
            cluster.cluster_id or "",
            self.topic_id(),
            self._offsets(numbers, first),
            self._offsets(numbers, last),
        )

    def start(self, offsets: Mapping[int, int]) -> None:
        """Read each partition from an offset on. Raises BadInputError for wrong settings."""
        if self._consumer is None:
            self._consumer = self._opened(self._kafka.Consumer)
        place = self._kafka.TopicPartition
        self._consumer.assign([place(TOPIC, each, offsets[each]) for each in offsets])

    def poll(self, timeout_s: float) -> ReadBatch:
        """Return what is there, or comes in time. Raises CommandError."""
        records, ends, truncated = [], [], []
        messages = self._consumer.consume(BATCH_MAX, timeout_s)
        for message in messages:
            error = message.error()
            if error is None:
                _, time_ms = message.timestamp()
                records.append(
                    WatchedRecord(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        time_ms,
                    )
                )
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                ends.append(message.partition())
            elif failures.is_truncated(error):
                truncated.append(message.partition())
            else:
                self._noticed(error)
        return ReadBatch(records, ends, truncated, is_full=len(messages) == BATCH_MAX)

    def take_errors(self) -> list[Any]:
        """Take out what librdkafka has reported since the last call."""
        taken, self._errors = self._errors, []
        return taken

    def exists(self) -> bool | None:
        """Ask whether the topic is there; None: nobody answers."""
        try:
            cluster = self._admin.list_topics(timeout=START_S)
        except self._kafka.KafkaException:
            return None
        return bool(TOPIC in cluster.topics and cluster.topics[TOPIC].partitions)

    def topic_id(self) -> str:
        """Return the id of the topic; "" if the brokers do not tell."""
        found = [str(each.topic_id) for each in self._described([TOPIC]) or ()]
        return found[0] if found else ""

    def topics(self) -> Sequence[Topic]:
        """Return the topics that this user may see; nothing if nobody answers."""
        topics: list[Topic] = []
        try:
            names = sorted(self._admin.list_topics(timeout=START_S).topics)[:TOPICS_MAX]
        except self._kafka.KafkaException:
            return ()
        for first in range(0, len(names), DESCRIBED_MAX):
            found = self._described(names[first : first + DESCRIBED_MAX])
            if found is None:
                return ()  # each of the others would take as long
            topics += found
        return topics

    def end_offsets(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the ends of partitions, of those that this user may describe.

        So many are taken at once as are asked for at once. If no broker answers, it ends.
        """
        found: dict[tuple[str, int], int] = {}
        names: dict[str, str] = {}
        places = iter(wanted)
        latest = self._kafka.admin.OffsetSpec.latest()
        while some := list(islice(places, ENDS_AT_ONCE)):
            asked = {self._kafka.TopicPartition(*each): latest for each in some}
            away = 0
            for place, future in self._admin.list_offsets(asked, request_timeout=START_S).items():
                topic = names.setdefault(place.topic, place.topic)
                try:
                    found[topic, place.partition] = future.result().offset
                except self._kafka.KafkaException as error:
                    away += failures.is_away(error.args[0])
            if away == len(asked):
                break
        return found

    def close(self) -> None:
        """Leave."""
        if self._consumer is not None:
            self._consumer.close()

    def _described(self, names: list[str]) -> Sequence[Topic] | None:
        """Return what this user may describe of some topics; None if no broker answers."""
        wanted = self._kafka.TopicCollection(names)
        topics: list[Topic] = []
        away = 0
        for future in self._admin.describe_topics(wanted, request_timeout=START_S).values():
            try:
                found = future.result()
            except self._kafka.KafkaException as error:
                away += failures.is_away(error.args[0])
                continue
            if found.topic_id is not None:
                topics.append(Topic(_uuid(found.topic_id), found.name, len(found.partitions)))
        return None if away == len(names) else topics

    def _opened(self, kind: Any) -> Any:
        try:
            return kind(self._settings)
        except self._kafka.KafkaException as error:
            raise failures.bad_setting(error.args[0]) from None

    def _metadata(self) -> Any:
        """Return the cluster's metadata; a login that is refused ends it before the time is up."""
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                return self._admin.list_topics(timeout=min(ASK_S, START_S))
            except self._kafka.KafkaException as error:
                failed = self._failed(error.args[0])
                if time.monotonic() >= deadline_s or not isinstance(failed, NoClusterError):
                    raise failed from None

    def _offsets(self, numbers: list[int], which: Any) -> dict[int, int]:
        asked = {self._kafka.TopicPartition(TOPIC, number): which for number in numbers}
        found = {}
        for place, future in self._admin.list_offsets(asked, request_timeout=START_S).items():
            try:
                found[place.partition] = future.result().offset
            except self._kafka.KafkaException as error:
                seen = (*self.take_errors(), error.args[0])
                raise failures.unreadable(place.partition, seen, self._bootstrap) from None
        return found

    def _failed(self, error: Any) -> CommandError:
        """Return why nothing can be read: what librdkafka reported before says more."""
        self._admin.poll(0)
        seen = (*self.take_errors(), error)
        ended = failures.first_fatal(seen, self._bootstrap)
        return ended or failures.unreachable(self._bootstrap, START_S)

    def _noticed(self, error: Any) -> None:
        if len(self._errors) < EVENTS_MAX:
            self._errors.append(error)


def _uuid(value: Any) -> UUID:
    low = value.get_least_significant_bits() & (1 << 64) - 1
    high = value.get_most_significant_bits() & (1 << 64) - 1
    return UUID(int=high << 64 | low)


def _library() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise BadInputError(
            "`rollcall watch` needs confluent-kafka: pip install 'rollcall[watch]'"
        ) from None
    return confluent_kafka
