"""Whether assignments of members are sound: their bytes are kept, and read only when needed.

So they are read here once, before anything is changed. Their numbers are not those of the core: a
damaged record must not add topics to these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.share.group import ShareGroup
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.task_numbers import SubtopologyNumbers
from protocol.groups.topic_numbers import TopicNumbers
from protocol.records import BadRecord, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.groups.modern.codec import RecordCodec
    from protocol.groups.modern.hard_state import ModernGroup

CLASSES: Final[tuple[type[ModernGroup[Any]], ...]] = (ConsumerGroup, ShareGroup, StreamsGroup)
NO_PARTITION: Final = "a partition has a negative number"


class _Reading(NamedTuple):
    """How an assignment is read: all places of it, with numbers that are made for it."""

    places: Callable[[bytes, Any], Iterable[int]]
    numbers: Callable[[], Any]


def require_sound(key: Any, key_bytes: bytes, value: bytes | None) -> None:
    """Raise an error if the value is an assignment that is cut off or altered.

    The schema's reader is the strict one. Replays have a faster one, which must be able to read
    what is kept.
    """
    reading = _READINGS.get(type(key))
    if reading is None or value is None:
        return
    decode(key_bytes, value)
    places = reading.places(value, reading.numbers())
    if min(places, default=0) < 0:
        raise BadRecord(NO_PARTITION)


def _readings() -> Mapping[type, _Reading]:
    found: dict[type, _Reading] = {}
    for each in CLASSES:
        codec = each.kind.codec
        numbers = TopicNumbers if each.kind.form.units_are_topics else SubtopologyNumbers
        found[codec.target_key] = _Reading(codec.read_target, numbers)
        found[codec.current_key] = _Reading(_current_places(codec), numbers)
    return found


def _current_places(codec: RecordCodec) -> Callable[[bytes, Any], Iterable[int]]:
    def places(value: bytes, numbers: Any) -> Iterable[int]:
        read = codec.read_current(value, numbers)
        return (*read.assigned, *read.revoking)

    return places


_READINGS: Final = _readings()
