"""A classic group: the last persisted generation is its hard half, the members its soft half.

Only bookkeeping lives here, with every count kept as members come and go, so that nothing a request
asks costs the number of members. What a change means is decided by the modules of the requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from protocol.groups.classic.protocol_lists import ProtocolLists
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.event_log import MemberEventLog
from protocol.records import GroupMetadataValue, MemberMetadata
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.classic.protocol_lists import ProtocolList
    from protocol.groups.classic.states import Rebalance
    from protocol.groups.effects import HeartbeatLease, Ticket
    from protocol.wire.messages import JoinGroupRequestProtocol

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
"""The hard state of a group that is known by its committed offsets only (a simple group)."""


@dataclass(slots=True)
class ClassicGroup:
    """Hard state: the last GroupMetadata record. Written by replays only."""

    type_name: ClassVar[str] = "classic"

    metadata: GroupMetadataValue

    @property
    def has_members(self) -> bool:
        """Whether the last generation has members."""
        return bool(self.metadata.members)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ClassicGroupMember:
    """A member that has joined; soft.

    ``join_ticket`` and ``sync_ticket`` are its parked requests. ``is_new``: its first JoinGroup is
    still parked, so it is expired by the new member join timeout even while it waits.
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

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, {self.group_instance_id!r})"

    @property
    def is_parked(self) -> bool:
        """Whether a request of it waits: as good as a heartbeat, unless the member is new."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def subscription(self, protocol: str | None) -> bytes:
        """Return what the member sent with this protocol; the group knows that it offers it."""
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

    ``generation``, ``protocol_name`` and ``leader_id`` run ahead of the hard state between the two
    phases of a rebalance. ``pending`` holds the member ids given out with MEMBER_ID_REQUIRED;
    ``pending_sync`` the members that have yet to fetch their assignment. ``records`` is each
    member's part of the next GroupMetadata record, kept while the group is Stable.
    ``subscriptions`` are the distinct subscriptions that the generation was built from, ``topics``
    what they say, read on demand from ``topics_of``.
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
    records: dict[str, MemberMetadata] = field(default_factory=dict)
    subscriptions: tuple[bytes, ...] = ()
    topics: frozenset[str] | None = None
    topics_of: tuple[bytes, ...] | None = None
    event_log: MemberEventLog = field(default_factory=MemberEventLog)

    def __repr__(self) -> str:
        return f"Group({self.group_id!r}, {self.state}, generation {self.generation})"

    @property
    def state(self) -> ClassicGroupState:
        """The phase of the rebalance under way, else what was persisted last."""
        rebalance = self.rebalance
        if rebalance is not None:
            return rebalance.phase
        if self.hard.metadata.members:
            return ClassicGroupState.STABLE
        return ClassicGroupState.EMPTY

    def member(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """Find the member that a request speaks for (KIP-345).

        An instance id must be known (else UNKNOWN_MEMBER_ID) and be held by this very member id
        (else FENCED_INSTANCE_ID: somebody else took the place).
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
        """Whether somebody who offers these protocols can be a member."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and protocol_list)
        return self.protocol_type == protocol_type and self.protocol_lists.supports(protocol_list)

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Take a member in; the first one sets the protocol type and leads."""
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
        """Let a member go whose tickets have been answered; the next in line leads."""
        self.stamp += 1
        del self.members[member.member_id]
        self.protocol_lists.remove(member.protocol_list)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.pop(member.member_id, None)
        self.records.pop(member.member_id, None)

    def replace(self, member: ClassicGroupMember, new_member_id: str) -> None:
        """Give a static member a new member id; it keeps its assignment, place and duties."""
        self.stamp += 1
        old_member_id = member.member_id
        del self.members[old_member_id]
        self.records.pop(old_member_id, None)
        member.member_id = new_member_id
        member.lease = None
        self.members[new_member_id] = member
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            del self.pending_sync[old_member_id]
            self.pending_sync[new_member_id] = None

    def set_protocols(
        self, member: ClassicGroupMember, protocols: tuple[JoinGroupRequestProtocol, ...]
    ) -> None:
        """Count the member's vote again when its list has changed."""
        protocol_list = protocol_list_of(protocols)
        if protocol_list != member.protocol_list:
            self.protocol_lists.remove(member.protocol_list)
            self.protocol_lists.add(protocol_list)
            member.protocol_list = protocol_list
        member.protocols = protocols

    def park_join(self, member: ClassicGroupMember, ticket: Ticket) -> None:
        """Keep a JoinGroup until the join phase ends; there is none parked for the member yet."""
        member.join_ticket = ticket
        self.awaiting_join += 1

    def take_join(self, member: ClassicGroupMember) -> Ticket | None:
        """Take the parked JoinGroup out, to answer it."""
        ticket = member.join_ticket
        if ticket is not None:
            member.join_ticket = None
            self.awaiting_join -= 1
        return ticket

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is waited for any more, pending members among them."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else take the first member that has; False if none."""
        leader_id = self.leader_id
        if leader_id is None:
            return False
        if self.members[leader_id].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False


def protocol_list_of(protocols: tuple[JoinGroupRequestProtocol, ...]) -> ProtocolList:
    """List the names, each once, most preferred first."""
    return tuple(dict.fromkeys(protocol.name for protocol in protocols))
