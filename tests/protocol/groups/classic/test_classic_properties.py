"""Random scripts of joins, syncs, heartbeats, leaves, timeouts and failovers; what always holds.

``ClassicTalk`` checks after every event that the shard's own counts are right and that no ticket is
answered twice. This machine adds: the records alone rebuild the group; generations only grow; a
partition has one owner in a generation; a heartbeat repeated by its lease is what the shard would
have answered; and nothing stays parked for ever.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from protocol.groups.effects import Elected
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import decode, encode
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import MemberIdentity
from tests.effort import examples
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.conversation import GROUP

DYNAMIC = ("A", "B", "C")
STATIC = ("X", "Y", "Z")
CLIENTS = st.sampled_from(DYNAMIC + STATIC)
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)])
MINUTE = 60_000


class ClassicGroupScript(RuleBasedStateMachine):
    """Six clients, three of them static, of one group."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = ClassicTalk({"group.max.size": "5", "group.max.session.timeout.ms": "600000"})
        self.leases: dict[str, Any] = {}
        self.generation = 0
        self.owners: dict[tuple[int, bytes], str] = {}
        self.checked = 0

    def _instance(self, name: str) -> str | None:
        return name.lower() if name in STATIC else None

    @rule(
        name=CLIENTS,
        protocols=PROTOCOLS,
        version=st.sampled_from([0, 3, 5, 8, 9]),
        session_ms=st.sampled_from([6_000, 30_000, 600_000]),
        rebalance_ms=st.sampled_from([1_000, 20_000]),
        forget=st.booleans(),
    )
    def join(self, name: str, forget: bool, **options: Any) -> None:
        if forget:
            options["member_id"] = ""
        instance = self._instance(name) if options["version"] >= 5 else None
        self.talk.enter(name, instance=instance, **options)

    @initialize(names=st.lists(CLIENTS, min_size=1, max_size=4, unique=True))
    def begin(self, names: list[str]) -> None:
        self.settle(names)

    @rule(names=st.lists(CLIENTS, max_size=2, unique=True))
    def settle(self, names: list[str]) -> None:
        """Let these and all members join and sync as well-behaved clients do."""
        talk = self.talk
        group = talk.context.classic_runtime.get(GROUP)
        inside = () if group is None else [c.name for c in talk.clients.values() if c.member_id]
        for name in dict.fromkeys([*names, *inside]):
            if group is None or name in names or talk.id(name) in group.members:
                talk.enter(name, instance=self._instance(name), session_ms=30_000)
        for _ in range(4):
            if talk.state == "PreparingRebalance":
                talk.advance(3_000)
        self.sync_all(leave_out=0)

    @rule(leave_out=st.sampled_from([0, 0, 0, 1]))
    def sync_all(self, leave_out: int) -> None:
        group = self.talk.context.classic_runtime.get(GROUP)
        if group is None:
            return
        order = sorted(DYNAMIC + STATIC, key=lambda name: self.talk.id(name) == group.leader_id)
        for name in order[leave_out:]:
            if self.talk.id(name) in group.members:
                self.sync(name, 0)

    @rule(name=CLIENTS, of=CLIENTS)
    def join_with_the_id_of_another(self, name: str, of: str) -> None:
        instance = self._instance(name)
        self.talk.join(name, instance=instance, member_id=self.talk.id(of) or "no-such-id")

    @rule(name=CLIENTS, drift=st.sampled_from([0, 0, 0, 0, -1, 1]))
    def sync(self, name: str, drift: int) -> None:
        client = self.talk.client(name)
        group = self.talk.context.classic_runtime.get(GROUP)
        # What a leader hands out: every member that it was told of gets one partition of its own.
        members = list(group.members) if group is not None else []
        named = [other for other in DYNAMIC + STATIC if self.talk.id(other) in members]
        shares = {other: f"p{number}".encode() for number, other in enumerate(named)}
        protocol = group.protocol_name if group is not None else None
        self.talk.sync(
            name,
            shares,
            generation=client.generation + drift,
            protocol_name=protocol or "range",
        )

    @rule(name=CLIENTS, drift=st.sampled_from([0, 0, 0, 1]))
    def heartbeat(self, name: str, drift: int) -> None:
        client = self.talk.client(name)
        sent = {
            "generation": client.generation + drift,
            "member_id": client.member_id,
            "instance": client.instance,
        }
        reply = self.talk.heartbeat_reply(name, **sent)
        if reply.lease is not None:
            self.leases[name] = (sent, reply)
            code: Any = reply.message
            assert code.error_code is ErrorCode.none

    @rule()
    def all_beat(self) -> None:
        for name in DYNAMIC + STATIC:
            self.heartbeat(name, 0)

    @rule()
    def repeat_heartbeats(self) -> None:
        """Whatever the listener would repeat by its leases, the shard would answer too."""
        for sent, held in self.leases.values():
            if held.lease.stamp != held.lease.group.stamp:
                continue
            reply = self.talk.heartbeat_reply("listener", **sent)
            assert reply.message == held.message
            assert reply.lease is not None
            assert reply.lease.member is held.lease.member

    @rule(name=st.sampled_from(STATIC), version=st.sampled_from([8, 9]))
    def restart(self, name: str, version: int) -> None:
        self.talk.join(name, instance=name.lower(), member_id="", version=version)

    @rule(name=CLIENTS)
    def leave(self, name: str) -> None:
        self.talk.leave(name, reason="because")

    @rule(names=st.lists(CLIENTS, max_size=3), by_instance=st.booleans())
    def remove(self, names: list[str], by_instance: bool) -> None:
        self.talk.remove(
            *(
                MemberIdentity(
                    member_id="" if by_instance else self.talk.id(name),
                    group_instance_id=self._instance(name) if by_instance else None,
                )
                for name in names
            )
        )

    @rule(milliseconds=st.sampled_from([1, 1_000, 3_000, 3_000, 5_000, 20_000, 60_000, 700_000]))
    def wait(self, milliseconds: int) -> None:
        self.talk.advance(milliseconds)

    @rule(stall_ms=st.sampled_from([1_000, 100_000]))
    def stall(self, stall_ms: int) -> None:
        expelled = len(self.talk.events())
        self.talk.now += stall_ms
        self.talk.shard.shift_deadlines(stall_ms)
        self.talk.advance(0)
        assert len(self.talk.events()) == expelled

    @rule()
    def fail_over(self) -> None:
        self.talk.failover()

    @rule(really=st.integers(0, 3))
    def delete(self, really: int) -> None:
        if really:
            return
        if self.talk.delete(GROUP) == [ErrorCode.none]:
            self.owners.clear()
            self.generation = 0

    @invariant()
    def generations_only_grow_and_each_partition_has_one_owner(self) -> None:
        for record in self.talk.records[self.checked :]:
            value: Any = record.value
            if value is None:
                self.owners.clear()
                self.generation = 0
                continue
            assert value.generation >= self.generation
            self.generation = value.generation
            for member in value.members:
                if member.assignment:
                    owner = member.group_instance_id or member.member_id
                    key = (value.generation, member.assignment)
                    assert self.owners.setdefault(key, owner) == owner
        self.checked = len(self.talk.records)

    @invariant()
    def the_records_alone_rebuild_what_is_settled(self) -> None:
        standby = GroupShard(self.talk.shard.configs, Topics(), random.Random(1))
        for record in self.talk.records:
            standby.replay(decode(*encode(record)))
        theirs, ours = standby._context, self.talk.context
        assert {k: v.metadata for k, v in theirs.groups.items()} == {
            k: v.metadata for k, v in ours.groups.items()
        }
        group = ours.classic_runtime.get(GROUP)
        event(f"state {group and group.state}")
        if group is None or group.rebalance is not None:
            return
        standby.handle(Elected(), self.talk.now)
        promoted = ClassicTalk(seed=1)
        promoted.shard, promoted.now = standby, self.talk.now
        there = promoted.describe()
        here = self.talk.describe()
        assert there == here
        built = standby._context.classic_runtime[GROUP]
        assert built.leader_id == group.leader_id
        assert built.generation == group.generation
        assert built.static_members == group.static_members

    def teardown(self) -> None:
        self.talk.advance(60 * MINUTE)
        assert not self.talk.parked


class TestClassicGroupScript(ClassicGroupScript.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)
