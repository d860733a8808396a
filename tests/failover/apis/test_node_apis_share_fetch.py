"""ShareFetch and ShareAcknowledge of topics without records (KIP-932)."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from failover.catalogue.cluster_view import GROUP, ClusterView, DelayedResponse
from protocol.wire import share_fetch_messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from tests.failover.catalogue.catalogs import T0, Keeper, answer, topic

NONE = ErrorCode.none
FETCH, ACKNOWLEDGE = 78, 79
HERE, ELSEWHERE, MISSING = 0, 1, 2
WAIT_MS = 500
LOCK_MS = 30_000
SET = 0
CLOSE, OPEN, LATER = -1, 0, 7


@pytest.fixture
def keeper() -> Keeper:
    made = Keeper()
    made.create(topic("orders", assignments=[(0, (0,)), (1, (1,))]))
    return made


@pytest.fixture
def view(keeper: Keeper) -> ClusterView:
    return keeper.view()


def orders(view: ClusterView) -> UUID:
    known = view.catalog.topics.by_name("orders")
    assert known is not None
    return known.topic_id


def fetch(view: ClusterView, *indexes: int, **given: Any) -> Any:
    batch = m.FetchAcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(1,))
    batches = (batch,) if given.pop("acknowledges", False) else ()
    rows = tuple(
        m.ShareFetchPartition(partition_index=index, acknowledgement_batches=batches)
        for index in indexes
    )
    topic_id = given.pop("topic_id", orders(view))
    topics = (m.ShareFetchTopic(topic_id=topic_id, partitions=rows),) if rows else ()
    asked = {
        "group_id": "g",
        "member_id": "member",
        "share_session_epoch": LATER,
        "max_wait": timedelta(milliseconds=WAIT_MS),
        **given,
    }
    return answer(view, FETCH, blank(m.ShareFetchRequest, topics=topics, **asked))


def acknowledge(view: ClusterView, index: int, epoch: int = LATER, **given: Any) -> Any:
    batch = m.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(1,))
    row = m.AcknowledgePartition(partition_index=index, acknowledgement_batches=(batch,))
    topics = (m.AcknowledgeTopic(topic_id=given.pop("topic_id", orders(view)), partitions=(row,)),)
    asked = {"group_id": "g", "member_id": "member", "share_session_epoch": epoch, **given}
    return answer(view, ACKNOWLEDGE, blank(m.ShareAcknowledgeRequest, topics=topics, **asked))


@pytest.mark.parametrize(("epoch", "indexes"), [(OPEN, (HERE,)), (LATER, ()), (LATER, (HERE,))])
def test_a_fetch_waits_and_then_finds_nothing(
    view: ClusterView, epoch: int, indexes: tuple[int, ...]
) -> None:
    waiting = fetch(view, *indexes, share_session_epoch=epoch)
    assert isinstance(waiting, DelayedResponse)
    assert waiting.deadline_ms == T0 + WAIT_MS
    said: Any = waiting.response
    assert (said.error_code, said.responses, said.node_endpoints) == (NONE, (), ())
    assert said.acquisition_lock_timeout == timedelta(milliseconds=LOCK_MS)


def test_a_session_is_closed_at_once(view: ClusterView) -> None:
    said = fetch(view, HERE, share_session_epoch=CLOSE)
    assert (said.error_code, said.responses) == (NONE, ())


@pytest.mark.parametrize(
    ("index", "topic_id", "code", "leader"),
    [
        (ELSEWHERE, None, ErrorCode.not_leader_or_follower, 1),
        (MISSING, None, ErrorCode.unknown_topic_or_partition, -1),
        (HERE, UUID(int=9), ErrorCode.unknown_topic_id, -1),
    ],
)
def test_what_is_not_here_is_told_at_once(
    view: ClusterView, index: int, topic_id: UUID | None, code: ErrorCode, leader: int
) -> None:
    given = {} if topic_id is None else {"topic_id": topic_id}
    said = fetch(view, HERE, index, **given) if not given else fetch(view, index, **given)
    ((one,),) = [each.partitions for each in said.responses]
    assert (one.partition_index, one.error_code) == (index, code)
    assert one.current_leader.leader_id == leader
    assert [each.node_id for each in said.node_endpoints] == ([leader] if leader >= 0 else [])

    said = acknowledge(view, index, **given)
    ((refused,),) = [each.partitions for each in said.responses]
    assert (refused.error_code, refused.current_leader.leader_id) == (code, leader)


def test_an_acknowledgement_is_refused_because_no_record_was_acquired(view: ClusterView) -> None:
    ((one,),) = [each.partitions for each in fetch(view, HERE, acknowledges=True).responses]
    refusal = ErrorCode.invalid_record_state
    assert (one.error_code, one.acknowledge_error_code) == (NONE, refusal.value)
    ((one,),) = [each.partitions for each in acknowledge(view, HERE).responses]
    assert one.error_code is refusal


@pytest.mark.parametrize(
    "given",
    [
        {"group_id": None},
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"is_renew_ack": True},
        {"share_session_epoch": OPEN, "acknowledges": True},
    ],
    ids=str,
)
def test_requests_that_kafka_refuses(view: ClusterView, given: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as refused:
        fetch(view, HERE, **given)
    assert refused.value.code is ErrorCode.invalid_request


def test_acknowledgements_do_not_open_a_session(view: ClusterView) -> None:
    with pytest.raises(KafkaError) as refused:
        acknowledge(view, HERE, OPEN)
    assert refused.value.code is ErrorCode.invalid_share_session_epoch


def test_share_groups_that_are_switched_off_do_not_fetch() -> None:
    keeper = Keeper(share_version="0")
    keeper.create(topic("orders", partitions=1))
    view = keeper.view()
    for ask in (fetch, acknowledge):
        with pytest.raises(KafkaError) as refused:
            ask(view, HERE)
        assert refused.value.code is ErrorCode.unsupported_version


@pytest.mark.parametrize(("own", "expected_ms"), [("20000", 20_000), ("60000", 60_000)])
def test_the_lock_duration_is_that_of_the_group(keeper: Keeper, own: str, expected_ms: int) -> None:
    keeper.alter(GROUP, "g", ("share.record.lock.duration.ms", SET, own))
    said = fetch(keeper.view(), HERE, share_session_epoch=CLOSE)
    assert said.acquisition_lock_timeout == timedelta(milliseconds=expected_ms)
