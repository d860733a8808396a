"""Stories on their way between nodes: to those with replicas, and again to one that comes back."""

from collections.abc import Iterable

import msgpack
import pytest

from failover.identity import Identity
from failover.partition_kinds import GROUPS
from failover.routing import partition_for
from failover.told_stories import AGAIN_MAX, MESSAGE_BYTES, ToldStories
from protocol.stories.history import STORIES_PER_GROUP, StoryEntry
from protocol.stories.json_form import STORY_BYTES_MAX
from protocol.stories.story import GROUP_ID_MAX
from storage.messages import SoftStateTold

PLACEMENT = ((0, 1), (1, 2), (2, 0))
NODES = (0, 1, 2)


def node(node_id: int) -> ToldStories:
    identity = Identity(
        node_id=node_id,
        directory_id=str(node_id),
        cluster_id="cluster",
        nodes=NODES,
        placement=PLACEMENT,
        voters={},
    )
    return ToldStories(identity, 1_000)


def entry(group: str, number: int = 1, data: bytes = b"{}") -> StoryEntry:
    return StoryEntry(group, 0, number, 0, 2_000 + number, data)


def group_on(partition: int) -> str:
    return next(
        name for n in range(100) if partition_for(name := f"g{n}", len(PLACEMENT)) == partition
    )


def known(stories: ToldStories, group: str) -> list[int]:
    return [each.number for each in stories.history.of_group(group).entries]


def message(rows: Iterable[object]) -> SoftStateTold:
    return SoftStateTold(GROUPS.number(0), 0, 0, msgpack.packb(list(rows), use_bin_type=True))


@pytest.mark.parametrize(("partition", "others"), [(0, {1}), (1, {1, 2}), (2, {2})])
def test_the_nodes_with_replicas_are_told(partition: int, others: set[int]) -> None:
    group, teller = group_on(partition), node(0)
    messages = list(teller.add([entry(group)]))
    assert {node_id for node_id, _ in messages} == others
    heard = node(min(others))
    stored: list[StoryEntry] = []
    heard.upon_news = stored.append
    for _ in range(2):  # what comes twice is stored once
        heard.receive(messages[0][1])
    assert known(heard, group) == [1]
    assert stored == [entry(group)]


def test_a_known_story_is_not_told_again() -> None:
    teller, group = node(0), group_on(0)
    assert list(teller.add([entry(group)]))
    assert not list(teller.add([entry(group)]))


def test_a_node_that_comes_back_is_told_the_newest_of_what_both_hold() -> None:
    teller, mine, theirs = node(0), group_on(0), group_on(1)
    list(teller.add([entry(mine, 1), entry(mine, 2), entry(theirs, 3)]))
    back = node(1)
    for each in teller.tell_again(1):
        back.receive(each)
    assert known(back, mine) == [1, 2]
    assert known(back, theirs) == [3]
    assert not known(node(2), mine)
    assert all(each.partition == GROUPS.number(1) for each in teller.tell_again(2))


def test_what_is_told_again_is_bounded_and_comes_in_small_messages() -> None:
    teller = node(0)
    groups = [name for n in range(400) if partition_for(name := f"g{n}", len(PLACEMENT)) == 0]
    for number in range(AGAIN_MAX + 500):
        list(teller.add([entry(groups[number // STORIES_PER_GROUP], number, b"x" * 500)]))
    messages = list(teller.tell_again(1))
    rows = [row for each in messages for row in msgpack.unpackb(each.data)]
    assert len(rows) <= AGAIN_MAX
    assert max(row[2] for row in rows) == AGAIN_MAX + 499
    assert all(len(each.data) < 2 * MESSAGE_BYTES for each in messages)


GOOD = ("g", 0, 1, 0, 2_000, b"{}")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 5_000,
        msgpack.packb("text"),
        msgpack.packb([1]),
        msgpack.packb([GOOD[:-1]]),
        msgpack.packb([("g", 0, 1, 0, 2_000, "no bytes")]),
        msgpack.packb([("g", True, 1, 0, 2_000, b"")]),
        msgpack.packb([("g" * (GROUP_ID_MAX + 1), *GOOD[1:])]),
        msgpack.packb([(*GOOD[:-1], b"x" * (STORY_BYTES_MAX + 1))]),
    ],
)
def test_what_is_no_story_is_ignored(data: bytes) -> None:
    heard = node(1)
    heard.receive(SoftStateTold(GROUPS.number(0), 0, 0, data))
    assert len(heard.history) == 0
    heard.receive(message([GOOD]))
    assert len(heard.history) == 1


def test_what_was_stored_is_remembered_from_when_it_was_begun() -> None:
    restarted = node(0)
    restarted.restore([entry("g")], 500)
    assert known(restarted, "g") == [1]
    assert restarted.history.since_ms == 500
