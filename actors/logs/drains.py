"""The end of a drain as a log line: where the leaderships went."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from actors.logs.orders import named
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def drain_message(node_id: int, leaders: Mapping[int, int | None]) -> str:
    """Return in one sentence who leads the partitions that a drained coordinator led.

    None: the partition stays there, or its new leader was not seen yet.
    """
    new = Counter(leader for leader in leaders.values() if leader is not None)
    went = ", ".join(f"{count} to coordinator {leader}" for leader, count in sorted(new.items()))
    stay = [title_of(number) for number, leader in leaders.items() if leader is None]
    told = [f"its {len(leaders)} leaderships went to others, {went}"] if went else []
    if went and stay:
        told = [f"{new.total()} of its {len(leaders)} leaderships went to others, {went}"]
    if stay:
        told.append(f"no new leader is known of {named(stay)}")
    return f"coordinator {node_id} is drained: {'; '.join(told) or 'it led nothing'}"
