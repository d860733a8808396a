"""``rollcall backup``, ``restore`` and ``recover``: a cluster's state to a directory, and back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cli import discovery
from actors.cli.output.documents import add_json_flag, tell
from actors.cli.output.progress import WorkProgress
from actors.errors import BadInputError
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Mapping, Sequence

    from actors.backup.manifest import Manifest, PartitionFile
    from actors.cluster.spec import ClusterSpec
    from actors.coordinator.state_copies import CopySlice, CopyStart

LINE: Final = (
    "{partition}: {records} records, {bytes} bytes, offset {offset}, epoch {epoch}, {made}"
)


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall backup``, ``restore`` and ``recover``."""
    backup = subparsers.add_parser("backup", help="copy the state of a running cluster")
    backup.add_argument("directory", type=Path, metavar="DIR", help="a directory to create")
    backup.add_argument(
        "--verify", action="store_true", help="check an existing backup; no cluster is needed"
    )
    backup.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the cluster of this data directory"
    )
    backup.add_argument(
        "--address", metavar="auto|HOST:PORT", help="the cluster that runs on this Ray"
    )
    add_json_flag(backup, "what the backup holds")
    backup.set_defaults(run=_backup)
    restore = subparsers.add_parser("restore", help="make a new data directory from a backup")
    restore.add_argument("directory", type=Path, metavar="BACKUP", help="the backup")
    restore.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="the data directory to make (default: ./rollcall-data)",
    )
    restore.add_argument(
        "--replication-factor",
        type=int,
        metavar="N",
        help="replicas of each partition (default: as in the backup)",
    )
    restore.add_argument(
        "--address",
        metavar="auto|HOST:PORT",
        help="restore on the hosts of this Ray (default: on this machine)",
    )
    add_json_flag(restore, "what was made")
    restore.set_defaults(run=_restore)
    recover = subparsers.add_parser(
        "recover", help="make a backup of what is left after a majority is lost"
    )
    recover.add_argument(
        "directories", type=Path, nargs="+", metavar="DATA_DIR", help="what is left"
    )
    recover.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="the backup, a directory to create"
    )
    recover.add_argument(
        "--unsafe", action="store_true", help="required: acknowledged records may be missing"
    )
    add_json_flag(recover, "what was found")
    recover.set_defaults(run=_recover)


def _backup(args: Namespace) -> int:
    target: Path = args.directory.absolute()
    if args.verify:
        from actors.backup.files import verify

        with WorkProgress(f"verifying {target}", is_quiet=args.json):
            manifest = verify(target)
        show(args, manifest, target)
        return 0
    if target.exists():
        raise BadInputError(f"{target} already exists: choose another directory.")

    def question() -> Manifest:
        from actors.backup.collecting import make_backup
        from actors.deployment import actors

        leaders = RunningCluster(actors.running_spec())
        return make_backup(
            leaders, target, lambda done, total: progress.step(done, total, "partitions")
        )

    found = discovery.find_cluster(args.data_dir, args.address)
    with WorkProgress(f"copying to {target}", is_quiet=args.json) as progress:
        manifest = discovery.call_cluster(found, question)
    show(args, manifest, target)
    return 0


def _restore(args: Namespace) -> int:
    if args.replication_factor is not None and args.replication_factor < 1:
        raise BadInputError("--replication-factor must be at least 1.")
    target: Path = (args.data_dir or discovery.default_data_dir()).absolute()
    backup: Path = args.directory.absolute()
    command = f"rollcall up --data-dir {target}"
    hosts: Sequence[str] = ()
    with WorkProgress(f"restoring {target}", is_quiet=args.json) as progress:
        if args.address is None:
            from actors.backup.restoring import prepare, restore_here

            restoration = prepare(backup, args.replication_factor)
            restore_here(
                restoration, target, lambda done, total: progress.step(done, total, "nodes")
            )
        else:
            from actors.backup.host_restoring import restore_on_ray
            from actors.deployment.actors import connected

            with connected(args.address) as address:
                hosts = restore_on_ray(backup, target, args.replication_factor)
            command += f" --address {address}"
    where = f" on {', '.join(hosts)}" if hosts else ""
    document = {"data_dir": str(target), "hosts": list(hosts), "start": command}
    tell(args, f"{target} is restored{where}: start the cluster with `{command}`", document)
    return 0


def _recover(args: Namespace) -> int:
    from actors.backup.recovering import REPORT, recover

    if not args.unsafe:
        raise BadInputError(
            "What is left may lack records that were acknowledged. While a majority can come back, "
            "bring it back; as a last resort, add --unsafe."
        )
    target: Path = args.to.absolute()
    if target.exists():
        raise BadInputError(f"{target} already exists: choose another directory.")
    with WorkProgress(f"recovering to {target}", is_quiet=args.json):
        _, said = recover([path.absolute() for path in args.directories], target)
    last = f"{target} is a backup, for `rollcall restore`; {REPORT} in it says the same"
    document = {"backup": str(target), "report": REPORT, "found": said}
    tell(args, "\n".join((*said, last)), document)
    return 0


class RunningCluster:
    """The leaders of a running cluster (:class:`actors.backup.collecting.PartitionLeaders`)."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.cluster_id = spec.cluster_id
        self.partitions = spec.partitions
        self.replicas = spec.replicas_wanted

    def find(self) -> Mapping[int, int]:
        """Return the leader of each partition that has one."""
        from actors.deployment import actors
        from actors.deployment.status import partition_rows

        rows = partition_rows(actors.status())
        return {row["partition"]: row["leader"] for row in rows if row["leader"] is not None}

    def begin(self, node_id: int, partition: int) -> CopyStart:
        """Begin a copy at a partition's leader."""
        from actors.deployment import actors

        return actors.begin_copy(node_id, partition)

    def read(self, node_id: int, partition: int, copy_id: int) -> CopySlice:
        """Read on in a copy."""
        from actors.deployment import actors

        return actors.read_copy(node_id, partition, copy_id)


def show(args: Namespace, manifest: Manifest, backup: Path) -> None:
    """Print what a verified backup holds."""
    rows = [_row(each) for each in manifest.files]
    lines = (LINE.format_map(row) for row in rows)
    last = f"{backup} is complete and intact"
    text = "\n".join((f"cluster {manifest.cluster_id}", *lines, last))
    document = {"cluster_id": manifest.cluster_id, "backup": str(backup), "partitions": rows}
    tell(args, text, document)


def _row(file: PartitionFile) -> dict[str, Any]:
    return {
        "partition": title_of(file.partition),
        "records": file.records,
        "bytes": file.bytes,
        "offset": file.offset,
        "epoch": file.epoch,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(file.made_ms / 1_000)),
    }
