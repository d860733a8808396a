"""``rollcall groups --reset-offsets`` and ``--delete-offsets``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.session import FAILED, note, show
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors.cli.admin import CommittedOffset
    from actors.cli.client import AdminClient
    from protocol.wire.embedded import TopicPartition

    Offsets = Mapping[TopicPartition, int]


def add_offset_flags(parser: ArgumentParser) -> None:
    """Add the flags that select offsets and the new values."""
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T[:P,P...]",
        help="a topic, or some of its partitions; may be repeated",
    )
    parser.add_argument(
        "--all-topics",
        action="store_true",
        help="all topics for which the group has committed offsets",
    )
    parser.add_argument("--to-offset", type=int, metavar="N", help="reset to this offset")
    parser.add_argument(
        "--shift-by",
        type=int,
        metavar="N",
        help="add N to the committed offsets; N may be negative",
    )
    parser.add_argument("--to-earliest", action="store_true", help="reset to the earliest offset")
    parser.add_argument("--to-latest", action="store_true", help="reset to the latest offset")
    parser.add_argument(
        "--to-current", action="store_true", help="reset to the current committed offset"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the new offsets (the default)"
    )
    parser.add_argument("--execute", action="store_true", help="reset the offsets")


def reset_offsets(client: AdminClient, group_ids: Sequence[str], args: Namespace) -> int:
    """Reset committed offsets of groups without members, or show the new offsets."""
    given = {name: getattr(args, name) for name in TARGETS}
    asked = [name for name, value in given.items() if value is not None and value is not False]
    if len(asked) != 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in TARGETS)
        raise BadInputError(f"--reset-offsets needs one of {flags}")
    if args.dry_run and args.execute:
        raise BadInputError("give only one of --dry-run and --execute")
    target = TARGETS[asked[0]]
    rows = []
    for group_id in group_ids:
        _check_idle(client, group_id)
        committed = admin.committed_offsets(client, group_id)
        partitions = _partitions(client, committed, args)
        offsets = target(client, partitions, committed, args)
        if args.execute and offsets:
            admin.commit_offsets(client, group_id, offsets)
        rows += [(group_id, *partition, offset) for partition, offset in offsets.items()]
    show(args, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)
    if not args.execute:
        note("nothing is changed: add --execute to reset the offsets")
    return 0


def delete_offsets(client: AdminClient, group_id: str, args: Namespace) -> int:
    """Delete a group's committed offsets of some partitions."""
    if not args.topic:
        raise BadInputError("--delete-offsets needs at least one --topic")
    partitions = _partitions(client, admin.committed_offsets(client, group_id), args)
    results = admin.delete_offsets(client, group_id, partitions)
    rows = [
        (*partition, "deleted" if code == ErrorCode.none else admin.said(code))
        for partition, code in results.items()
    ]
    show(args, ("TOPIC", "PARTITION", "STATUS"), rows)
    return FAILED if any(results.values()) else 0


def _check_idle(client: AdminClient, group_id: str) -> None:
    """Refuse a group that has members; a group that does not exist is accepted."""
    for group in admin.list_groups(client, (), ()):
        if group.group_id == group_id and group.group_state not in ("Empty", "Dead"):
            raise ClientError(
                f"the offsets of group {group_id} cannot be reset while it has members "
                f"(its state is {group.group_state})"
            )


def _partitions(
    client: AdminClient, committed: Iterable[TopicPartition], args: Namespace
) -> list[TopicPartition]:
    """Return the partitions that ``--topic`` or ``--all-topics`` selects."""
    if bool(args.topic) == args.all_topics:
        raise BadInputError("give either --topic or --all-topics")
    if args.all_topics:
        return sorted(committed)
    wanted = [_topic(text) for text in args.topic]
    known = {topic.name: topic for topic in client.metadata([n for n, _ in wanted]).topics}
    found: set[TopicPartition] = set()
    for name, numbers in wanted:
        topic = known[name]
        if topic.error_code != ErrorCode.none:
            raise ClientError(f"topic {name}: {admin.said(topic.error_code)}")
        existing = {each.partition_index for each in topic.partitions}
        for number in numbers:
            if number not in existing:
                raise ClientError(f"topic {name} has no partition {number}")
        found.update((name, number) for number in numbers or existing)
    return sorted(found)


def _topic(text: str) -> tuple[str, list[int]]:
    """Read ``topic`` or ``topic:0,1``."""
    name, colon, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if colon else []
    if not name or not all(part.isdecimal() for part in parts):
        raise BadInputError(f"{text!r} is not a topic: give T or T:P,P...")
    return name, [int(part) for part in parts]


def _bounded(offsets: Offsets, client: AdminClient) -> Offsets:
    """Limit offsets to the range of the log, with a note, as Kafka's tool does."""
    firsts = admin.offsets_at(client, offsets, admin.EARLIEST)
    ends = admin.offsets_at(client, offsets, admin.LATEST)
    bounded = {}
    for (topic, number), offset in offsets.items():
        first, end = firsts.get((topic, number), 0), ends.get((topic, number), offset)
        bounded[topic, number] = max(min(offset, end), first)
        if offset < first:
            note(f"{topic}-{number}: {offset} is before the earliest offset, using {first}")
        elif offset > end:
            note(f"{topic}-{number}: {offset} is after the latest offset, using {end}")
    return bounded


def _to_offset(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, args: Namespace
) -> Offsets:
    return _bounded(dict.fromkeys(partitions, args.to_offset), client)


def _shift_by(
    client: AdminClient,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    args: Namespace,
) -> Offsets:
    shifted = {
        partition: committed[partition].offset + args.shift_by
        for partition in partitions
        if partition in committed
    }
    return _bounded(shifted, client)


def _to_earliest(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, _args: Namespace
) -> Offsets:
    return admin.offsets_at(client, partitions, admin.EARLIEST)


def _to_latest(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, _args: Namespace
) -> Offsets:
    return admin.offsets_at(client, partitions, admin.LATEST)


def _to_current(
    client: AdminClient,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    _args: Namespace,
) -> Offsets:
    """Keep committed offsets; use the latest offset where there is none."""
    without = [partition for partition in partitions if partition not in committed]
    ends = admin.offsets_at(client, without, admin.LATEST)
    return {
        partition: committed[partition].offset if partition in committed else ends[partition]
        for partition in partitions
        if partition in committed or partition in ends
    }


TARGETS: Final[Mapping[str, Callable[..., Offsets]]] = {
    "to_offset": _to_offset,
    "shift_by": _shift_by,
    "to_earliest": _to_earliest,
    "to_latest": _to_latest,
    "to_current": _to_current,
}
