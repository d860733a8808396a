"""ListOffsets, OffsetForLeaderEpoch and Fetch of topics without records."""

from typing import Any
from uuid import UUID

import pytest

from failover.apis.log import NO_END
from failover.catalogue.cluster_view import ClusterView, DelayedResponse
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.catalogue.catalogs import SECOND, T0, Keeper, answer, topic

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
HERE, ELSEWHERE = 0, 1


@pytest.fixture
def view() -> ClusterView:
    keeper = Keeper()
    keeper.create(topic("orders", assignments=[(0, (0,)), (1, (1,))]))
    return keeper.view()


WHO_ANSWERS = [
    ("orders", HERE, -1, NONE),
    ("orders", HERE, 0, NONE),
    ("orders", HERE, 1, ErrorCode.unknown_leader_epoch),
    ("orders", HERE, -5, ErrorCode.fenced_leader_epoch),
    ("orders", ELSEWHERE, -1, ErrorCode.not_leader_or_follower),
    ("orders", 2, -1, UNKNOWN),
    ("orders", -1, -1, UNKNOWN),
    ("missing", 0, -1, UNKNOWN),
    ("__consumer_offsets", 0, -1, NONE),
    ("__consumer_offsets", 1, -1, ErrorCode.not_leader_or_follower),
]
"""topic, partition, current leader epoch of the client, and what this node has to say (KIP-320)"""


class TestListOffsets:
    def ask(self, view: ClusterView, *asked: Any, version: int = 11) -> Any:
        topics = tuple(
            m.ListOffsetsTopic(
                name=name,
                partitions=(
                    m.ListOffsetsPartition(
                        partition_index=index, current_leader_epoch=epoch, timestamp=timestamp
                    ),
                ),
            )
            for name, index, epoch, timestamp in asked
        )
        message = m.ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=topics, timeout=SECOND
        )
        response = answer(view, 2, message, version)
        return [
            (one.error_code, one.offset, one.timestamp, one.leader_epoch)
            for topic in response.topics
            for one in topic.partitions
        ]

    @pytest.mark.parametrize("name, index, epoch, code", WHO_ANSWERS)
    def test_who_answers(
        self, view: ClusterView, name: str, index: int, epoch: int, code: ErrorCode
    ) -> None:
        found = (NONE, 0, -1, 0) if code is NONE else (code, -1, -1, -1)
        assert self.ask(view, (name, index, epoch, -1)) == [found]

    @pytest.mark.parametrize(
        "timestamp, version, expected",
        [
            (-1, 1, (NONE, 0, -1, 0)),
            (-2, 1, (NONE, 0, -1, 0)),
            (-3, 7, (NONE, -1, -1, -1)),
            (-3, 6, (ErrorCode.unsupported_version, -1, -1, -1)),
            (-4, 8, (NONE, 0, -1, 0)),
            (-5, 9, (NONE, -1, -1, -1)),
            (-6, 11, (NONE, -1, -1, -1)),
            (-6, 10, (ErrorCode.unsupported_version, -1, -1, -1)),
            (-7, 11, (ErrorCode.unsupported_version, -1, -1, -1)),
            (0, 11, (NONE, -1, -1, -1)),
            (T0, 11, (NONE, -1, -1, -1)),
        ],
    )
    def test_timestamps(
        self, view: ClusterView, timestamp: int, version: int, expected: tuple[object, ...]
    ) -> None:
        assert self.ask(view, ("orders", HERE, -1, timestamp), version=version) == [expected]

    def test_a_partition_given_twice_is_refused(self, view: ClusterView) -> None:
        one = ("orders", HERE, -1, -1)
        codes = [code for code, *_ in self.ask(view, one, one)]
        assert codes == [ErrorCode.invalid_request] * 2


