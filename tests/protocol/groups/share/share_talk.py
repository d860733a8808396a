"""A conversation with one shard about share groups.

A client of a share group says nothing of what it has, and several of them may have the same
partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.wire.messages import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.protocol.groups.consumer.consumer_talk import ConsumerClient


@dataclass
class ShareTalk(ConsumerTalk):
    """One shard, the members of share groups that talk to it, and an assignor worker."""

    def configs(self) -> dict[str, str]:
        return {
            "group.share.assignor.offload.enable": str(not self.in_place).lower(),
            "group.share.assignment.interval.ms": str(self.interval_ms),
        }

    def join(
        self,
        name: str,
        topics: Sequence[str] | None = ("a",),
        regex: str | None = None,
        **more: Any,
    ) -> Any:
        assert regex is None
        client = self.client(name)
        client.member_id = more.pop("member_id", client.member_id or f"m-{client.name}")
        client.owned = NOTHING
        names = None if topics is None else tuple(topics)
        return self.heartbeat(name, member_epoch=0, subscribed_topic_names=names, **more)

    def beat(self, name: str, **more: Any) -> Any:
        return self.heartbeat(name, **more)

    def heartbeat(self, name: str, **fields: Any) -> Any:
        client = self.client(name)
        asked = {
            "group_id": GROUP,
            "member_id": client.member_id,
            "member_epoch": client.epoch,
            "rack_id": None,
            "subscribed_topic_names": None,
            **fields,
        }
        return self.say(client, ShareGroupHeartbeatRequest(**asked), 1)

    def learn(self, client: ConsumerClient, answer: Any) -> None:
        super().learn(client, answer)
        client.has_news = False

    def describe(self, group: str = GROUP, **more: Any) -> Any:
        """ShareGroupDescribe of one group."""
        message = ShareGroupDescribeRequest(
            group_ids=(group,), include_authorized_operations=more.get("operations", False)
        )
        return self.ask(message, 1).groups[0]
