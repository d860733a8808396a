"""Identifies each start of a directory, to tell a restored copy from the original.

A directory restored from a copy lacks votes and records that its replicas had promised to keep. It
looks like the original, so it must be recognised by what it does not know:

* Each start of a directory draws a random token, increments a number, and stores both before it
  answers anything (:meth:`Incarnation.next`).
* Each peer that has seen a start stores it in its own log (:class:`SeenIncarnations`) and reports
  it in the handshake of a link; a file next to the directory stores it too.
* A later start must descend from every start that was seen (:func:`descends`). A copy does not: it
  lacks the token of each start after the copy was made, however often it is started itself.
* A node sends and accepts no replica messages until its peers have checked its start
  (:class:`PeerConfirmation`).

Pure, for the coordinator and the simulator alike: tokens and time are arguments, and the caller
saves the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS_MAX: Final = 32
"""Number of starts sent in a handshake. A peer that has seen only older ones cannot judge, and
accepts: it was away for longer than that."""

DIRECTORIES_MAX: Final = 64
"""Number of directories remembered; those seen longest ago are forgotten first."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One start of a directory: its number, and the tokens of the last starts, its own last."""

    directory_id: str
    number: int = 0
    tokens: tuple[str, ...] = ()

    def next(self, token: str, more: int = 1) -> Incarnation:
        """Return the start after this one; with ``more`` above 1, peers cannot judge it."""
        tokens = (*self.tokens, token)[-TOKENS_MAX:] if more == 1 else (token,)
        return Incarnation(self.directory_id, self.number + more, tokens)

    @property
    def seen(self) -> SeenStart:
        """Return the part of this start that others remember."""
        return SeenStart(self.number, self.tokens[-1] if self.tokens else "")


@dataclass(frozen=True, slots=True)
class SeenStart:
    """A start that a peer remembers."""

    number: int
    token: str


def descends(claim: Incarnation, seen: SeenStart | None) -> bool:
    """Return whether a start is the seen one, or a later one of the same directory."""
    if seen is None:
        return True
    later = claim.number - seen.number
    if later < 0:
        return False
    if later >= len(claim.tokens):
        return True
    return claim.tokens[-1 - later] == seen.token


class SeenIncarnations:
    """The newest start of each directory that one process has seen."""

    def __init__(self, rows: Iterable[tuple[str, int, str]] = ()) -> None:
        """Restore from ``rows``, as returned by :meth:`rows`."""
        self._seen = {
            directory_id: SeenStart(number, token) for directory_id, number, token in rows
        }

    def rows(self) -> list[tuple[str, int, str]]:
        """Return all starts as plain values, those seen longest ago first."""
        return [(name, seen.number, seen.token) for name, seen in self._seen.items()]

    def judge(self, claim: Incarnation) -> bool:
        """Return whether ``claim`` may be its directory's newest state; False: an older copy."""
        return descends(claim, self._seen.get(claim.directory_id))

    def learn(self, claim: Incarnation) -> bool:
        """Store a start that was judged valid; return whether it is new and must be saved."""
        if self._seen.get(claim.directory_id) == claim.seen:
            return False
        self._seen.pop(claim.directory_id, None)
        self._seen[claim.directory_id] = claim.seen
        while len(self._seen) > DIRECTORIES_MAX:
            del self._seen[next(iter(self._seen))]
        return True


class PeerConfirmation:
    """Keeps a process silent after its start until its peers have judged its directory.

    All peers, or those that can be reached within ``patience_ms``: a peer that is down must not be
    waited for, or no cluster could start again without it.
    """

    def __init__(self, peers: Iterable[int], now: int, patience_ms: int) -> None:
        self._waiting = set(peers)
        self.until_ms = now + patience_ms

    def accepted(self, node_id: int) -> None:
        """Note that a peer accepts this process's directory as the newest state of it."""
        self._waiting.discard(node_id)

    def is_over(self, now: int) -> bool:
        """Return whether replica messages may be sent and accepted."""
        return not self._waiting or now >= self.until_ms
