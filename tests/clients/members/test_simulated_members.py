"""The members of rehearsals and loads in one group with a real client, by each assignor both have.

Each reads what the other tells the leader of what it owns, whoever leads (KIP-429).
"""

from collections.abc import Callable

import pytest

from actors.cli.client import parse_bootstrap
from bench.load.driver import LoadSpec
from bench.load.live import LiveLoad
from protocol.members.assignors import ASSIGNORS, ClassicAssignor
from protocol.members.classic import MemberConfig
from tests.clients.confluent import Member, create_topics, partitions_of, poll_until
from tests.waiting import patient

Closing = Callable[[Callable[[], object]], object]

PARTITIONS = 6
SETTLES_S = patient(30)


@pytest.mark.parametrize("leads", ["ours", "librdkafka's"])
@pytest.mark.parametrize(
    "assignor",
    [ClassicAssignor.RANGE, ClassicAssignor.ROUND_ROBIN, ClassicAssignor.COOPERATIVE_STICKY],
)
def test_our_members_share_a_group_with_a_real_client(
    bootstrap: str, name: str, closing: Closing, assignor: ClassicAssignor, leads: str
) -> None:
    create_topics(bootstrap, [name], PARTITIONS)
    everything = partitions_of([name], PARTITIONS)
    ours = [
        MemberConfig(
            group_id=name,
            topics=(name,),
            client_id=f"ours-{number}",
            assignor=assignor,
            heartbeat_interval_ms=500,
        )
        for number in range(2)
    ]
    spec = LoadSpec(
        bootstrap=tuple(parse_bootstrap(bootstrap)),
        members=tuple(ours) if leads == "ours" else (),
        partitions_of={name: PARTITIONS},
        until_ms=0,
        commit_interval_ms=0,
    )
    with LiveLoad(spec) as load:

        def owned() -> list[set[tuple[str, int]]]:
            return [set(story.holds) for story in load.stories()]

        def is_shared_out(shares: list[set[tuple[str, int]]], members: int) -> bool:
            return (
                len(shares) == members
                and all(shares)
                and sum(map(len, shares)) == PARTITIONS
                and set().union(*shares) == everything
            )

        if leads == "ours":
            poll_until([], lambda: is_shared_out(owned(), 2), SETTLES_S, "ours have all")
        theirs = Member(bootstrap, name, [name], partition_assignment_strategy=assignor.value)
        closing(theirs.close)
        if leads != "ours":
            alone = "the real client has all"
            poll_until([theirs], lambda: theirs.assigned == everything, SETTLES_S, alone)
            load.join(ours)
        poll_until(
            [theirs],
            lambda: is_shared_out([*owned(), theirs.assigned], 3),
            SETTLES_S,
            "all three share what there is",
        )
        assert not theirs.errors
        if ASSIGNORS[assignor].is_cooperative and leads != "ours":
            assert sum(map(len, theirs.revoked)) == PARTITIONS - len(theirs.assigned)
    poll_until([theirs], lambda: theirs.assigned == everything, SETTLES_S, "it has all in the end")
