"""``rollcall groups``: list, describe, delete; flags as in ``kafka-consumer-groups.sh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.events import show_events
from actors.cli.group_views import show_group
from actors.cli.internal_topics import add_topic_flags, delete_topics, internal_topics
from actors.cli.offsets.reset import add_offset_flags, delete_offsets, reset_offsets
from actors.cli.session import (
    FAILED,
    add_connection_flags,
    complain,
    connected,
    show,
    tell_done,
    tell_failed,
)
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.client import AdminClient

STATUS: Final = ("GROUP", "STATUS")
STATES: Final = (
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance",
    "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
TYPES: Final = ("classic", "consumer", "share", "streams")


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
        help="with --list: show the types, or list only these; with --reset-offsets: the type of a"
        " group that does not exist yet",
    )
    parser.add_argument(
        "--offsets", action="store_true", help="with --describe: show the offsets (the default)"
    )
    parser.add_argument("--members", action="store_true", help="with --describe: show the members")
    parser.add_argument(
        "--events",
        action="store_true",
        help="with --describe: show the rebalances, and which members joined and left, and why"
        " (KIP-800)",
    )
    parser.add_argument("--verbose", action="store_true", help="show more columns")
    add_offset_flags(parser)
    add_topic_flags(parser)
    parser.set_defaults(run=connected(groups))


def groups(client: AdminClient, args: Namespace) -> int:
    """Run the action that the flags select."""
    return ACTIONS[args.action](client, args)


def _list(client: AdminClient, args: Namespace) -> int:
    states, types = _filter(args.state, STATES), _filter(args.type, TYPES)
    found = admin.list_groups(client, states, types)
    columns: list[tuple[str, Callable[[Any], object]]] = [("GROUP", lambda g: g.group_id)]
    if args.type is not None:
        columns.append(("TYPE", lambda g: g.group_type if args.json else g.group_type.capitalize()))
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
    view = asked[0] if asked else "offsets"
    code = 0
    for number, group_id in enumerate(named_groups(client, args)):
        if number and not args.json:
            print()
        try:
            if view == "events":
                show_events(client, group_id, args)
            else:
                show_group(client, group_id, view, args)
        except ClientError as error:
            complain(str(error))
            code = FAILED
    return code


def named_groups(client: AdminClient, args: Namespace) -> list[str]:
    """Return the groups, of every type, that ``--group`` or ``--all-groups`` selects."""
    if bool(args.group) == args.all_groups:
        raise BadInputError("give either --group or --all-groups")
    if args.all_groups:
        return [each.group_id for each in admin.list_groups(client, (), ())]
    return list(args.group)


def _delete(client: AdminClient, args: Namespace) -> int:
    code = 0
    for group_id in named_groups(client, args):
        topics = _internal_topics(client, group_id, args)
        error = admin.delete_group(client, group_id)
        if error == ErrorCode.none:
            tell_done(args, f"group {group_id} is deleted", STATUS, (group_id, "deleted"))
            code = delete_topics(client, group_id, topics) or code
        else:
            complain(f"group {group_id} is not deleted: {admin.said(error)}")
            code = FAILED
            tell_failed(args, STATUS, (group_id, admin.said(error)))
    return code


def _internal_topics(client: AdminClient, group_id: str, args: Namespace) -> list[str]:
    """Return the internal topics to delete with a group: they are known only before."""
    if args.delete_internal_topic:
        raise BadInputError("--delete-internal-topic goes with --reset-offsets")
    if not args.delete_all_internal_topics:
        return []
    try:
        return internal_topics(client, group_id, args)
    except ClientError:
        return []  # DeleteGroups says what is wrong with the group


def _reset_offsets(client: AdminClient, args: Namespace) -> int:
    return reset_offsets(client, named_groups(client, args), args)


def _delete_offsets(client: AdminClient, args: Namespace) -> int:
    if args.all_groups or len(args.group) != 1:
        raise BadInputError("--delete-offsets takes exactly one --group")
    return delete_offsets(client, args.group[0], args)


ACTIONS: Final[Mapping[str, Callable[[AdminClient, Namespace], int]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset_offsets,
    "delete-offsets": _delete_offsets,
}
