"""Structs that messages share are copied and encoded once, within bounds."""

from dataclasses import dataclass, replace

from protocol.wire.convert import SHARED_ITEMS, Sharing, blank, once_each
from protocol.wire.frames import encode_response
from protocol.wire.messages import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

METADATA = 3


@dataclass(frozen=True)
class Item:
    size: int


def made(items: list[Item], size_max: int) -> list[Item]:
    """Return the items for which something was made."""
    calls: list[Item] = []
    make = once_each(calls.append, Sharing(lambda item: item.size, size_max))
    for item in items:
        make(item)
    return calls


def test_an_object_is_made_once() -> None:
    one, equal = Item(1), Item(1)
    assert list(map(id, made([one, equal, one, equal], 2))) == [id(one), id(equal)]


def test_what_is_kept_adds_up_to_the_maximum() -> None:
    small, large, last = Item(1), Item(3), Item(2)
    assert made([small, large, last, small, last], 4) == [small, large, last, small]


def test_an_object_of_size_0_is_not_kept() -> None:
    nothing = Item(0)
    assert made([nothing, nothing], 4) == [nothing, nothing]


def test_an_object_larger_than_the_maximum_is_not_kept() -> None:
    small, huge = Item(1), Item(5)
    assert made([small, huge, huge, small], 4) == [small, huge, huge]


def topic_of(partitions: int) -> MetadataResponseTopic:
    one = blank(MetadataResponsePartition, partition_index=7)
    return blank(MetadataResponseTopic, name="orders", partitions=(one,) * partitions)


def test_a_missing_topic_of_metadata_is_not_kept() -> None:
    size_of = SHARED_ITEMS["MetadataResponseTopic"].size_of
    assert (size_of(topic_of(0)), size_of(topic_of(3))) == (0, 3)


def test_two_answers_with_the_same_topic_have_the_same_bytes() -> None:
    topic = topic_of(3)
    for version in range(14):
        first = blank(MetadataResponse, topics=(topic,))
        fresh = blank(MetadataResponse, topics=(replace(topic),))
        answers = {
            encode_response(METADATA, version, 1, each) for each in (first, replace(first), fresh)
        }
        assert len(answers) == 1, version
