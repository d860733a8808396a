"""The status that ``rollcall status`` shows, from the status of each coordinator."""

from __future__ import annotations

from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from actors.disk_words import disk_words
from actors.errors import ExitCode
from failover.control.log_loss import lost_majority
from failover.partition_kinds import CATALOG, GROUPS, PLACED, SHARE_STATE, kind_of, title_of
from failover.partitions.status import FOREVER_MS, PartitionStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.cluster.spec import ClusterSpec

    Row = dict[str, Any]

LEADER = "Leader"
SERVING: Final = frozenset({"Running", "Draining"})
PARTITION_FIELDS: Final = frozenset(field.name for field in fields(PartitionStatus))


def cluster_status(
    spec: ClusterSpec,
    pids: Sequence[int],
    statuses: Mapping[int, Mapping[str, Any]],
    workers: Sequence[Row],
) -> Row:
    """Return the cluster's status. ``statuses`` are by node id, without nodes that did not answer.

    ``pids`` are the last known process ids, by node id.
    """
    catalog = _partition(spec, CATALOG.first, statuses)
    rows = {
        kind: [_partition(spec, number, statuses) for number in kind.numbers(spec.partitions)]
        for kind in PLACED
    }
    return {
        "cluster_id": spec.cluster_id,
        "bootstrap": spec.bootstrap,
        "console": f"http://{spec.console}",
        "data_dir": spec.data_dir,
        "coordinators": [
            _coordinator(spec, node_id, pid, statuses.get(node_id))
            for node_id, pid in enumerate(pids)
        ],
        "workers": list(workers),
        "partitions": rows[GROUPS],
        "share_state": rows[SHARE_STATE],
        "catalog": catalog,
        "under_replicated": [
            row["partition"]
            for row in (catalog, *chain.from_iterable(rows.values()))
            if row["under_replicated"]
        ],
        "shortage": spec.shortage,
    }


def console_moved(wanted: int, url: str) -> str:
    """Return in one sentence that the console is not at its port; empty if it is, or has none."""
    if wanted in (0, urlsplit(url).port):
        return ""
    return (
        f"The console's port {wanted} cannot be used on its host: until the console starts again, "
        f"it is at {url}."
    )


