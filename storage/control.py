"""Control records: records about the log itself. They are never replayed into a machine."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgpack
from kio.schema.leader_change_message.v0 import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter
from kio.serial import entity_writer

from storage.messages import ReplicaKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.batch import Batch

LEADER_CHANGE_KEY = b"\x00\x00\x00\x02"
"""A control record's key: version 0, type 2 (LEADER_CHANGE), as Kafka writes it."""

VOTERS_CHANGE_KEY = b"\x00\x00\x00\x06"
"""Type 6 is Kafka's KRAFT_VOTERS. The value is ours: Kafka's names a listener of each voter."""

_write_leader_change = entity_writer(LeaderChangeMessage)


def leader_change(leader_id: int, voters: Sequence[int]) -> bytes:
    """Return the value of a LeaderChange record, as Kafka writes it."""
    members = tuple(Voter(voter_id=voter) for voter in voters)
    message = LeaderChangeMessage(
        version=0, leader_id=leader_id, voters=members, granting_voters=members
    )
    with io.BytesIO() as buffer:
        _write_leader_change(buffer, message)
        return buffer.getvalue()


def voters_change(voters: Sequence[ReplicaKey]) -> bytes:
    """Return the value of a VotersChange record: all voters from this record on."""
    packed: bytes = msgpack.packb([0, [(voter.node_id, voter.directory_id) for voter in voters]])
    return packed


def voters_in(batch: Batch) -> tuple[ReplicaKey, ...] | None:
    """Return the voters that a batch sets; None if it is not a VotersChange."""
    if not batch.control or batch.records[0][0] != VOTERS_CHANGE_KEY:
        return None
    _, voters = msgpack.unpackb(batch.records[0][1])
    return tuple(ReplicaKey(node_id, directory_id) for node_id, directory_id in voters)
