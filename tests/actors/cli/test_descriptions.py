"""Descriptions of groups: share groups and streams groups are shown like the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from actors.cli.client import ClientError
from actors.cli.descriptions import describe_group
from tests.protocol.groups.conversation import GROUP, Conversation
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk

if TYPE_CHECKING:
    from actors.cli.client import AdminClient


class Talking:
    """The part of an administrator's client that asks a group's coordinator."""

    def __init__(self, talk: Conversation[Any]) -> None:
        self._talk = talk

    def ask_coordinator(self, _group_id: str, request: Any, _codes: object) -> Any:
        """Ask the shard."""
        return self._talk.ask(request, request.__version__)


def test_a_streams_group_is_described_with_its_active_tasks() -> None:
    talk = StreamsTalk({"group.streams.num.standby.replicas": "1"})
    client = cast("AdminClient", Talking(talk))
    with pytest.raises(ClientError, match="does not exist"):
        describe_group(client, GROUP)
    talk.join("A")
    found = describe_group(client, GROUP)
    assert (found.state, found.epoch, found.target_epoch, found.is_mixed) == ("Stable", 2, 2, False)
    (member,) = found.members
    assert (member.member_id, member.epoch) == ("A", 2)
    assert member.assigned == member.target == (("0", 0), ("0", 1), ("0", 2))


def test_a_share_group_is_described_with_its_members_partitions() -> None:
    talk = ShareTalk({"group.coordinator.rebalance.protocols": "classic"})
    client = cast("AdminClient", Talking(talk))
    with pytest.raises(ClientError, match="does not exist"):
        describe_group(client, GROUP)
    talk.join("A", ("b",))
    talk.beat("A")
    found = describe_group(client, GROUP)
    epoch = talk.client("A").epoch
    assert (found.state, found.assignor) == ("Stable", "simple")
    assert (found.epoch, found.target_epoch) == (epoch, epoch)
    (member,) = found.members
    assert (member.member_id, member.epoch, member.target) == ("m-A", epoch, None)
    assert member.assigned == (("b", 0), ("b", 1))
