"""Protocol voting against counting every member anew (Kafka: the vote among common protocols)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.groups.classic.ballots import Ballots

LISTS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.lists(LISTS, max_size=12), st.lists(st.integers(0, 11), max_size=12), LISTS)
def test_the_winner_has_most_votes_of_what_all_support(
    joined: list[tuple[str, ...]], left: list[int], another: tuple[str, ...]
) -> None:
    ballots, present = Ballots(), []
    for ballot in joined:
        if not ballots.accepts(ballot):
            continue
        ballots.add(ballot)
        present.append(ballot)
    for index in left:
        if index < len(present):
            ballots.remove(present.pop(index))
    common = set.intersection(*map(set, present)) if present else set("abcd")
    assert ballots.accepts(another) == bool(common & set(another))
    if present:
        votes = Counter(next(name for name in ballot if name in common) for ballot in present)
        assert votes[ballots.winner()] == max(votes.values())


def test_a_tie_goes_to_the_first_voter() -> None:
    ballots = Ballots()
    ballots.add(("sticky", "range"))
    ballots.add(("range", "sticky"))
    assert ballots.winner() == "sticky"
