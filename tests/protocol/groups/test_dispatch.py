"""The tables of the shard's parts are merged, and no key is claimed twice."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.groups.classic.group_type import CLASSIC
from protocol.groups.consumer.group_type import CONSUMER
from protocol.groups.dispatch import TableError, merge
from protocol.groups.group_type import MigrationEdge, ShardPart
from protocol.groups.group_types import EDGES, PARTS, TABLES
from protocol.records import OffsetCommitKey
from protocol.wire.messages import JoinGroupRequest

JOIN_GROUP = JoinGroupRequest.__api_key__


def nothing(*_: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("rival", "sentence"),
    [
        (
            ShardPart(name="x", handlers={JOIN_GROUP: nothing}),
            "both classic and x claim the request 11",
        ),
        (
            ShardPart(name="x", replays={OffsetCommitKey: nothing}),
            f"both offsets and x claim the record type {OffsetCommitKey}",
        ),
        (
            ShardPart(name="x", timeouts={"session": nothing}),
            "both classic and x claim the timer session",
        ),
        (
            replace(CONSUMER, handlers={}, replays={}, name="consumer"),
            "both consumer and consumer claim the group type consumer",
        ),
        (
            replace(CLASSIC, handlers={}, replays={}, timeouts={}, name="x"),
            "classic, x has groups without members that commit offsets; one must",
        ),
    ],
)
def test_a_key_that_two_parts_claim_is_an_error(rival: ShardPart, sentence: str) -> None:
    with pytest.raises(TableError) as raised:
        merge((*PARTS, rival), EDGES)
    assert str(raised.value) == sentence


def test_an_edge_leads_between_types_that_there_are_and_answers_requests_that_there_are() -> None:
    with pytest.raises(TableError, match="the group type toy, which there is not"):
        merge(PARTS, (*EDGES, MigrationEdge(source="toy", target="classic")))
    with pytest.raises(TableError, match="both classic -> consumer and classic -> consumer"):
        merge(PARTS, (*EDGES, MigrationEdge(source="classic", target="consumer")))
    edge = MigrationEdge(source="consumer", target="classic", requests={999: nothing})
    with pytest.raises(TableError, match="the request 999, which no part claims"):
        merge(PARTS, (edge,))


def test_every_request_record_timer_and_event_is_in_the_merged_tables() -> None:
    for part in PARTS:
        assert part.handlers.keys() <= TABLES.handlers.keys()
        assert part.replays.keys() <= TABLES.replays.keys()
        assert part.timeouts.keys() <= TABLES.timeouts.keys()
        assert part.events.keys() <= TABLES.events.keys()
    assert TABLES.types.keys() == {"classic", "consumer", "share", "streams"}
    assert TABLES.simple_type is CLASSIC
