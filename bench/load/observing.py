"""Looks at groups of a running cluster again and again, from a thread: members of others."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, Self

from actors.cli import admin
from actors.cli.client import AdminClient
from actors.cli.descriptions import describe_group
from actors.errors import CommandError
from bench.load.driver import now_ms
from failover.drills.observation import GroupSight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.cluster_client import Address

SHARE: Final = "share"
"""Groups of this type share partitions, and commit no offsets."""
LOOK_EVERY_S: Final = 0.25
ASK_S: Final = 1.0
"""A coordinator that has not answered by then is asked again."""
SIGHTS_MAX: Final = 20_000
"""Per group; after them only the newest is kept, so that a forgotten drill cannot fill memory."""


class GroupObserver:
    """Describes groups every ``LOOK_EVERY_S`` inside a ``with`` block."""

    def __init__(self, bootstrap: Sequence[Address], group_ids: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._group_ids = group_ids
        self._sights: dict[str, list[GroupSight]] = {each: [] for each in group_ids}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def sights(self) -> dict[str, list[GroupSight]]:
        """Return what was seen so far, by group."""
        with self._lock:
            return {group_id: list(seen) for group_id, seen in self._sights.items()}

    def is_stable(self) -> bool:
        """Whether the last sight of every group shows it Stable with members."""
        return not self.unstable_groups()

    def unstable_groups(self) -> list[str]:
        """Return, for each group that is not Stable with members, a sentence that says so."""
        with self._lock:
            last = {group_id: seen[-1:] for group_id, seen in self._sights.items()}
        return [
            f"Group {group_id} is {(seen[0].state if seen else None) or 'not described'}"
            f" with {len(seen[0].held) if seen else 0} members."
            for group_id, seen in last.items()
            if not seen or not seen[0].is_calm
        ]

    def counts(self) -> dict[str, int]:
        """Count the members by the state of their group."""
        found: Counter[str] = Counter()
        with self._lock:
            for last in (sight for seen in self._sights.values() for sight in seen[-1:]):
                found[last.state or "unknown"] += len(last.held)
        return dict(found)

    def _run(self) -> None:
        with AdminClient(self._bootstrap, ASK_S) as client:
            while not self._ended.is_set():
                began = time.monotonic()
                for group_id in self._group_ids:
                    self._keep(_look(client, group_id))
                took = time.monotonic() - began
                self._ended.wait(max(LOOK_EVERY_S, took))  # at most half of its time is asking

    def _keep(self, sight: GroupSight) -> None:
        with self._lock:
            seen = self._sights[sight.group_id]
            if len(seen) == SIGHTS_MAX:
                seen.pop()
            seen.append(sight)


def _look(client: AdminClient, group_id: str) -> GroupSight:
    try:
        group = describe_group(client, group_id)
        is_exclusive = group.group_type != SHARE
        committed = admin.committed_offsets(client, group_id) if is_exclusive else {}
    except CommandError:
        return GroupSight(group_id=group_id, time_ms=now_ms())
    return GroupSight(
        group_id=group_id,
        time_ms=now_ms(),
        state=group.state,
        epoch=group.epoch,
        held={
            each.instance_id or each.member_id: frozenset(each.assigned) for each in group.members
        },
        committed={at: each.offset for at, each in committed.items()},
        is_exclusive=is_exclusive,
        group_type=group.group_type,
    )
