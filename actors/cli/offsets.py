"""``rollcall groups --reset-offsets`` and ``--delete-offsets``, for groups of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.internal_topics import STREAMS, delete_topics, internal_topics
from actors.cli.offset_kinds import CLASSIC, DELETED, OFFSET_KINDS
from actors.cli.session import FAILED, complain, note, show
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.admin import CommittedOffset
    from actors.cli.client import AdminClient
    from actors.cli.offset_kinds import OffsetKind
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
        help="all topics for which the group has offsets; all input topics of a streams group",
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
    """Reset the offsets of groups without members, or show the new offsets.

    Of all groups, those that cannot be reset are reported, and the others are reset.
    """
    given = {name: getattr(args, name) for name in TARGETS}
    asked = [name for name, value in given.items() if value is not None and value is not False]
    if len(asked) != 1:
        flags = ", ".join(map(_flag, TARGETS))
        raise BadInputError(f"--reset-offsets needs one of {flags}")
    if args.dry_run and args.execute:
        raise BadInputError("give only one of --dry-run and --execute")
    known = {each.group_id: each for each in admin.list_groups(client, (), ())}
    rows: list[tuple[object, ...]] = []
    code = 0
    for group_id in group_ids:
        try:
            new, failed = _reset(client, group_id, known.get(group_id), asked[0], args)
        except ClientError as error:
            if not args.all_groups:
                raise
            complain(str(error))
            new, failed = {}, FAILED
        rows += [(group_id, *partition, offset) for partition, offset in new.items()]
        code = code or failed
    show(args, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)
    if not args.execute:
        note("nothing is changed: add --execute to reset the offsets")
    return code


def _reset(
    client: AdminClient, group_id: str, group: Any | None, target: str, args: Namespace
) -> tuple[Offsets, int]:
    """Reset one group's offsets; return the new ones and an exit code."""
    _check_idle(group_id, group)
    group_type = _type_of(group, args)
    kind = OFFSET_KINDS[group_type]
    if kind.reset_by is not None and target not in kind.reset_by:
        flags = " or ".join(_flag(name) for name in sorted(kind.reset_by))
        raise ClientError(f"group {group_id} is a {group_type} group: give {flags}")
    partitions = _partitions(client, group_id, kind, args)
    committed = kind.committed(client, group_id) if target in FROM_COMMITTED else {}
    offsets = TARGETS[target](client, partitions, committed, args)
    if not args.execute:
        return offsets, 0
    if offsets:
        kind.reset(client, group_id, offsets)
    is_streams = group is not None and group_type == STREAMS
    topics = internal_topics(client, group_id, args) if is_streams else []
    return offsets, delete_topics(client, group_id, topics)


def delete_offsets(client: AdminClient, group_id: str, args: Namespace) -> int:
    """Delete a group's offsets of some partitions, or of some topics if it is a share group."""
    if not args.topic and not args.all_topics:
        raise BadInputError("--delete-offsets needs at least one --topic")
    known = {each.group_id: each for each in admin.list_groups(client, (), ())}
    kind = OFFSET_KINDS[_type_of(known.get(group_id), args)]
    if kind.by_topic and any(":" in text for text in args.topic):
        raise BadInputError("the offsets of a share group are deleted by topic: give --topic T")
    results = kind.delete(client, group_id, _selected(client, group_id, kind, args))
    if kind.by_topic:
        show(args, ("TOPIC", "STATUS"), [(name, said) for (name, _), said in results.items()])
    else:
        rows = [(*partition, said) for partition, said in results.items()]
        show(args, ("TOPIC", "PARTITION", "STATUS"), rows)
    return FAILED if any(said != DELETED for said in results.values()) else 0


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _type_of(group: Any | None, args: Namespace) -> str:
    """Return a listed group's type; of one that does not exist, what ``--type`` says.

    Brokers before ListGroups 5 tell no types: their groups are classic ones.
    """
    said = (args.type or CLASSIC) if group is None else (group.group_type or CLASSIC)
    group_type = str(said).strip().lower()
    if group_type not in OFFSET_KINDS:
        raise BadInputError(f"{said!r} is not one of {', '.join(OFFSET_KINDS)}")
    return group_type


def _check_idle(group_id: str, group: Any | None) -> None:
    """Refuse a group that has members; a group that does not exist is accepted."""
    if group is not None and group.group_state not in ("Empty", "Dead"):
        raise ClientError(
            f"the offsets of group {group_id} cannot be reset while it has members "
            f"(its state is {group.group_state})"
        )


def _partitions(
    client: AdminClient, group_id: str, kind: OffsetKind, args: Namespace
) -> Sequence[TopicPartition]:
    """Return the partitions to reset."""
    partitions = _selected(client, group_id, kind, args)
    kind.check(client, group_id, partitions)
    return partitions


def _selected(
    client: AdminClient, group_id: str, kind: OffsetKind, args: Namespace
) -> Sequence[TopicPartition]:
    """Return the partitions that ``--topic`` or ``--all-topics`` selects."""
    if bool(args.topic) == args.all_topics:
        raise BadInputError("give either --topic or --all-topics")
    if args.all_topics:
        return kind.all_topics(client, group_id)
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
FROM_COMMITTED: Final = frozenset({"shift_by", "to_current"})
"""The targets that begin with the committed offsets."""
