"""What a node does while its disk is full: it keeps what it could not write, and takes on no more.

Reads, heartbeats and everything else that needs no record are answered as ever. What would need
one is refused with a retriable error before it changes anything. Records that were under way stay
here, in their order, and are tried again until there is room; whatever waits for them waits on.

To other nodes it says only what a leader may say before its own disk has the records: Raft counts
it as a holder of them no sooner than they are written. It gives no vote, and acknowledges no more
than the disk has, so a replica with room takes over or goes on without this one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from protocol.groups.effects import Reply
from protocol.wire import apis
from protocol.wire.errors import ErrorCode
from storage.log import AppendBatch, ApplyState, DropBefore, FullDiskError
from storage.messages import Append, Appended, InstallSnapshot, Leading, TransferLeadership

if TYPE_CHECKING:
    from failover.effects import Effects
    from failover.ports import LogPort
    from protocol.groups.effects import Request
    from protocol.wire.messages import ConsumerGroupHeartbeatRequest
    from storage.log import Write
    from storage.messages import Message

RETRY_MS: Final = 100
"""How often a full disk is tried again."""

SAYS_NOTHING_OF_OUR_DISK: Final = (Append, InstallSnapshot, TransferLeadership, Leading)

WRITES_RECORDS: Final = frozenset({8, 11, 13, 14, 42, 47})
"""OffsetCommit, JoinGroup, LeaveGroup, SyncGroup, DeleteGroups, OffsetDelete, by their API keys."""

CONSUMER_GROUP_HEARTBEAT: Final = 68
UNCHANGED: Final = timedelta(milliseconds=-1)


class Backlog:
    """Writes a host's effects to its log, and keeps what a full disk refuses."""

    def __init__(self, log: LogPort) -> None:
        self._log = log
        self._kept: list[Write] = []
        self._sync = False
        self.retry_ms: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether something waits for room on the disk."""
        return self.retry_ms is not None

    def write(self, effects: Effects, now: int) -> bool:
        """Write what a turn wants written; tell whether everything so far is on disk.

        If not, the messages that must not leave before that are taken out of ``effects``.
        """
        if not self.is_full:
            if not effects.writes:
                return True
            try:
                self._log.write(effects.writes, effects.sync)
            except FullDiskError as error:
                effects.notes.append(f"{error} What needs no record is answered as ever.")
                self.retry_ms = now + RETRY_MS
            else:
                return True
        self._kept += effects.writes
        self._sync = self._sync or effects.sync
        for node_id, messages in list(effects.messages.items()):
            told = (self._told(message) for message in messages)
            effects.messages[node_id] = [message for message in told if message is not None]
        return False

    def _told(self, message: Message) -> Message | None:
        """Return what may be told of a message now: of an acknowledgement, what the disk has.

        So a leader goes on hearing of its standbys, and keeps its lease, when their disks are full.
        """
        if isinstance(message, SAYS_NOTHING_OF_OUR_DISK):
            return message
        if not isinstance(message, Appended) or not message.accepted:
            return None
        end_offset = message.end_offset
        for write in self._kept:
            if write.partition != message.partition:
                continue
            if isinstance(write, AppendBatch):
                end_offset = min(end_offset, write.batch.base_offset)
            elif not isinstance(write, ApplyState | DropBefore):
                return None  # a vote, a truncation or a snapshot: it is to be on disk first
        return replace(message, end_offset=end_offset)

    def retry(self, now: int) -> bool:
        """Try again when it is time; tell whether everything is on disk now."""
        if self.retry_ms is None or now < self.retry_ms:
            return False
        try:
            self._log.write(self._kept, self._sync)
        except FullDiskError:
            self.retry_ms = now + RETRY_MS
            return False
        self._kept, self._sync, self.retry_ms = [], False, None
        return True

    def refusal(self, request: Request) -> Reply | None:
        """Return the answer to a request that may need a record, while there is no room for one."""
        if self.retry_ms is None or not needs_record(request):
            return None
        answer = apis.error_response(
            request.api_key,
            request.message,
            ErrorCode.coordinator_not_available,
            api_version=request.api_version,
        )
        return Reply(request.ticket, answer)


def needs_record(request: Request) -> bool:
    """Tell whether answering a request may take a record.

    A member of a consumer group that says nothing new needs none; to join, leave or change does.
    """
    if request.api_key != CONSUMER_GROUP_HEARTBEAT:
        return request.api_key in WRITES_RECORDS
    message = cast("ConsumerGroupHeartbeatRequest", request.message)
    says_nothing_new = (
        message.member_epoch > 0
        and message.rebalance_timeout == UNCHANGED
        and message.subscribed_topic_names is None
        and message.subscribed_topic_regex is None
        and message.topic_partitions is None
    )
    return not says_nothing_new
