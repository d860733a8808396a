"""Committed offsets of consumer groups, by member epoch (KIP-848, KIP-1251)."""

from __future__ import annotations

from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk


def stable(*names: str) -> ConsumerTalk:
    talk = ConsumerTalk()
    for name in names:
        talk.join(name)
    talk.converge(*names)
    return talk


def commit(
    talk: ConsumerTalk, member_id: str, epoch: int, *indexes: int, version: int = 9
) -> list[ErrorCode]:
    partitions = [(index, 7, "") for index in indexes]
    standing = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
    codes: list[ErrorCode] = talk.commit_offsets("a", *partitions, version=version, **standing)
    return codes


def fetch(talk: ConsumerTalk, member_id: str | None, epoch: int) -> tuple[ErrorCode, list[int]]:
    asked = {"a": (0, 1, 2, 3)}
    answer = talk.fetch_offsets(asked, member_id=member_id, member_epoch=epoch)
    offsets = [each.committed_offset for topic in answer.topics for each in topic.partitions]
    return answer.error_code, offsets


def test_a_member_commits_and_fetches_in_its_epoch() -> None:
    talk = stable("A")
    epoch = talk.client("A").epoch
    assert commit(talk, "m-A", epoch, 0, 1) == [ErrorCode.none] * 2
    assert fetch(talk, "m-A", epoch) == (ErrorCode.none, [7, 7, -1, -1])
    assert fetch(talk, None, -1) == (ErrorCode.none, [7, 7, -1, -1])


def test_an_epoch_from_the_future_or_a_stranger_is_refused() -> None:
    talk = stable("A")
    epoch = talk.client("A").epoch
    assert commit(talk, "m-A", epoch + 1, 0) == [ErrorCode.stale_member_epoch]
    assert commit(talk, "x", epoch, 0) == [ErrorCode.unknown_member_id]
    assert commit(talk, "", -1, 0) == [ErrorCode.unknown_member_id]
    assert fetch(talk, "x", epoch)[0] is ErrorCode.unknown_member_id
    assert fetch(talk, "m-A", epoch - 1)[0] is ErrorCode.stale_member_epoch


def test_an_older_epoch_is_taken_for_what_the_member_has_had_since_then() -> None:
    talk = stable("A", "B")
    epoch = talk.client("A").epoch
    mine = [index for _, index in talk.client("A").owned]
    talk.leave("B")
    talk.beat("A")  # it has the other two from now on, in a later epoch
    assert talk.client("A").epoch == epoch + 1
    theirs = [index for index in range(4) if index not in mine]
    assert commit(talk, "m-A", epoch, *mine) == [ErrorCode.none] * 2
    assert commit(talk, "m-A", epoch, theirs[0]) == [ErrorCode.stale_member_epoch]
    refused = commit(talk, "m-A", epoch, mine[0], theirs[0])
    assert refused == [ErrorCode.stale_member_epoch] * 2  # one partition refuses the request


def test_a_partition_that_is_being_given_up_may_still_be_committed() -> None:
    talk = stable("A")
    talk.join("B")
    talk.beat("A")
    assert talk.owned("A") == [2]
    assert commit(talk, "m-A", talk.client("A").epoch, 0, 1, 2, 3) == [ErrorCode.none] * 4


def test_members_need_a_version_that_has_epochs() -> None:
    talk = stable("A")
    assert commit(talk, "m-A", talk.client("A").epoch, 0, version=8) == [
        ErrorCode.unsupported_version
    ]


def test_an_administrator_commits_while_the_group_is_empty() -> None:
    talk = stable("A")
    talk.leave("A")
    assert commit(talk, "", -1, 0) == [ErrorCode.none]


def test_offsets_that_were_there_before_the_group_stay() -> None:
    talk = ConsumerTalk()
    assert commit(talk, "", -1, 2) == [ErrorCode.none]
    talk.join("A")
    assert fetch(talk, "m-A", talk.client("A").epoch)[1] == [-1, -1, 7, -1]
    talk.failover(from_compacted=True)
    assert talk.beat("A").error_code is ErrorCode.none
    assert fetch(talk, None, -1)[1] == [-1, -1, 7, -1]


def test_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    talk = stable("A")
    commit(talk, "m-A", talk.client("A").epoch, 0)
    answer = talk.delete_offsets("a", 0)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.group_subscribed_to_topic
    talk.leave("A")
    answer = talk.delete_offsets("a", 0)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def test_an_empty_group_goes_with_its_last_expired_offset() -> None:
    talk = ConsumerTalk(
        {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    )
    talk.join("A")
    commit(talk, "m-A", talk.client("A").epoch, 0)
    for _ in range(4):
        talk.advance(30_000)
        talk.beat("A")
    assert fetch(talk, None, -1)[1][0] == 7  # subscribed: it stays
    talk.leave("A")
    talk.advance(2_000)
    assert fetch(talk, None, -1)[1][0] == -1
    assert "g" not in talk.context.groups
