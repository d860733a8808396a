"""Protocol voting against a recount of every member (Kafka: the vote among common protocols)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.groups.classic.protocol_lists import ProtocolLists

LISTS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.lists(LISTS, max_size=12), st.lists(st.integers(0, 11), max_size=12), LISTS)
def test_the_winner_has_most_votes_of_what_all_support(
    joined: list[tuple[str, ...]], left: list[int], another: tuple[str, ...]
) -> None:
    protocol_lists, present = ProtocolLists(), []
    for protocol_list in joined:
        if not protocol_lists.supports(protocol_list):
            continue
        protocol_lists.add(protocol_list)
        present.append(protocol_list)
    for index in left:
        if index < len(present):
            protocol_lists.remove(present.pop(index))
    common = set.intersection(*map(set, present)) if present else set("abcd")
    assert protocol_lists.supports(another) == bool(common & set(another))
    if present:
        votes = Counter(
            next(name for name in protocol_list if name in common) for protocol_list in present
        )
        assert votes[protocol_lists.select()] == max(votes.values())


def test_a_tie_goes_to_the_first_voter() -> None:
    protocol_lists = ProtocolLists()
    protocol_lists.add(("sticky", "range"))
    protocol_lists.add(("range", "sticky"))
    assert protocol_lists.select() == "sticky"
