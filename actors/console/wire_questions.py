"""What the console asks coordinators over the Kafka protocol, as administrators do.

Every call blocks; :mod:`actors.console.rollcall` makes them on threads. It imports this module when
somebody first looks at groups, since messages take a second to import.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import AdminClient, ClientError, UnreachableError
from actors.cli.descriptions import NO_GROUP, describe_group
from actors.cli.stories import ask, ask_leader
from actors.console.source import GroupDetail, ListedGroup, Member, Offset, SourceError
from failover.apis.looks import GROUPS_FROM, LOOK
from failover.catalogue.cluster_view import BROKER, GROUP
from failover.led_groups import LedGroup
from protocol.groups.group_type import GroupLook
from protocol.stories.under_way import under_way_sentence
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import MemberIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.cli.client import Address
    from actors.cli.descriptions import GroupDescription, MemberDescription
    from actors.cli.stories import Answered
    from protocol.wire.embedded import TopicPartition

CLIENT_ID: Final = "rollcall-console"
STREAMS: Final = "streams"
LIST_S: Final = 10.0
"""How long all pages of one node's groups may take."""


class WireQuestions:
    """The connections of one thread; ``nodes`` are the nodes' addresses by id.

    ``timeout_s`` is how long a node may be silent. Everything raises :class:`SourceError`.
    """

    def __init__(self, nodes: Sequence[Address], timeout_s: float) -> None:
        self.nodes = nodes
        self._client = AdminClient(nodes, timeout_s, CLIENT_ID)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def rows(self, node_id: int) -> Sequence[ListedGroup]:
        """Return the groups that a node leads; some that come or go meanwhile may be missed."""
        found: dict[str, ListedGroup] = {}
        start, deadline_s = 0, time.monotonic() + LIST_S
        while start >= 0:
            if time.monotonic() > deadline_s:
                raise SourceError(f"Node {node_id} did not list its groups in {LIST_S:g} s.")
            page = self._own_entry(node_id, BROKER, str(node_id), f"{GROUPS_FROM}{start}")
            with _readable(node_id):
                for row in page["groups"]:
                    group = LedGroup(*row[: len(LedGroup._fields)])
                    found[group.group_id] = ListedGroup(**group._asdict())
                start = page["next"]
        return list(found.values())

    def look(self, node_id: int, group_id: str) -> GroupLook | None:
        """Return a group as a node's memory has it; None if the node does not lead it."""
        found = self._own_entry(node_id, GROUP, group_id, LOOK)
        if found is None:
            return None
        with _readable(node_id):
            return GroupLook(*(found[name] for name in GroupLook._fields))

    def _own_entry(self, node_id: int, resource_type: int, name: str, key: str) -> Any:
        """Return the value of an entry that only a Rollcall node has."""
        ask = partial(
            admin.own_entry,
            self._client,
            self.nodes[node_id],
            (resource_type, name),
            key,
            f"Node {node_id} does not answer",  # another one is at its address
        )
        try:
            try:
                text = ask()
            except UnreachableError:  # the node has closed the connection, as nobody looked
                text = ask()
        except ClientError as error:
            raise SourceError(f"{error}.") from None
        with _readable(node_id):
            return json.loads(text or "")

    def group(
        self, group_id: str, probable_type: str = "", recent: GroupDetail | None = None
    ) -> GroupDetail | None:
        """Return a group, without what a look has; None if there is nothing of it.

        Offsets, and partitions of topics, are not asked for again if a ``recent`` answer has them;
        only the leader is asked for stories then, unless some were missing.
        """
        try:
            return self._group(group_id, probable_type, recent)
        except ClientError as error:
            raise SourceError(f"{error}.") from None

    def remove(self, group_id: str, member: Member, reason: str) -> None:
        """Remove a member, a static one by its instance id."""
        identity = MemberIdentity(
            member_id=member.member_id,
            group_instance_id=member.instance_id or None,
            reason=reason,
        )
        try:
            (code,) = admin.remove_members(self._client, group_id, [identity])
        except ClientError as error:
            raise SourceError(f"{error}.") from None
        if code != ErrorCode.none:
            raise SourceError(f"The member is not removed: {admin.said(code)}.")

    def _group(
        self, group_id: str, probable_type: str, recent: GroupDetail | None
    ) -> GroupDetail | None:
        client = self._client
        found = self._described(group_id, probable_type)
        answered = None
        if recent is not None and not recent.notes:
            answered = ask_leader(client, group_id, recent.stories)
        if answered is None:
            answered = ask(client, group_id)
        if found is None and not answered.stories:
            return None
        offsets: Sequence[Offset] = ()
        if found is not None:
            offsets = self._offsets(group_id) if recent is None else recent.offsets
        members = () if found is None else found.members
        rows = [_member(found, each) for each in members]
        topics = {topic for each in members for topic, _ in _units(each)}
        topics |= {each.unit.rpartition("-")[0] for each in offsets}
        if found is not None and found.group_type == STREAMS:
            units = [unit for row in rows for unit in (*row.owned, *(row.target or ()))]
        elif recent is not None and topics <= {each.rpartition("-")[0] for each in recent.units}:
            units = list(recent.units)
        else:
            units = self._partitions(sorted(topics))
        return GroupDetail(
            summary=ListedGroup(
                group_id=group_id,
                group_type="" if found is None else found.group_type,
                state="Dead" if found is None else found.state,
                members=len(members),
            ),
            assignor="" if found is None else found.assignor,
            epoch=_epoch(found, answered),
            target_epoch=None if found is None else found.target_epoch,
            members=rows,
            units=list(dict.fromkeys(units)),
            offsets=offsets,
            stories=answered.stories,
            since_ms=answered.since_ms,
            dropped=answered.dropped,
            now="" if answered.now is None else under_way_sentence(answered.now),
            notes=_notes(answered),
        )

    def _described(self, group_id: str, probable_type: str) -> GroupDescription | None:
        try:
            return describe_group(self._client, group_id, probable_type)
        except ClientError as error:
            if NO_GROUP not in str(error):
                raise
        return None

    def _offsets(self, group_id: str) -> list[Offset]:
        """Return committed offsets; partitions are empty here, so their ends say nothing."""
        return [
            Offset(unit=f"{topic}-{number}", committed=row.offset)
            for (topic, number), row in admin.committed_offsets(self._client, group_id).items()
        ]

    def _partitions(self, topics: Sequence[str]) -> list[str]:
        """Return all partitions of the topics that exist."""
        found = self._client.metadata(topics).topics if topics else ()
        return [
            f"{topic.name}-{number}"
            for topic in found
            if topic.error_code == ErrorCode.none
            for number in range(len(topic.partitions))
        ]


