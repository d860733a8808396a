"""``rollcall groups``: list, describe, delete; flags as in ``kafka-consumer-groups.sh``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError, shown
from actors.cli.descriptions import describe_group
from actors.cli.offsets import add_offset_flags, delete_offsets, reset_offsets
from actors.cli.session import (
    FAILED,
    add_connection_flags,
    complain,
    connected,
    group_events,
    note,
    show,
)
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.client import AdminClient
    from actors.cli.descriptions import GroupDescription, MemberDescription
    from protocol.wire.embedded import TopicPartition

STATES: Final = (
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance",
    "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)
TYPES: Final = ("classic", "consumer", "share", "streams")

DESCRIBED: Final = frozenset({"classic", "consumer", ""})
"""The types that ``--all-groups`` selects; brokers before ListGroups 5 return ""."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall groups``."""
    parser = subparsers.add_parser(
        "groups", help="list, describe and delete groups; reset and delete offsets"
    )
    add_connection_flags(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("list", "list all groups"),
        ("describe", "show a group's offsets, members, state or events"),
        ("delete", "delete groups without members"),
        ("reset-offsets", "reset the committed offsets of groups without members"),
        ("delete-offsets", "delete a group's committed offsets of some topics"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=text)
    parser.add_argument("--group", action="append", default=[], metavar="G", help="a group id")
    parser.add_argument("--all-groups", action="store_true", help="all groups")
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATES",
        help="with --list: show the states, or list only these; with --describe: show the state",
    )
    parser.add_argument(
        "--type",
        nargs="?",
        const="",
        metavar="TYPES",
        help="with --list: show the types, or list only these",
    )
    parser.add_argument(
        "--offsets", action="store_true", help="with --describe: show the offsets (the default)"
    )
    parser.add_argument("--members", action="store_true", help="with --describe: show the members")
    parser.add_argument(
        "--events",
        action="store_true",
        help="with --describe: show which members joined and left, and why (KIP-800)",
    )
    parser.add_argument("--verbose", action="store_true", help="show more columns")
    add_offset_flags(parser)
    parser.set_defaults(run=connected(groups))


def groups(client: AdminClient, args: Namespace) -> int:
    """Run the action that the flags select."""
    return ACTIONS[args.action](client, args)


def _list(client: AdminClient, args: Namespace) -> int:
    states, types = _filter(args.state, STATES), _filter(args.type, TYPES)
    found = admin.list_groups(client, states, types)
    columns: list[tuple[str, Callable[[Any], object]]] = [("GROUP", lambda g: g.group_id)]
    if args.type is not None:
        columns.append(("TYPE", lambda g: g.group_type))
    if args.state is not None:
        columns.append(("STATE", lambda g: g.group_state))
    if len(columns) == 1 and not args.json:
        for group in found:
            print(group.group_id)
        return 0
    show(args, [name for name, _ in columns], [[get(g) for _, get in columns] for g in found])
    return 0


def _filter(text: str | None, known: Sequence[str]) -> list[str]:
    """Read a comma-separated filter; case does not matter."""
    names = {name.lower(): name for name in known}
    wanted = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    for each in wanted:
        if each not in names:
            raise BadInputError(f"{each!r} is not one of {', '.join(known)}")
    return [names[each] for each in wanted]


def _describe(client: AdminClient, args: Namespace) -> int:
    views = {
        "offsets": args.offsets,
        "members": args.members,
        "state": args.state is not None,
        "events": args.events,
    }
    asked = [name for name, is_asked in views.items() if is_asked]
    if len(asked) > 1:
        raise BadInputError(f"give only one of {', '.join(f'--{name}' for name in asked)}")
    if args.state:
        raise BadInputError("--describe --state takes no list of states")
    view = VIEWS[asked[0] if asked else "offsets"]
    code = 0
    for number, group_id in enumerate(named_groups(client, args)):
        if number and not args.json:
            print()
        try:
            view(client, group_id, args)
        except ClientError as error:
            complain(str(error))
            code = FAILED
    return code


def named_groups(client: AdminClient, args: Namespace) -> list[str]:
    """Return the groups that ``--group`` or ``--all-groups`` selects."""
    if bool(args.group) == args.all_groups:
        raise BadInputError("give either --group or --all-groups")
    if args.all_groups:
        found = admin.list_groups(client, (), ())
        return [group.group_id for group in found if group.group_type in DESCRIBED]
    return list(args.group)


