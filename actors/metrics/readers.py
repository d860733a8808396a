"""How rows of the table of metrics read their values from a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.metrics.row import Values


def counted(coordinator: Mapping[str, Any], name: str) -> Values:
    """Return a number that a coordinator counts."""
    found = (coordinator.get("metrics") or {}).get(name)
    return [] if found is None else [((), found)]


def by_label(coordinator: Mapping[str, Any], name: str) -> Values:
    """Return the numbers that a coordinator counts by a label."""
    found = (coordinator.get("metrics") or {}).get(name, {})
    return [((label,), count) for label, count in found.items()]


def by_group(coordinator: Mapping[str, Any], name: str) -> Values:
    """Return the values of single groups."""
    found = (coordinator.get("metrics") or {}).get(name, [])
    return [(tuple(labels), value) for *labels, value in found]


def series(coordinator: Mapping[str, Any], name: str) -> Values:
    """Return the series of a histogram."""
    found = (coordinator.get("metrics") or {}).get(name, [])
    return [(tuple(each["labels"]), each) for each in found]


def of_leader(status: Mapping[str, Any], name: str) -> Values:
    """Return a value of the leader of each partition that has one."""
    rows = [status[each] for each in ("catalog",) if each in status]
    rows += [*status.get("partitions", []), *status.get("share_state", [])]
    return [((title_of(row["partition"]),), row[name]) for row in rows if row.get(name) is not None]


def is_up(coordinator: Mapping[str, Any], _: str) -> Values:
    """Return whether a coordinator serves clients."""
    return [((), int(coordinator["state"] in ("Running", "Draining")))]


def led(coordinator: Mapping[str, Any], _: str) -> Values:
    """Return how many partitions of groups a coordinator leads."""
    return [((), len(coordinator["leads"]))]


def of_worker(worker: Mapping[str, Any], name: str) -> Values:
    """Return a value of a worker that answers."""
    return [((), worker[name])] if name in worker else []


def under_replicated(status: Mapping[str, Any], name: str) -> Values:
    """Return how many partitions are listed."""
    return [((), len(status[name]))]


def of_lag(status: Mapping[str, Any], name: str) -> Values:
    """Return what is known of the offsets of a watched cluster."""
    found = status.get("lag", {}).get(name, [])
    return [(tuple(labels), value) for *labels, value in found]
