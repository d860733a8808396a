"""The only member of a classic group, whose requests a test sends one by one.

Client libraries do not let a test join again without a reason, or with another assignor. What is
sent is of kio alone (:mod:`tests.clients.wire`), but for the two blobs inside.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from protocol.wire.embedded import encode_assignment, encode_subscription
from tests.clients import wire
from tests.waiting import patient, until

JOIN, LEAVE, SYNC = 11, 13, 14
MEMBER_ID_REQUIRED: Final = 79
WITHIN_S: Final = patient(60)
SESSION: Final = timedelta(minutes=5)
"""It sends no heartbeat: its session outlives the test."""

PARTITIONS: Final = 4
ASSIGNORS: Final = ("range", "roundrobin")


class LoneMember:
    """A member; it leads the group, and takes all partitions of its topics."""

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
        """It gets its ``member_id`` from the server: the one given is only its name."""
        del member_id
        self.member_id = ""
        self.instance_id: str | None = None
        self.topics: tuple[str, ...] = (topic,)
        self.assignor = "range"
        self.assigned: frozenset[tuple[str, int]] = frozenset()
        self._bootstrap, self._group_id = bootstrap, group_id

    def beat(self) -> None:
        """Join, if it has not yet."""
        if not self.assigned:
            self.join()

    def is_settled(self) -> bool:
        """Whether it has something."""
        return bool(self.assigned)

    def join(self) -> None:
        """Join, or join again: that is a new generation, and all partitions are assigned anew."""
        joined = self._ask(JOIN, 5, self._join)
        if joined.error_code == MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = self._ask(JOIN, 5, self._join)
        assert (joined.error_code, joined.leader) == (wire.NONE, joined.member_id), joined
        self.member_id = joined.member_id
        places = [(topic, number) for topic in self.topics for number in range(PARTITIONS)]

        def sync(m: Any) -> Any:
            own = m.SyncGroupRequestAssignment(
                member_id=self.member_id, assignment=encode_assignment(places)
            )
            return m.SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=(own,),
            )

        synced = self._ask(SYNC, 3, sync)
        assert synced.error_code == wire.NONE, synced
        self.assigned = frozenset(places)

    def come_back(self, assignor: str, *topics: str) -> None:
        """Join as a static member that has forgotten its member id."""
        self.member_id, self.assignor, self.topics = "", assignor, topics or self.topics
        self.join()

    def leave(self) -> None:
        """Leave the group."""
        answer = self._ask(
            LEAVE,
            3,
            lambda m: m.LeaveGroupRequest(
                group_id=self._group_id,
                members=(
                    m.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id),
                ),
            ),
        )
        assert answer.error_code == wire.NONE, answer

    def _join(self, m: Any) -> Any:
        names = sorted(ASSIGNORS, key=lambda each: each != self.assignor)  # the first one is taken
        protocols = tuple(
            m.JoinGroupRequestProtocol(name=each, metadata=encode_subscription(self.topics))
            for each in names
        )
        return m.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=protocols,
        )

    def _ask(self, api_key: int, version: int, build: Any) -> Any:
        def ask() -> Any:
            found = wire.coordinator_of(self._bootstrap, self._group_id)
            if found is None:
                return None
            with wire.Wire(found[1]) as connection:
                answer = connection.call(api_key, version, build)
            return None if answer.error_code in wire.NOT_NOW else answer

        return until(ask, WITHIN_S, "a request is answered")
