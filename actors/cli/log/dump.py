"""``rollcall log dump``: the records of a partition in the log of a stopped coordinator."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cli import discovery
from actors.cli.session import note
from actors.errors import BadInputError, FailureError
from actors.telemetry.log_messages import plain
from failover.partition_kinds import CATALOG, GROUPS, KINDS, PARTITIONS_MAX, title_of

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Iterator

    from storage.disk.rocks import RocksLog
    from storage.log import Stored

NODE: Final = "node-"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall log``."""
    parser = subparsers.add_parser("log", help="read the log of a stopped coordinator")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    dump = actions.add_parser("dump", help="print the records of a partition; nothing is changed")
    dump.add_argument(
        "partition",
        metavar="PARTITION",
        help=f"a number (of {GROUPS.topic}), TOPIC-NUMBER, or {CATALOG.name}",
    )
    dump.add_argument("--data-dir", type=Path, metavar="DIR", help="the cluster's data directory")
    dump.add_argument(
        "--node", type=int, metavar="N", help="the coordinator's node id, if there are several"
    )
    dump.add_argument("--group", metavar="G", help="only the records of this group")
    dump.add_argument(
        "--offset", type=int, metavar="N", help="leave out the state and what is before this offset"
    )
    dump.add_argument("--max-records", type=int, metavar="N", help="stop after so many records")
    dump.add_argument("--json", action="store_true", help="print each record as a line of JSON")
    dump.set_defaults(run=dump_log)


def dump_log(args: Namespace) -> int:
    """Print the compacted state of a partition, then its log."""
    from actors.backup.stopped_log import check_stopped, opened_copy
    from actors.cli.log.records import log_rows
    from storage.log import LogError

    number = partition_number(args.partition)
    for flag, value in (("--offset", args.offset), ("--max-records", args.max_records)):
        if value is not None and value < 0:
            raise BadInputError(f"{flag} must be at least 0.")
    directory: Path = (args.data_dir or discovery.default_data_dir()).absolute()
    check_stopped(directory)
    node = _node(directory, args.node)
    try:
        with opened_copy(node) as log:
            stored = _stored(log, number, node)
            note(_about(number, node, stored))
            rows = log_rows(log, number, args.offset)
            wanted = (row for row in rows if args.group is None or row.get("group") == args.group)
            _print(islice(wanted, args.max_records), is_json=args.json)
    except LogError as error:
        raise FailureError(str(error)) from error
    return 0


def partition_number(text: str) -> int:
    """Read the name of a partition; raises BadInputError."""
    if text == CATALOG.name:
        return CATALOG.first
    topic, dash, index = text.rpartition("-")
    kind = next((each for each in KINDS if each.topic == (topic if dash else GROUPS.topic)), None)
    if kind is None or not index.isascii() or not index.isdigit() or len(index) > 7:
        topics = " or ".join(f"{each.topic}-0" for each in KINDS if each.topic)
        raise BadInputError(
            f"{text!r} is not a partition: give a number, {topics}, or the word {CATALOG.name}."
        )
    if int(index) >= PARTITIONS_MAX:
        raise BadInputError(f"There is no partition {index}.")
    return kind.number(int(index))


def _node(directory: Path, node_id: int | None) -> Path:
    found = {
        int(path.name.removeprefix(NODE)): path
        for path in directory.glob(f"{NODE}*")
        if path.name.removeprefix(NODE).isdecimal()
    }
    ids = ", ".join(map(str, sorted(found)))
    if not found:
        raise BadInputError(f"{directory} has no coordinator's log.")
    if node_id is None and len(found) > 1:
        raise BadInputError(f"{directory} has the logs of several coordinators: give --node {ids}.")
    if node_id is not None and node_id not in found:
        raise BadInputError(f"{directory} has no coordinator {node_id}, only {ids}.")
    return found[next(iter(found)) if node_id is None else node_id]


def _stored(log: RocksLog, number: int, node: Path) -> Stored:
    stored = log.stored(number)
    if not stored.end_offset:
        raise BadInputError(f"{node} has no records of {title_of(number)}.")
    return stored


def _about(number: int, node: Path, stored: Stored) -> str:
    voters = ", ".join(str(voter.node_id) for voter in stored.voters) or "as placed"
    return (
        f"{title_of(number)} in {node}: the state before offset {stored.applied_offset}, the log "
        f"from {stored.start_offset} to {stored.end_offset}, known to be committed up to "
        f"{stored.high_watermark}; epoch {stored.epoch}, voters {voters}"
    )


def _print(rows: Iterator[dict[str, Any]], *, is_json: bool) -> None:
    for row in rows:
        print(json.dumps(row) if is_json else _line(row))


def _line(row: dict[str, Any]) -> str:
    where = "state" if row["offset"] is None else f"{row['offset']} (epoch {row['epoch']})"
    words = [where, *([row["time"]] if row["time"] else []), row["type"], _fields(row["key"])]
    return plain(f"{' '.join(filter(None, words))} = {_fields(row['value'])}")


def _fields(value: object) -> str:
    """Write an object's fields as ``name=value``; nested ones as JSON. None is a tombstone."""
    if value is None:
        return "deleted"
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{name}={json.dumps(each)}" for name, each in value.items())