def problems(spec: ClusterSpec, statuses: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each partition that can no longer elect a leader."""
    placed = (number for kind in PLACED for number in kind.numbers(spec.partitions))
    rows = (_partition(spec, number, statuses) for number in (CATALOG.first, *placed))
    return [row["problem"] for row in rows if "problem" in row]


def _coordinator(
    spec: ClusterSpec, node_id: int, pid: int, status: Mapping[str, Any] | None
) -> Row:
    place = spec.places[node_id]
    address = place.advertised
    row: Row = {
        "node_id": node_id,
        "pid": pid or None,
        "host": address.host,
        "port": address.port,
        "ray_host": place.ray_host or None,
        "leads": [],
        "stands_by": [],
        "state": "Restarting" if pid else "Starting",
    }
    if status is None:
        return row
    row |= {name: status[name] for name in ("pid", "state", "connections", "linked")}
    row["version"] = status.get("version", "unknown")
    row["levels"] = status.get("levels", {})
    row["link_versions"] = {str(one): used for one, used in status.get("link_versions", {}).items()}
    row["sync_ms"] = status.get("sync_ms", {})
    row["disk"] = status.get("disk", {})
    row["metrics"] = status.get("metrics", {})
    if "traces" in status:
        row["traces"] = status["traces"]
    if status["failure"]:
        row["failure"] = status["failure"]
    held = [one for one in status["partitions"] if kind_of(one["partition"]) is GROUPS]
    row["leads"] = [one["partition"] for one in held if one["state"] == LEADER]
    row["stands_by"] = [one["partition"] for one in held if one["state"] != LEADER]
    return row


def _partition(spec: ClusterSpec, number: int, statuses: Mapping[int, Mapping[str, Any]]) -> Row:
    """Return the status of a partition from its leader: the one with the highest epoch."""
    placement = spec.nodes_of(number)
    led = [
        (one["epoch"], node_id, one)
        for node_id, status in statuses.items()
        for one in status["partitions"]
        if one["partition"] == number and one["state"] == LEADER
    ]
    row: Row = {
        "partition": number,
        "leader": None,
        "epoch": None,
        "replicas": list(placement),
        "in_sync": [],
        "under_replicated": True,
    }
    if not led:
        reported = {
            node_id: partition_status(one)
            for node_id, status in statuses.items()
            for one in status["partitions"]
            if one["partition"] == number
        }
        if problem := lost_majority(placement, reported):
            row["problem"] = problem
        return row
    epoch, leader, said = max(led, key=lambda found: found[0])
    in_sync = sorted({leader, *said["in_sync"]} & {leader, *said["voters"]})
    return row | {
        "leader": leader,
        "epoch": epoch,
        "in_sync": in_sync,
        "learners": list(said["learners"]),
        "high_watermark": said["high_watermark"],
        "lease_ms": said["lease_ms"],
        "waiting_ms": said["waiting_ms"],
        "under_replicated": len(in_sync) < min(spec.replicas_wanted, len(placement)),
    }


def partition_status(row: Mapping[str, Any]) -> PartitionStatus:
    """Return what a coordinator says of a partition; what only a later version says is left out."""
    return PartitionStatus(**{name: row[name] for name in PARTITION_FIELDS & row.keys()})


def partition_rows(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of all partitions in a cluster's status: first the catalogue, then others."""
    return [status["catalog"], *status["partitions"], *status["share_state"]]


def exit_code(status: Mapping[str, Any]) -> ExitCode:
    """Return what ``rollcall status`` says by its exit code.

    A coordinator that is drained is no fault; workers restart often, and nobody waits for one.
    """
    if any(row["leader"] is None for row in partition_rows(status)):
        return ExitCode.NO_LEADER
    is_missed = any(row["state"] not in SERVING for row in status["coordinators"])
    problems = status["under_replicated"] or status["shortage"] or status.get("host_problems")
    return ExitCode.DEGRADED if is_missed or problems else ExitCode.OK


def as_text(status: Mapping[str, Any]) -> str:
    """Return the status as text."""
    lines = [
        f"cluster   {status['cluster_id']}",
        f"bootstrap {status['bootstrap']}",
        f"console   {status['console']}",
        f"data      {status['data_dir']}",
    ]
    lines += _traces(status["coordinators"])
    for row in status["coordinators"]:
        lines.append(
            f"coordinator {row['node_id']}: {row['state']}, process {row['pid'] or '-'}, "
            f"{row['host']}:{row['port']}{_host_of(row)}, leads {_listed(row['leads'])}, "
            f"stands by {_listed(row['stands_by'])}"
            + _sync_of(row)
            + _disk_of(row)
            + (f", {row['failure']}" if "failure" in row else "")
        )
    lines += _versions(status["coordinators"])
    for number, row in enumerate(status["workers"]):
        lines.append(
            f"assignor {number}: {row['state']}, process {row['pid'] or '-'}, "
            f"{row['runs']} runs, {row['waiting']} waiting"
        )
    for row in partition_rows(status)[1:]:
        leader = "none" if row["leader"] is None else row["leader"]
        lines.append(
            f"{title_of(row['partition'])}: leader {leader}, epoch {row['epoch']}, "
            f"in sync {_listed(row['in_sync'])} of {_listed(row['replicas'])}{_lease_of(row)}"
        )
    lines += [row["problem"] for row in partition_rows(status) if "problem" in row]
    if status["under_replicated"]:
        names = map(title_of, status["under_replicated"])
        lines.append(f"under-replicated: {', '.join(names)}")
    for host, nodes in status.get("hosts", {}).items():
        held = f"coordinators {_listed(nodes)}" if nodes else "no coordinators"
        lines.append(f"host {host}: {held}")
    lines += status.get("host_problems", ())
    if status.get("balance"):
        lines.append(status["balance"])
    if status["shortage"]:
        lines.append(f"{status['shortage']}.")
    return "\n".join(lines)


def _versions(coordinators: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line that says who runs which version, if not all run the same."""
    found: dict[str, list[int]] = {}
    for row in coordinators:
        if "version" in row:
            found.setdefault(row["version"], []).append(row["node_id"])
    if len(found) < 2:
        return []
    told = (f"{version} on coordinator {_listed(nodes)}" for version, nodes in found.items())
    return [f"versions: {'; '.join(told)}"]


def _traces(coordinators: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line that says where traces go, and whose last export has failed."""
    told = {row["node_id"]: row["traces"] for row in coordinators if "traces" in row}
    if not told:
        return []
    where: dict[str, list[int]] = {}
    for node_id, each in told.items():
        where.setdefault(each["go"], []).append(node_id)
    parts = [*where]
    if len(where) > 1:
        parts = [f"{go} from coordinator {_listed(nodes)}" for go, nodes in where.items()]
    failing = [node_id for node_id, each in told.items() if each["is_failing"]]
    if failing:
        parts.append(f"the last export of coordinator {_listed(failing)} failed, see its log")
    return [f"traces    {'; '.join(parts)}"]


def _sync_of(row: Mapping[str, Any]) -> str:
    times = row.get("sync_ms")
    return f", syncs take {times['p50']:g} ms, at most {times['max']:g}" if times else ""


def _disk_of(row: Mapping[str, Any]) -> str:
    words = disk_words(row.get("disk", {}))
    return f", {words}" if words else ""


def _host_of(row: Mapping[str, Any]) -> str:
    """Return the host, if clients do not get its address anyway."""
    host = row["ray_host"]
    return f" on {host}" if host and host != row["host"] else ""


def _lease_of(row: Mapping[str, Any]) -> str:
    """Return the state of the leader's lease; an idle leader has none."""
    if row["leader"] is None:
        return ""
    if row["waiting_ms"]:
        return f", NO LEASE: answers have waited for {row['waiting_ms']} ms"
    if row["lease_ms"] >= FOREVER_MS:
        return ""
    return f", lease for {row['lease_ms']} ms" if row["lease_ms"] else ", at rest without lease"


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
