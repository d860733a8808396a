"""A classic group: the last persisted generation is hard state, the members are soft state.

This module only keeps the books. It maintains every count as members join and leave, so that no
request costs time proportional to the number of members. The request modules decide what a change
means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from protocol.groups.classic.member_records import MemberRecords
from protocol.groups.classic.protocol_lists import ProtocolLists
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.event_log import MemberEventLog
from protocol.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.classic.protocol_lists import ProtocolList
    from protocol.groups.classic.states import Rebalance
    from protocol.groups.effects import HeartbeatLease, Ticket
    from protocol.wire.messages import JoinGroupRequestProtocol

NAME: Final = attrgetter("name")

CONSUMER: Final = "consumer"
"""The protocol type whose subscriptions the coordinator can read."""

NO_GENERATION: Final = GroupMetadataValue(
    protocol_type="",
    generation=0,
    protocol=None,
    leader=None,
    current_state_timestamp=-1,
    members=(),
)
"""The hard state of a group that has committed offsets and nothing else (a simple group)."""


@dataclass(slots=True)
class ClassicGroup:
    """Hard state: the last GroupMetadata record. Written by replays only."""

    type_name: ClassVar[str] = "classic"

    metadata: GroupMetadataValue

    @property
    def has_members(self) -> bool:
        """Whether the last generation has members."""
        return bool(self.metadata.members)

    @property
    def is_logged(self) -> bool:
        """Whether the group is more than committed offsets."""
        return self.metadata is not NO_GENERATION

    def record_keys(self, group_id: str) -> tuple[GroupMetadataKey]:
        """Return the key of its only record."""
        return (GroupMetadataKey(group=group_id),)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ClassicGroupMember:
    """A member that has joined; soft state.

    ``join_ticket`` and ``sync_ticket`` are its parked requests. ``is_new``: its first JoinGroup is
    still parked, so the new member join timeout applies to it even while it waits.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]
    protocol_list: ProtocolList = ()
    assignment: bytes = b""
    session_deadline_ms: int = 0
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    is_new: bool = False
    lease: HeartbeatLease | None = None
    client_software: str = ""

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, {self.group_instance_id!r})"

    @property
    def is_parked(self) -> bool:
        """Whether it has a parked request: as good as a heartbeat, unless the member is new."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def subscription(self, protocol: str | None) -> bytes:
        """Return the metadata that the member sent for this protocol, which it must offer."""
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        raise AssertionError(f"member {self.member_id} does not offer {protocol}")

    def metadata(self, protocol: str | None) -> MemberMetadata:
        """Build the member's part of the group's record."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.subscription(protocol),
            assignment=self.assignment,
        )


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroupRuntime:
    """Soft state of a classic group, on the leader only.

    ``generation``, ``protocol_name`` and ``leader_id`` are ahead of the hard state between the two
    phases of a rebalance. ``pending`` holds the member ids sent with MEMBER_ID_REQUIRED;
    ``pending_sync`` the members that have not fetched their assignment yet. ``records`` is each
    member's part of the next GroupMetadata record, kept while the group is Stable.
    ``spares`` are the members that the generation gives nothing.
    ``subscriptions`` are the distinct subscriptions that the generation was built from; ``topics``
    are the topics in them, decoded on demand by ``topics_of``.
    """

    group_id: str
    hard: ClassicGroup
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    state_timestamp_ms: int = -1
    rebalance: Rebalance | None = None
    stamp: int = 0
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending: dict[str, None] = field(default_factory=dict)
    pending_sync: dict[str, None] = field(default_factory=dict)
    awaiting_join: int = 0
    protocol_lists: ProtocolLists = field(default_factory=ProtocolLists)
    records: MemberRecords = field(default_factory=MemberRecords)
    spares: set[str] = field(default_factory=set)
    subscriptions: tuple[bytes, ...] = ()
    topics: frozenset[str] | None = None
    topics_of: tuple[bytes, ...] | None = None
    event_log: MemberEventLog = field(default_factory=MemberEventLog)

    def __repr__(self) -> str:
        return f"Group({self.group_id!r}, {self.state}, generation {self.generation})"

    @property
    def state(self) -> ClassicGroupState:
        """The phase of the rebalance under way, otherwise the last persisted state."""
        rebalance = self.rebalance
        if rebalance is not None:
            return rebalance.phase
        if self.hard.metadata.members:
            return ClassicGroupState.STABLE
        return ClassicGroupState.EMPTY

    def member(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """Return the member that a request is from (KIP-345).

        Raise UNKNOWN_MEMBER_ID if the instance id is not known, FENCED_INSTANCE_ID if another
        member id holds it now.
        """
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.unknown_member_id)
            if holder != member_id:
                raise KafkaError(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        return member

    def accepts_protocols(self, protocol_type: str, protocol_list: ProtocolList) -> bool:
        """Whether a member that offers these protocols can join."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and protocol_list)
        return self.protocol_type == protocol_type and self.protocol_lists.supports(protocol_list)

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and becomes leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self.protocol_lists.add(member.protocol_list)
        self.pending.pop(member.member_id, None)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member whose tickets have been answered; if it led, the next member leads."""
        self.stamp += 1
        del self.members[member.member_id]
        self.protocol_lists.remove(member.protocol_list)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.pop(member.member_id, None)
        self.records.discard(member.member_id)

    def replace(self, member: ClassicGroupMember, new_member_id: str) -> None:
        """Give a static member a new member id; it keeps its assignment, place and roles."""
        self.stamp += 1
        old_member_id = member.member_id
        del self.members[old_member_id]
        self.records.discard(old_member_id)
        member.member_id = new_member_id
        member.lease = None
        self.members[new_member_id] = member
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.spares:
            self.spares ^= {old_member_id, new_member_id}
        if old_member_id in self.pending_sync:
            del self.pending_sync[old_member_id]
            self.pending_sync[new_member_id] = None

    def set_protocols(
        self,
        member: ClassicGroupMember,
        protocols: tuple[JoinGroupRequestProtocol, ...],
        protocol_list: ProtocolList,
    ) -> None:
        """Store the member's protocols, and recount its vote when its list has changed."""
        if protocol_list != member.protocol_list:
            self.protocol_lists.remove(member.protocol_list)
            self.protocol_lists.add(protocol_list)
            member.protocol_list = protocol_list
        member.protocols = protocols

    def park_join(self, member: ClassicGroupMember, ticket: Ticket) -> None:
        """Park a JoinGroup until the join phase ends; the member must not have one parked."""
        member.join_ticket = ticket
        self.awaiting_join += 1

    def take_join(self, member: ClassicGroupMember) -> Ticket | None:
        """Remove the parked JoinGroup and return its ticket, to answer it."""
        ticket = member.join_ticket
        if ticket is not None:
            member.join_ticket = None
            self.awaiting_join -= 1
        return ticket

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined and no member id is pending."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, otherwise pick the first that has; False if none.

        A spare does not lead.
        """
        leader_id = self.leader_id
        if leader_id is None:
            return False
        if self._can_lead(self.members[leader_id]):
            return True
        for member in self.members.values():
            if self._can_lead(member):
                self.leader_id = member.member_id
                return True
        return False

    def _can_lead(self, member: ClassicGroupMember) -> bool:
        return member.join_ticket is not None and member.member_id not in self.spares


def protocol_list_of(protocols: tuple[JoinGroupRequestProtocol, ...]) -> ProtocolList:
    """Return the names, each once, most preferred first."""
    return tuple(dict.fromkeys(map(NAME, protocols)))
