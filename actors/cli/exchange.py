"""``rollcall import`` and ``rollcall export``: groups of a real Kafka to a backup, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.output.documents import add_json_flag
from actors.cli.output.progress import WorkProgress
from actors.cli.session import add_security_flag, note
from actors.client.security import read_security
from actors.errors import BadInputError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable

    from actors.backup.kafka_state import ImportedCluster
    from actors.cli.client import Address

PARTITIONS = "offsets.topic.num.partitions"
REPLICAS = "offsets.topic.replication.factor"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall import`` and ``rollcall export``."""
    parser = subparsers.add_parser("import", help="make a backup of a real Kafka's groups")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bootstrap-server", metavar="HOST:PORT", help="a running Kafka")
    source.add_argument(
        "--segments",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="copies of the log directories (log.dirs) of its brokers",
    )
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="the backup, a directory to create"
    )
    for flag, config, what in (
        ("--partitions", PARTITIONS, "partitions of __consumer_offsets, and coordinators"),
        ("--replication-factor", REPLICAS, "replicas of each partition"),
    ):
        parser.add_argument(flag, type=int, metavar="N", help=f"{what} (default: as {config})")
    add_security_flag(parser)
    add_json_flag(parser, "what the backup holds")
    parser.set_defaults(run=_import)
    export = subparsers.add_parser("export", help="write groups of a backup to a real Kafka")
    export.add_argument("directory", type=Path, metavar="BACKUP", help="the backup")
    export.add_argument(
        "--bootstrap-server", required=True, metavar="HOST:PORT", help="a running Kafka"
    )
    export.add_argument(
        "--group", action="append", default=[], metavar="ID", help="only this group; repeatable"
    )
    export.add_argument(
        "--offsets-only",
        action="store_true",
        help="commit the offsets as a client does, without members; nothing is restarted",
    )
    add_security_flag(export)
    add_json_flag(export, "what was written")
    export.set_defaults(run=_export)


def _import(args: Namespace) -> int:
    from actors.backup.kafka_state import write_import
    from actors.cli.backup import show
    from failover.partition_kinds import PARTITIONS_MAX
    from protocol.config import Configs

    defaults = Configs({})
    partitions = defaults.integer(PARTITIONS) if args.partitions is None else args.partitions
    factor = args.replication_factor
    replicas = defaults.integer(REPLICAS) if factor is None else factor
    if not 1 <= partitions <= PARTITIONS_MAX or replicas < 1:
        raise BadInputError("--partitions and --replication-factor must be at least 1.")
    target: Path = args.to.absolute()
    if target.exists():
        raise BadInputError(f"{target} already exists: choose another directory.")
    with WorkProgress(f"importing to {target}", is_quiet=args.json):
        manifest = write_import(_read(args), target, partitions, replicas)
    show(args, manifest, target)
    return 0


def _read(args: Namespace) -> ImportedCluster:
    if args.segments is not None:
        from actors.backup.kafka_directories import read_directories

        return read_directories([path.absolute() for path in args.segments], note)
    from actors.cli.kafka_logs import read_cluster

    security = read_security(args.command_config)
    with AdminClient(_addresses(args), security=security) as client:
        return read_cluster(client)


def _export(args: Namespace) -> int:
    from actors.backup.files import verify
    from actors.backup.selection import select
    from actors.cli.kafka_logs import ADMIN_CLIENT_ID, commit_all, write_all

    addresses, security = _addresses(args), read_security(args.command_config)
    backup: Path = args.directory.absolute()
    chosen = select(backup, verify(backup), args.group)
    with AdminClient(addresses, client_id=ADMIN_CLIENT_ID, security=security) as client:
        say: Callable[[str], object] = (lambda _line: None) if args.json else print
        write = commit_all if args.offsets_only else write_all
        document = write(client, chosen, say)
    if args.json:
        print(json.dumps(document))
    return 0


def _addresses(args: Namespace) -> list[Address]:
    try:
        return parse_bootstrap(args.bootstrap_server)
    except ValueError as error:
        raise BadInputError(str(error)) from None
