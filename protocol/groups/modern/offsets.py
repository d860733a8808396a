"""What all modern groups with committed offsets allow alike (KIP-848, KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.hard_state import ModernGroup
from protocol.groups.offsets.expiry import committed_ms
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.group_type import RetentionStart
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.wire.messages import OffsetFetchRequestGroup

EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit that carries member epochs."""


def check_fetch(ctx: Context, asked: OffsetFetchRequestGroup) -> None:
    """Refuse a request with an unknown member or an old epoch; allow requests without a member."""
    if asked.member_id is None and asked.member_epoch < 0:
        return
    group = ctx.groups[asked.group_id]
    assert isinstance(group, ModernGroup)
    member: ModernGroupMember = group.member(asked.member_id or "")
    if asked.member_epoch != member.assignment.epoch:
        raise KafkaError(member.stale_epoch)


def check_delete(_ctx: Context, _group_id: str) -> None:
    """Allow the deletion of single offsets: the coordinator knows what the group subscribes to."""


def retention_start(_ctx: Context, _group_id: str) -> RetentionStart:
    """Keep each offset from the time at which it was committed."""
    return committed_ms