class TestOffsetForLeaderEpoch:
    def ask(self, view: ClusterView, name: str, index: int, current: int, epoch: int) -> Any:
        partition = m.OffsetForLeaderPartition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = (m.OffsetForLeaderTopic(topic=name, partitions=(partition,)),)
        response = answer(view, 23, m.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
        return response.topics[0].partitions[0]

    @pytest.mark.parametrize("name, index, epoch, code", WHO_ANSWERS)
    def test_who_answers(
        self, view: ClusterView, name: str, index: int, epoch: int, code: ErrorCode
    ) -> None:
        assert self.ask(view, name, index, epoch, 0).error_code is code

    @pytest.mark.parametrize("epoch, end", [(0, (0, NO_END)), (5, (5, NO_END)), (-1, (-1, -1))])
    def test_no_epoch_ends_before_a_clients_position(
        self, view: ClusterView, epoch: int, end: tuple[int, int]
    ) -> None:
        got = self.ask(view, "orders", HERE, -1, epoch)
        assert (got.leader_epoch, got.end_offset) == end


class TestFetch:
    def message(
        self,
        topic: m.FetchTopic | None,
        *,
        wait_ms: int = 500,
        min_bytes: int = 1,
        isolation_level: int = 0,
        session: tuple[int, int] = (0, 0),
    ) -> m.FetchRequest:
        return m.FetchRequest(
            max_wait=SECOND * wait_ms / 1000,
            min_bytes=min_bytes,
            isolation_level=isolation_level,
            session_id=session[0],
            session_epoch=session[1],
            topics=() if topic is None else (topic,),
            forgotten_topics_data=(),
        )

    def topic(self, name: str | UUID, index: int, epoch: int = -1, offset: int = 0) -> m.FetchTopic:
        partition = m.FetchPartition(
            partition=index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=1024,
        )
        return m.FetchTopic(
            topic_id=name if isinstance(name, UUID) else None,
            topic=name if isinstance(name, str) else "",
            partitions=(partition,),
        )

    def test_an_empty_log_makes_the_client_wait(self, view: ClusterView) -> None:
        parked = answer(view, 1, self.message(self.topic("orders", HERE)), 12)
        assert isinstance(parked, DelayedResponse)
        assert parked.deadline_ms == T0 + 500
        response: Any = parked.response
        assert (response.error_code, response.session_id) == (NONE, 0)
        (got,) = response.responses[0].partitions
        assert (got.high_watermark, got.last_stable_offset, got.log_start_offset) == (0, 0, 0)
        assert (got.records, got.aborted_transactions) == (b"", None)

    @pytest.mark.parametrize("wait_ms, min_bytes", [(0, 1), (500, 0)])
    def test_who_does_not_want_to_wait_does_not(
        self, view: ClusterView, wait_ms: int, min_bytes: int
    ) -> None:
        message = self.message(self.topic("orders", HERE), wait_ms=wait_ms, min_bytes=min_bytes)
        assert not isinstance(answer(view, 1, message, 12), DelayedResponse)

    def test_a_fetch_of_nothing_is_answered_at_once(self, view: ClusterView) -> None:
        assert answer(view, 1, self.message(None), 12).responses == ()

    @pytest.mark.parametrize(
        "name, index, epoch, code", [row for row in WHO_ANSWERS if row[3] is not NONE]
    )
    def test_an_error_is_told_at_once(
        self, view: ClusterView, name: str, index: int, epoch: int, code: ErrorCode
    ) -> None:
        response = answer(view, 1, self.message(self.topic(name, index, epoch)), 12)
        (got,) = response.responses[0].partitions
        assert (got.error_code, got.high_watermark, got.records) == (code, -1, b"")

    @pytest.mark.parametrize("offset", [0, 1, 500, 2**63 - 1])
    def test_a_client_stands_at_the_end_wherever_it_stands(
        self, view: ClusterView, offset: int
    ) -> None:
        # An offset out of range is reset by the client and then committed.
        parked = answer(view, 1, self.message(self.topic("orders", HERE, offset=offset)), 12)
        assert isinstance(parked, DelayedResponse)
        response: Any = parked.response
        (got,) = response.responses[0].partitions
        assert (got.error_code, got.high_watermark, got.last_stable_offset) == (
            NONE,
            offset,
            offset,
        )
        assert got.log_start_offset == 0

    def test_a_negative_offset_is_out_of_range(self, view: ClusterView) -> None:
        response = answer(view, 1, self.message(self.topic("orders", HERE, offset=-1)), 12)
        assert response.responses[0].partitions[0].error_code is ErrorCode.offset_out_of_range

    def test_topics_by_id_from_version_13(self, view: ClusterView) -> None:
        orders = view.catalog.topics.by_name("orders")
        assert orders is not None
        found = answer(view, 1, self.message(self.topic(orders.topic_id, HERE)), 13)
        assert isinstance(found, DelayedResponse)
        response = answer(view, 1, self.message(self.topic(UUID(int=9), 0)), 13)
        assert response.responses[0].topic_id == UUID(int=9)
        assert response.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id

    @pytest.mark.parametrize("version, endpoints", [(15, []), (16, [(1, "host1", 9093)])])
    def test_the_leader_is_named_where_it_is_another(
        self, view: ClusterView, version: int, endpoints: list[tuple[int, str, int]]
    ) -> None:
        # KIP-951
        orders = view.catalog.topics.by_name("orders")
        assert orders is not None
        message = self.message(self.topic(orders.topic_id, ELSEWHERE))
        response = answer(view, 1, message, version)
        (got,) = response.responses[0].partitions
        assert (got.current_leader.leader_id, got.current_leader.leader_epoch) == (1, 0)
        assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == endpoints

    def test_readers_of_committed_data_get_a_list_of_aborted_transactions(
        self, view: ClusterView
    ) -> None:
        parked = answer(view, 1, self.message(self.topic("orders", HERE), isolation_level=1), 12)
        assert parked.response.responses[0].partitions[0].aborted_transactions == ()

    def test_there_are_no_sessions_to_go_on_with(self, view: ClusterView) -> None:
        # KIP-227: "session id 0: no session was created"
        opening = answer(view, 1, self.message(self.topic("orders", HERE), session=(0, 0)), 12)
        assert opening.response.session_id == 0
        continuing = answer(view, 1, self.message(None, session=(5, 1)), 12)
        assert continuing.error_code is ErrorCode.fetch_session_id_not_found
        assert continuing.responses == ()
        closing = answer(view, 1, self.message(None, session=(5, -1)), 12)
        assert closing.error_code is NONE
