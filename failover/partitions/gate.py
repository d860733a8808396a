"""Holds each reply back until the records that it depends on are committed.

A reply waits for the last record *of its group*: records of other groups never delay it. An answer
that depends on every group (a listing) waits for the last record of any group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.groups.effects import CallShareState, Reply

    Held = Reply | CallShareState


class CommitGate:
    """One partition's waiting replies, by the end offset of the batch that each waits for."""

    def __init__(self) -> None:
        self._last_end = 0
        self._group_ends: dict[str, int] = {}
        self._waiting: dict[int, tuple[list[Held], list[str]]] = {}
        self._floor = 0

    def __len__(self) -> int:
        return sum(len(replies) for replies, _ in self._waiting.values())

    def wrote(self, end_offset: int, groups: Iterable[str]) -> None:
        """Note that a batch with records of ``groups`` was appended and ends at ``end_offset``."""
        names = list(groups)
        for group in names:
            self._group_ends[group] = end_offset
        self._waiting[end_offset] = ([], names)
        self._last_end = end_offset

    def raise_floor(self, end_offset: int) -> None:
        """Hold every reply until ``end_offset`` is committed (a new leader's first record)."""
        self.wrote(end_offset, ())
        self._floor = end_offset

    def pass_or_hold(self, reply: Held, groups: Sequence[str] | None) -> Held | None:
        """Return the reply if it may be sent now; it depends on ``groups``, or on all when None.

        A group's call of share coordinators is held like a reply.
        """
        if not self._waiting:
            return reply
        ends = self._group_ends
        if groups is None:
            end_offset = self._last_end
        elif len(groups) == 1:
            end_offset = ends.get(groups[0], self._floor)
        else:
            end_offset = max((ends.get(group, self._floor) for group in groups), default=0)
        waiting = self._waiting.get(end_offset)
        if waiting is None:
            return reply
        waiting[0].append(reply)
        return None

    def release(self, high_watermark: int) -> list[Held]:
        """Return the replies whose records are all committed, in log order."""
        free: list[Held] = []
        for end_offset in list(self._waiting):
            if end_offset > high_watermark:
                break
            replies, groups = self._waiting.pop(end_offset)
            free += replies
            for group in groups:
                if self._group_ends[group] == end_offset:
                    del self._group_ends[group]
        return free

    def waiting(self) -> list[Held]:
        """Return the replies that are held, and keep holding them."""
        return [reply for replies, _ in self._waiting.values() for reply in replies]

    def clear(self) -> list[Held]:
        """Stop holding: return every reply whose record will never be committed."""
        given_up = [reply for replies, _ in self._waiting.values() for reply in replies]
        self._waiting.clear()
        self._group_ends.clear()
        return given_up
