"""``rollcall groups --reset-offsets`` and ``--delete-offsets``, for groups of every type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.internal_topics import STREAMS, delete_topics, internal_topics
from actors.cli.offsets.kinds import CLASSIC, DELETED, OFFSET_KINDS
from actors.cli.offsets.plans import as_csv, read_plan
from actors.cli.offsets.targets import FROM_COMMITTED, TARGETS, bounded
from actors.cli.offsets.times import duration_ms, timestamp_ms
from actors.cli.output.progress import WorkProgress
from actors.cli.session import FAILED, complain, note, show
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from actors.cli.client import AdminClient
    from actors.cli.offsets.kinds import OffsetKind
    from protocol.wire.embedded import TopicPartition

    Offsets = Mapping[TopicPartition, int]

FROM_FILE: Final = "from_file"


def add_offset_flags(parser: ArgumentParser) -> None:
    """Add the flags that select offsets and the new values."""
    parser.add_argument(
        "--topic",
        "--input-topic",
        action="append",
        default=[],
        metavar="T[:P,P...]",
        help="a topic, or some of its partitions; may be repeated",
    )
    parser.add_argument(
        "--all-topics",
        "--all-input-topics",
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
        "--to-datetime",
        type=timestamp_ms,
        metavar="TIME",
        help="reset to the first offset of a time: YYYY-MM-DDThh:mm:ss.sss, of UTC or with an"
        " offset such as +01:00",
    )
    parser.add_argument(
        "--by-duration",
        type=duration_ms,
        metavar="DURATION",
        help="reset to the first offset of so long ago: PnDTnHnMnS",
    )
    parser.add_argument(
        "--from-file",
        type=Path,
        metavar="FILE",
        help="reset to the offsets of a CSV file as --export writes it",
    )
    parser.add_argument(
        "--export", action="store_true", help="print the new offsets as CSV, for --from-file"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the new offsets (the default)"
    )
    parser.add_argument("--execute", action="store_true", help="reset the offsets")


def reset_offsets(client: AdminClient, group_ids: Sequence[str], args: Namespace) -> int:
    """Reset the offsets of groups without members, or show the new offsets.

    Of all groups, those that cannot be reset are reported, and the others are reset.
    """
    wanted = _wanted(args)
    known = {each.group_id: each for each in admin.list_groups(client, (), ())}
    rows: list[tuple[object, ...]] = []
    code = 0
    what = "resetting offsets" if args.execute else "looking for offsets"
    with WorkProgress(what, is_quiet=args.json) as progress:
        for number, group_id in enumerate(group_ids):
            progress.step(number, len(group_ids), "groups")
            try:
                new, failed = _reset(client, group_id, known.get(group_id), wanted, args)
            except ClientError as error:
                if not args.all_groups:
                    raise
                complain(str(error))
                new, failed = {}, FAILED
            rows += [(group_id, *partition, offset) for partition, offset in new.items()]
            code = code or failed
    if args.export:
        print(as_csv(rows, _only_group(args)), end="")
    else:
        show(args, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)
    if not args.execute:
        note("nothing is changed: add --execute to reset the offsets")
    return code


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The flag that says which offsets are wanted, and what is in its file, by group."""

    target: str
    plan: Mapping[str, Offsets]


def _wanted(args: Namespace) -> _Wanted:
    """Read what the flags ask for. Raises BadInputError."""
    given = {name: getattr(args, name) for name in (*TARGETS, FROM_FILE)}
    asked = [name for name, value in given.items() if value is not None and value is not False]
    if len(asked) != 1:
        flags = ", ".join(map(_flag, given))
        raise BadInputError(f"--reset-offsets needs one of {flags}")
    if args.dry_run and args.execute:
        raise BadInputError("give only one of --dry-run and --execute")
    if args.export and args.json:
        raise BadInputError("give only one of --export and --json")
    if asked != [FROM_FILE]:
        return _Wanted(asked[0], {})
    if args.topic or args.all_topics:
        raise BadInputError("--from-file names the partitions: leave out --topic and --all-topics")
    return _Wanted(FROM_FILE, read_plan(args.from_file, _only_group(args)))


def _only_group(args: Namespace) -> str | None:
    """Return the group if only one is asked for: rows of a file then need no group."""
    return None if args.all_groups or len(args.group) != 1 else args.group[0]


def _reset(
    client: AdminClient, group_id: str, group: Any | None, wanted: _Wanted, args: Namespace
) -> tuple[Offsets, int]:
    """Reset one group's offsets; return the new ones and an exit code."""
    _check_idle(group_id, group)
    group_type = _type_of(group, args)
    kind = OFFSET_KINDS[group_type]
    if kind.reset_by is not None and wanted.target not in kind.reset_by:
        flags = " or ".join(_flag(name) for name in sorted(kind.reset_by))
        raise ClientError(f"group {group_id} is a {group_type} group: give {flags}")
    offsets = _new_offsets(client, group_id, kind, wanted, args)
    if not args.execute:
        return offsets, 0
    if offsets:
        kind.reset(client, group_id, offsets)
    is_streams = group is not None and group_type == STREAMS
    topics = internal_topics(client, group_id, args) if is_streams else []
    return offsets, delete_topics(client, group_id, topics)


def _new_offsets(
    client: AdminClient, group_id: str, kind: OffsetKind, wanted: _Wanted, args: Namespace
) -> Offsets:
    if wanted.target == FROM_FILE:
        if group_id not in wanted.plan:
            raise ClientError(f"{args.from_file} has no offsets of group {group_id}")
        planned = wanted.plan[group_id]
        partitions: Sequence[TopicPartition] = _existing(
            client, list(admin.by_topic(planned).items())
        )
        kind.check(client, group_id, partitions)
        return bounded(planned, client)
    partitions = _selected(client, group_id, kind, args)
    kind.check(client, group_id, partitions)
    committed = kind.committed(client, group_id) if wanted.target in FROM_COMMITTED else {}
    return TARGETS[wanted.target](client, partitions, committed, args)


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


def _selected(
    client: AdminClient, group_id: str, kind: OffsetKind, args: Namespace
) -> Sequence[TopicPartition]:
    """Return the partitions that ``--topic`` or ``--all-topics`` selects."""
    if bool(args.topic) == args.all_topics:
        raise BadInputError("give either --topic or --all-topics")
    if args.all_topics:
        return kind.all_topics(client, group_id)
    return _existing(client, [_topic(text) for text in args.topic])


def _existing(
    client: AdminClient, wanted: Sequence[tuple[str, Sequence[int]]]
) -> Sequence[TopicPartition]:
    """Return these partitions of topics, or all of one without numbers; they must exist."""
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
