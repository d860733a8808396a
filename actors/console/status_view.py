"""The status of a cluster of ours, as the console's page of the cluster shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.console.source import Cluster, ShownNode, ShownPartition, Worker
from actors.disk_words import disk_words
from failover.partition_kinds import title_of
from failover.partitions.status import FOREVER_MS
from protocol.stories.sentence import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

SERVING: Final = frozenset({"Running", "Draining"})


def cluster_of(status: Row) -> Cluster:
    """Return the cluster."""
    rows = (status["catalog"], *status["partitions"], *status["share_state"])
    return Cluster(
        cluster_id=status["cluster_id"],
        bootstrap=status["bootstrap"],
        nodes=[_node(row) for row in status["coordinators"]],
        partitions=[_partition(row) for row in rows],
        workers=[
            Worker(
                name=f"assignor {number}",
                state=row["state"],
                runs=row["runs"],
                waiting=row["waiting"],
            )
            for number, row in enumerate(status["workers"])
        ],
        problems=tuple(_problems(status, rows)),
    )


def _node(row: Row) -> ShownNode:
    sync_ms = row.get("sync_ms") or {}
    facts = {
        "Process": str(row["pid"] or ""),
        "Leads": _listed(row["leads"]),
        "Stands by": _listed(row["stands_by"]),
        "Connections": str(row.get("connections", "")),
        "Disk syncs (median, longest)": (
            f"{sync_ms['p50']:g} ms, {sync_ms['max']:g} ms" if sync_ms else ""
        ),
        "Disk": disk_words(row.get("disk", {})),
        "Version": str(row.get("version", "")),
    }
    if row.get("ray_host"):
        facts["Host"] = row["ray_host"]
    return ShownNode(
        node_id=row["node_id"],
        address=f"{row['host']}:{row['port']}",
        state=row["state"],
        facts=facts,
    )


def _partition(row: Row) -> ShownPartition:
    return ShownPartition(
        title=title_of(row["partition"]),
        number=row["partition"],
        leader=row["leader"],
        epoch=row["epoch"],
        replicas=tuple(row["replicas"]),
        in_sync=tuple(row["in_sync"]),
        remark="; ".join(_remarks(row)),
    )


def _remarks(row: Row) -> Iterator[str]:
    if row["leader"] is None:
        return
    if row["waiting_ms"]:
        yield f"no lease: answers have waited for {seconds(row['waiting_ms'])}"
    elif row["lease_ms"]:
        if row["lease_ms"] < FOREVER_MS:
            yield "lease held"
    else:
        yield "at rest, without lease"
    if row.get("learners"):
        yield f"catching up: {_listed(row['learners'])}"
    yield f"records: {row['high_watermark']:,}"


def _problems(status: Row, rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if "problem" in row:
            yield row["problem"]
        elif row["leader"] is None:
            yield f"{title_of(row['partition'])} has no leader."
    if status["under_replicated"]:
        yield f"Under-replicated: {', '.join(map(title_of, status['under_replicated']))}."
    for row in status["coordinators"]:
        if "failure" in row:
            yield f"Coordinator {row['node_id']}: {row['failure']}"
        elif row["state"] not in SERVING:
            yield f"Coordinator {row['node_id']} does not serve: {row['state']}."
    if status["shortage"]:
        yield f"{status['shortage']}."
    yield from status.get("host_problems", ())


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
