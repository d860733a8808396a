"""Which peers a process is linked to, and whether they have checked its directory yet.

Until then its replicas neither send nor receive (:mod:`storage.disk.incarnation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.disk.incarnation import PeerConfirmation

if TYPE_CHECKING:
    from collections.abc import Iterable


class DirectoryCheck:
    """The links of one life and the peers that check it; times are true ones."""

    def __init__(self, peers: Iterable[int] = (), now: int = 0, patience_ms: int = 0) -> None:
        self._vouching = PeerConfirmation(tuple(peers), now, patience_ms)
        self._linked: set[int] = set()
        self._has_spoken = False

    def may_speak(self, now: int) -> bool:
        """Whether all peers have checked the directory, or have had their time."""
        return self._vouching.is_over(now)

    def link_changed(self, node_id: int, is_up: bool) -> None:
        """Note that a link came up or broke."""
        if is_up:
            self._linked.add(node_id)
        else:
            self._linked.discard(node_id)

    def accepted(self, node_id: int) -> None:
        """Note that a peer accepts the directory as its newest state."""
        self._vouching.accepted(node_id)

    def begin_to_speak(self, now: int) -> list[int]:
        """Return the linked peers the first time that the process may send, else none."""
        if self._has_spoken or not self.may_speak(now):
            return []
        self._has_spoken = True
        return sorted(self._linked)
