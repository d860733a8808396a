"""``rollcall groups --describe``: tables for each type of group, with Kafka's columns.

Classic and consumer groups are shown as by ``kafka-consumer-groups.sh``, share groups as by
``kafka-share-groups.sh``, streams groups as by ``kafka-streams-groups.sh``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.cli import admin
from actors.cli.client import shown
from actors.cli.descriptions import describe_group
from actors.cli.session import note, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.client import AdminClient
    from actors.cli.descriptions import GroupDescription, MemberDescription
    from protocol.wire.embedded import TopicPartition

    View: TypeAlias = Callable[[AdminClient, GroupDescription, Namespace], None]

REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)


BLANK: Final = " "
"""What Kafka's tool prints for a member without an instance id."""


def show_group(client: AdminClient, group_id: str, view: str, args: Namespace) -> None:
    """Print a group's "offsets", "members" or "state"; raises ClientError if there is none."""
    group = describe_group(client, group_id)
    _say_idle(group)
    VIEWS[group.group_type][view](client, group, args)


def _offsets(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    committed = admin.committed_offsets(client, group.group_id)
    owners = _owners(group)
    partitions = sorted(committed.keys() | owners.keys())
    ends = admin.offsets_at(client, partitions, admin.LATEST)
    epochs, rows = [], []
    for partition in partitions:
        offset, end = committed.get(partition), ends.get(partition)
        lag = end - offset.offset if offset is not None and end is not None else None
        who = _who(owners.get(partition))
        epochs.append(offset.leader_epoch if offset and offset.leader_epoch >= 0 else None)
        rows.append([group.group_id, *partition, offset and offset.offset, end, lag, *who])
    columns = ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    _show_partitions(args, columns, rows, epochs)


def _show_partitions(
    args: Namespace,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    epochs: Sequence[int | None],
) -> None:
    """Print a row for each of a group's partitions; with ``--verbose``, its leader epoch too."""
    header = ["GROUP", "TOPIC", "PARTITION", *columns]
    if args.verbose:
        header.insert(3, "LEADER-EPOCH")
        rows = [[*row[:3], epoch, *row[3:]] for row, epoch in zip(rows, epochs, strict=True)]
    _show_rows(args, header, rows)


def _show_rows(args: Namespace, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; without rows Kafka's tools print no heading either."""
    if rows or args.json:
        show(args, header, rows)


def _members(_client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    has_instances = args.json or any(member.instance_id for member in group.members)
    if has_instances:  # as in Kafka's tool, which leaves out a column without values
        header.insert(2, "GROUP-INSTANCE-ID")
    rows: list[list[object]] = []
    for member in group.members:
        row: list[object] = [group.group_id, member.member_id]
        if has_instances:
            row.append(member.instance_id or (None if args.json else BLANK))
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


def _state(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    node_id, address = client.coordinator(group.group_id)
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row: list[object] = [
        group.group_id,
        f"{shown(address)} ({node_id})",
        group.assignor,
        group.state,
    ]
    if args.verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [group.epoch, group.target_epoch]
    show(args, [*header, "#MEMBERS"], [[*row, len(group.members)]])


def _share_offsets(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    found = admin.share_offsets(client, group.group_id)
    if not found:
        note(f"group {group.group_id} has no offset information")
    rows = [[group.group_id, *where, start.offset, start.lag] for where, start in found.items()]
    epochs = [start.leader_epoch for start in found.values()]
    _show_partitions(args, ["START-OFFSET", "LAG"], rows, epochs)


def _share_members(_client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    rows: list[list[object]] = []
    for member in sorted(group.members, key=lambda each: each.member_id):
        row: list[object] = [group.group_id, member.member_id, member.host, member.client_id]
        row += [len(member.assigned), _shortly(member.assigned)]
        if args.verbose:
            row.insert(5, member.epoch)
        rows.append(row)
    if args.verbose:
        header.insert(5, "MEMBER-EPOCH")
    _show_rows(args, header, rows)


def _share_state(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    _modern_state(client, group, args, "ASSIGNMENT-EPOCH")


def _streams_offsets(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    """Show the source and repartition topics' partitions of the members' active tasks."""
    partitions = sorted(
        {
            (topic, index)
            for member in group.members
            for subtopology, index in member.assigned
            for topic in group.sources.get(subtopology, ())
        }
    )
    committed = admin.committed_offsets(client, group.group_id)
    firsts = admin.offsets_at(client, partitions, admin.EARLIEST)
    ends = admin.offsets_at(client, partitions, admin.LATEST)
    header = ["GROUP", "TOPIC", "PARTITION"]
    rows: list[list[object]] = []
    for partition in partitions:
        offset, first, end = committed.get(partition), firsts.get(partition), ends.get(partition)
        start = first if offset is None else offset.offset
        row: list[object] = [group.group_id, *partition]
        if args.verbose:
            row += [offset and offset.offset]
            row += [offset.leader_epoch if offset and offset.leader_epoch >= 0 else None, end]
        rows.append([*row, None if start is None or end is None else end - start])
    if args.verbose:
        header += ["CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"]
    _show_rows(args, [*header, "OFFSET-LAG"], rows)


def _streams_members(_client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    header = ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    rows: list[list[object]] = []
    for member in group.members:
        who: list[object] = [member.process_id, member.client_id]
        if args.verbose:
            known = [group.target_epoch, group.topology_epoch, member.member_id]
            protocol = "classic" if member.is_upgraded is False else "streams"
            tasks = {**member.tasks, **{f"TARGET-{k}": v for k, v in member.target_tasks.items()}}
            rows.append([group.group_id, *known, protocol, member.epoch, *who, _roles(tasks)])
        else:
            rows.append([group.group_id, member.member_id, *who, _roles(member.tasks)])
    if args.verbose:
        header[1:2] = ["TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL"]
        header.insert(5, "MEMBER-EPOCH")
    _show_rows(args, header, rows)


def _streams_state(client: AdminClient, group: GroupDescription, args: Namespace) -> None:
    _modern_state(client, group, args, "TARGET-ASSIGNMENT-EPOCH")


def _modern_state(
    client: AdminClient, group: GroupDescription, args: Namespace, target_epoch: str
) -> None:
    node_id, address = client.coordinator(group.group_id)
    header = ["GROUP", "COORDINATOR (ID)", "STATE"]
    row: list[object] = [group.group_id, f"{shown(address)} ({node_id})", group.state]
    if args.verbose:
        header += ["GROUP-EPOCH", target_epoch]
        row += [group.epoch, group.target_epoch]
    show(args, [*header, "#MEMBERS"], [[*row, len(group.members)]])


def _roles(tasks: Mapping[str, Sequence[TopicPartition]]) -> str:
    """Write tasks as Kafka's tool does: ``ACTIVE: 0:[0,1]; STANDBY: 1:[0];``."""
    parts = []
    for role, those in tasks.items():
        names = [
            f"{subtopology}:[{','.join(map(str, indexes))}];"
            for subtopology, indexes in admin.by_topic(those).items()
        ]
        parts += [f"{role}:", *names] if names else []
    return " ".join(parts)


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


_PARTITIONS: Final[Mapping[str, View]] = {
    "offsets": _offsets,
    "members": _members,
    "state": _state,
}
VIEWS: Final[Mapping[str, Mapping[str, View]]] = MappingProxyType(
    {
        "classic": _PARTITIONS,
        "consumer": _PARTITIONS,
        "share": {
            "offsets": _share_offsets,
            "members": _share_members,
            "state": _share_state,
        },
        "streams": {
            "offsets": _streams_offsets,
            "members": _streams_members,
            "state": _streams_state,
        },
    }
)
"""The views of each type of group."""
