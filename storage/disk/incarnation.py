"""Which start of a directory this is: so that a copy put back is not taken for the original.

A directory that was restored from a copy has forgotten votes and records that its replicas had
promised to keep. It looks like the original, so it must be told apart by what it does not know:

* Each start of a directory draws a random token, counts one more, and writes both down before
  anything is answered (:meth:`Incarnation.next`).
* Each peer that has seen a start stores it in its own log (:class:`SeenIncarnations`) and says so
  in the handshake of a link; a file beside the directory stores it too.
* A later start must descend from every start that was seen (:func:`descends`). A copy does not: it
  lacks the token of each start after it was made, however often it is started itself.
* A node sends and takes no message of a replica until its peers have checked its start
  (:class:`PeerConfirmation`).

Pure, for the coordinator and the simulator alike: tokens and time are arguments, and saving is the
caller's part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS_MAX: Final = 32
"""So many starts are told in a handshake. Who has seen only older ones cannot judge, and accepts:
it was away for longer than that."""

DIRECTORIES_MAX: Final = 64
"""So many directories are remembered; the ones that were seen longest ago are forgotten first."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One start of a directory: its number, and the tokens of the last starts, its own last."""

    directory_id: str
    number: int = 0
    tokens: tuple[str, ...] = ()

    def next(self, token: str, more: int = 1) -> Incarnation:
        """Return the start after this one; ``more`` than 1 leaves the others unable to judge."""
        tokens = (*self.tokens, token)[-TOKENS_MAX:] if more == 1 else (token,)
        return Incarnation(self.directory_id, self.number + more, tokens)

    @property
    def seen(self) -> SeenStart:
        """What others remember of this start."""
        return SeenStart(self.number, self.tokens[-1] if self.tokens else "")


@dataclass(frozen=True, slots=True)
class SeenStart:
    """A start that somebody remembers."""

    number: int
    token: str


def descends(claim: Incarnation, seen: SeenStart | None) -> bool:
    """Say whether a start is the one that was seen, or comes after it in the same directory."""
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
        """``rows`` are what :meth:`rows` gave before."""
        self._seen = {
            directory_id: SeenStart(number, token) for directory_id, number, token in rows
        }

    def rows(self) -> list[tuple[str, int, str]]:
        """Return all of it as plain values, what was seen longest ago first."""
        return [(name, seen.number, seen.token) for name, seen in self._seen.items()]

    def judge(self, claim: Incarnation) -> bool:
        """Say whether ``claim`` may be the newest state of its directory; False: an older copy."""
        return descends(claim, self._seen.get(claim.directory_id))

    def learn(self, claim: Incarnation) -> bool:
        """Remember a start that was judged well; tell whether that is new and has to be saved."""
        if self._seen.get(claim.directory_id) == claim.seen:
            return False
        self._seen.pop(claim.directory_id, None)
        self._seen[claim.directory_id] = claim.seen
        while len(self._seen) > DIRECTORIES_MAX:
            del self._seen[next(iter(self._seen))]
        return True


class PeerConfirmation:
    """Keeps a process that has just started silent until its peers have judged its directory.

    All of them, or those that can be reached within ``patience_ms``: a peer that is down cannot be
    waited for, or no cluster could start again without it.
    """

    def __init__(self, peers: Iterable[int], now: int, patience_ms: int) -> None:
        self._waiting = set(peers)
        self.until_ms = now + patience_ms

    def accepted(self, node_id: int) -> None:
        """Learn that a peer takes this process's directory for the newest state of it."""
        self._waiting.discard(node_id)

    def is_over(self, now: int) -> bool:
        """Whether messages of replicas may be sent and taken."""
        return not self._waiting or now >= self.until_ms
