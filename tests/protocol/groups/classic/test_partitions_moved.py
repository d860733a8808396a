"""Partitions that changed hands, counted from the assignments as the leader sent them."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.groups.classic.partitions_moved import PartitionMovement, partitions_moved
from protocol.wire.embedded import TopicPartition, encode_assignment

owners = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9)), st.sampled_from("xyz"), max_size=20
)


def blobs(owners: dict[TopicPartition, str]) -> dict[str, bytes]:
    owned: dict[str, list[TopicPartition]] = {}
    for partition, owner in owners.items():
        owned.setdefault(owner, []).append(partition)
    return {owner: encode_assignment(partitions) for owner, partitions in owned.items()}


@given(before=owners, after=owners)
def test_each_partition_is_kept_moved_added_or_dropped(
    before: dict[TopicPartition, str], after: dict[TopicPartition, str]
) -> None:
    both = before.keys() & after.keys()
    assert partitions_moved(blobs(before), blobs(after)) == PartitionMovement(
        assigned=len(after),
        moved=sum(before[each] != after[each] for each in both),
        added=len(after.keys() - both),
        dropped=len(before.keys() - both),
    )


def test_a_member_without_partitions_may_have_an_empty_blob() -> None:
    assert partitions_moved({}, {"x": b""}) == PartitionMovement(
        assigned=0, moved=0, added=0, dropped=0
    )


def test_nothing_is_counted_when_members_speak_a_protocol_of_their_own() -> None:
    assert partitions_moved({}, {"x": b"\x00"}) is None
    assert partitions_moved({"x": b"\xff\xff rubbish"}, {}) is None