def _offsets(client: AdminClient, group_id: str, args: Namespace) -> None:
    group = describe_group(client, group_id)
    _say_idle(group)
    committed = admin.committed_offsets(client, group_id)
    owners = _owners(group)
    partitions = sorted(committed.keys() | owners.keys())
    ends = admin.offsets_at(client, partitions, admin.LATEST)
    header = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    header += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    rows = []
    for partition in partitions:
        offset, end = committed.get(partition), ends.get(partition)
        lag = end - offset.offset if offset is not None and end is not None else None
        owner = owners.get(partition)
        row = [group_id, *partition, offset and offset.offset, end, lag, *_who(owner)]
        if args.verbose:
            row.insert(3, offset.leader_epoch if offset and offset.leader_epoch >= 0 else None)
        rows.append(row)
    if args.verbose:
        header.insert(3, "LEADER-EPOCH")
    show(args, header, rows)


def _members(client: AdminClient, group_id: str, args: Namespace) -> None:
    group = describe_group(client, group_id)
    _say_idle(group)
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows: list[list[object]] = []
    for member in group.members:
        row: list[object] = [group_id, member.member_id, member.instance_id]
        row += [member.host, member.client_id, len(member.assigned)]
        if args.verbose:
            row += [member.epoch, _shortly(member.assigned)]
            row += [group.target_epoch, _shortly(member.target or ())]
            if group.is_mixed:
                row.append(str(member.is_upgraded).lower())
        rows.append(row)
    if args.verbose:
        header += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        header += ["UPGRADED"] if group.is_mixed else []
    show(args, header, rows)


def _state(client: AdminClient, group_id: str, args: Namespace) -> None:
    group = describe_group(client, group_id)
    _say_idle(group)
    node_id, address = client.coordinator(group_id)
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row: list[object] = [group_id, f"{shown(address)} ({node_id})", group.assignor, group.state]
    if args.verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [group.epoch, group.target_epoch]
    show(args, [*header, "#MEMBERS"], [[*row, len(group.members)]])


def _events(client: AdminClient, group_id: str, args: Namespace) -> None:
    node_id, _ = client.coordinator(group_id)
    header = ["GROUP", "TIME", "EVENT", "CONSUMER-ID", "GROUP-INSTANCE-ID", "CLIENT-ID", "HOST"]
    rows = [
        (
            group_id,
            datetime.fromtimestamp(event.time_ms / 1_000, UTC).isoformat(timespec="milliseconds"),
            event.kind,
            event.member_id,
            event.group_instance_id,
            event.client_id,
            event.client_host,
            event.reason,
        )
        for event in group_events(args, node_id, group_id)
    ]
    show(args, [*header, "REASON"], rows)


def _say_idle(group: GroupDescription) -> None:
    if group.state == "Empty":
        note(f"group {group.group_id} has no active members")
    elif group.state in REBALANCING:
        note(f"group {group.group_id} is rebalancing")


def _owners(group: GroupDescription) -> dict[TopicPartition, MemberDescription]:
    return {partition: member for member in group.members for partition in member.assigned}


def _who(member: MemberDescription | None) -> list[str | None]:
    if member is None:
        return [None, None, None]
    return [member.member_id, member.host, member.client_id]


def _shortly(partitions: Sequence[TopicPartition]) -> str | None:
    """Write partitions as Kafka's tool does: ``orders:0,1;payments:0``; None for none."""
    return (
        ";".join(
            f"{topic}:{','.join(map(str, numbers))}"
            for topic, numbers in admin.by_topic(partitions).items()
        )
        or None
    )


def _delete(client: AdminClient, args: Namespace) -> int:
    code = 0
    for group_id in named_groups(client, args):
        error = admin.delete_group(client, group_id)
        if error == ErrorCode.none:
            print(f"group {group_id} is deleted")
        else:
            complain(f"group {group_id} is not deleted: {admin.said(error)}")
            code = FAILED
    return code


def _reset_offsets(client: AdminClient, args: Namespace) -> int:
    return reset_offsets(client, named_groups(client, args), args)


def _delete_offsets(client: AdminClient, args: Namespace) -> int:
    if args.all_groups or len(args.group) != 1:
        raise BadInputError("--delete-offsets takes exactly one --group")
    return delete_offsets(client, args.group[0], args)


VIEWS: Final[Mapping[str, Callable[[AdminClient, str, Namespace], None]]] = {
    "offsets": _offsets,
    "members": _members,
    "state": _state,
    "events": _events,
}
ACTIONS: Final[Mapping[str, Callable[[AdminClient, Namespace], int]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset_offsets,
    "delete-offsets": _delete_offsets,
}