@contextmanager
def _readable(node_id: int) -> Iterator[None]:
    """Say that a node runs another version if what it says cannot be read."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"Node {node_id} runs another version.") from None


def _units(member: MemberDescription) -> Iterable[TopicPartition]:
    return (*member.assigned, *(member.target or ()))


def _member(group: GroupDescription | None, said: MemberDescription) -> Member:
    is_streams = group is not None and group.group_type == STREAMS
    name = "{}_{}".format if is_streams else "{}-{}".format
    return Member(
        member_id=said.member_id,
        instance_id=said.instance_id or "",
        client_id=said.client_id,
        host=said.host.removeprefix("/"),
        epoch=said.epoch,
        owned=tuple(name(*unit) for unit in said.assigned),
        target=None if said.target is None else tuple(name(*unit) for unit in said.target),
    )


def _epoch(group: GroupDescription | None, answered: Answered) -> int | None:
    """Return the group's epoch; of a classic group, to which its last rebalance led."""
    if group is None or group.epoch is not None:
        return None if group is None else group.epoch
    after = [each.after for each in answered.stories if each.after >= 0]
    return max(after, default=None)


def _notes(answered: Answered) -> tuple[str, ...]:
    notes = [f"One rebalance is left out: {why}" for why in answered.unread[:1]]
    if answered.silent:
        nodes = ", ".join(map(str, answered.silent))
        notes.append(f"Node {nodes} does not answer: rebalances that only it knows are missing.")
    return tuple(notes)
