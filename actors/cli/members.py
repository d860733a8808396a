"""``rollcall members``: remove members in one batch, static ones by instance id (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.descriptions import describe_group
from actors.cli.session import (
    FAILED,
    add_connection_flags,
    complain,
    connected,
    tell_done,
    tell_failed,
)
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import MemberIdentity

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction

    from actors.cli.client import AdminClient

HEADER: Final = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "STATUS")


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall members``."""
    parser = subparsers.add_parser("members", help="remove members from a group")
    add_connection_flags(parser)
    parser.add_argument("--remove", action="store_true", required=True, help="remove members")
    parser.add_argument("--group", required=True, metavar="G", help="the group id")
    parser.add_argument(
        "--instance-id",
        action="append",
        default=[],
        metavar="I",
        help="the instance id of a static member; may be repeated",
    )
    parser.add_argument(
        "--member-id",
        action="append",
        default=[],
        metavar="M",
        help="the id of a member; may be repeated",
    )
    parser.add_argument(
        "--all", "--all-members", dest="all_members", action="store_true",
        help="all members of the group",
    )  # fmt: skip
    parser.add_argument(
        "--reason",
        default=admin.REMOVED,
        help="the reason to store with the removal (default: %(default)s)",
    )
    parser.set_defaults(run=connected(remove))


def remove(client: AdminClient, args: Namespace) -> int:
    """Remove the selected members with one LeaveGroup; each has its own result."""
    wanted = _wanted(client, args)
    if not wanted:
        if not args.json:
            print(f"group {args.group} has no members")
        return 0
    code = 0
    results = admin.remove_members(client, args.group, wanted)
    for member, error in zip(wanted, results, strict=True):
        name = _name(member)
        row = (args.group, member.member_id or None, member.group_instance_id)
        if error == ErrorCode.none:
            done = f"{name} is removed from group {args.group}"
            tell_done(args, done, HEADER, (*row, "removed"))
        else:
            code = FAILED
            why = admin.said(error)
            complain(f"{name} is not removed from group {args.group}: {why}")
            tell_failed(args, HEADER, (*row, why))
    return code


def _wanted(client: AdminClient, args: Namespace) -> list[MemberIdentity]:
    named = [MemberIdentity(member_id="", group_instance_id=i) for i in args.instance_id]
    named += [MemberIdentity(member_id=m, group_instance_id=None) for m in args.member_id]
    if bool(named) == args.all_members:
        raise BadInputError("give either --instance-id and --member-id, or --all")
    if args.all_members:
        named = [
            MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id)
            for each in describe_group(client, args.group).members
        ]
    return [
        MemberIdentity(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            reason=args.reason,
        )
        for each in named
    ]


def _name(member: MemberIdentity) -> str:
    if member.group_instance_id is not None:
        return f"instance {member.group_instance_id}"
    return f"member {member.member_id}"
