"""What a streams group allows with committed offsets: by member epoch, and by task."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.streams.streams_talk import StreamsTalk


def committed(talk: StreamsTalk, name: str, epoch: int, index: int, version: int = 10) -> ErrorCode:
    """Commit an offset of one partition of the source topic."""
    message = blank(
        OffsetCommitRequest,
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=name,
        topics=(
            blank(
                OffsetCommitRequestTopic,
                name="in",
                topic_id=topic_id("in"),
                partitions=(
                    blank(OffsetCommitRequestPartition, partition_index=index, committed_offset=1),
                ),
            ),
        ),
    )
    answer: Any = talk.ask(message, version)
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(
    ("epoch", "index", "code"),
    [
        (3, 2, ErrorCode.none),
        (2, 0, ErrorCode.none),  # it has had the task since epoch 2
        (2, 2, ErrorCode.stale_member_epoch),  # no longer
        (1, 0, ErrorCode.stale_member_epoch),
        (4, 0, ErrorCode.stale_member_epoch),
    ],
)
def test_commits_by_epoch(epoch: int, index: int, code: ErrorCode) -> None:
    talk = StreamsTalk()
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    talk.owning("A", "0:01")
    assert committed(talk, "A", epoch, index) is code


def test_commits_of_others() -> None:
    talk = StreamsTalk()
    talk.join("A")
    assert committed(talk, "B", 2, 0) is ErrorCode.unknown_member_id
    assert committed(talk, "A", 2, 0, version=8) is ErrorCode.unsupported_version
    assert committed(talk, "", -1, 0) is ErrorCode.unknown_member_id
    talk.leave("A")
    assert committed(talk, "", -1, 0) is ErrorCode.none


def test_sources_are_subscribed_to_while_there_are_members() -> None:
    talk = StreamsTalk()
    talk.join("A")
    assert committed(talk, "A", 2, 0) is ErrorCode.none
    policy = talk.context.tables.types["streams"].offsets
    assert policy.is_subscribed(talk.context, GROUP, "in")
    assert not policy.is_subscribed(talk.context, GROUP, "store-changelog")
    talk.leave("A")
    assert not policy.is_subscribed(talk.context, GROUP, "in")
