"""What a test can ask of its cluster: one function per verb, with plain values in and out.

The functions run in the thread that reads the test's questions; what concerns a coordinator is done
on the event loop. Errors are ``ValueError`` and :class:`actors.errors.CommandError`, a sentence
each.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import AdminClient, ClientError, parse_bootstrap
from actors.cli.descriptions import describe_group
from actors.clock import wall_ms
from actors.errors import FailureError
from actors.testing import ghosts
from actors.testing.faults import OWN_CLIENT_ID
from actors.testing.stories import history
from protocol.stories.sentence import named
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from actors.cli.client import Address
    from actors.cli.descriptions import GroupDescription, MemberDescription
    from actors.testing.coordinators import LocalCluster
    from actors.testing.stories import GroupNotes
    from protocol.groups.streams.topology import StreamsTopology

CALL_S: Final = 60.0
TOPIC_S: Final = timedelta(seconds=10)
STORIES_MAX: Final = 50
"""The groups whose stories the report of a failed test has."""

NO_DESCRIPTION: Final = {"type": "", "state": "", "members": []}


@dataclass(frozen=True, slots=True)
class StagedCluster:
    """A running cluster, its event loop, and notes of what was done to its groups."""

    cluster: LocalCluster
    notes: GroupNotes
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something on the event loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S)

    def client(self) -> AdminClient:
        """Return a client of the coordinators that live."""
        return AdminClient(self.addresses, client_id=OWN_CLIENT_ID)

    @property
    def addresses(self) -> list[Address]:
        """The listeners of the coordinators that live."""
        addresses = parse_bootstrap(self.cluster.spec.bootstrap)
        return [addresses[node.node_id] for node in self.cluster.alive]


def create_topic(stage: StagedCluster, name: str, partitions: int) -> None:
    """Create a topic, and wait until every coordinator knows it."""
    wanted = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=()
    )
    with stage.client() as client:
        answer = client.ask(CreateTopicsRequest(topics=(wanted,), timeout=TOPIC_S))
        (made,) = answer.topics
        if made.error_code != ErrorCode.none:
            raise FailureError(f"Topic {name}: {admin.said(made.error_code, made.error_message)}.")
    stage.run(stage.cluster.until_known(name))


def delete_topics(stage: StagedCluster, names: Sequence[str]) -> None:
    """Delete topics; those that do not exist are ignored."""
    with stage.client() as client:
        admin.delete_topics(client, names)


def describe(stage: StagedCluster, group: str) -> dict[str, Any]:
    """Describe a group; its state is empty if it does not exist."""
    with stage.client() as client:
        try:
            found = describe_group(client, group)
        except ClientError:
            return dict(NO_DESCRIPTION)
    return {
        "type": found.group_type,
        "state": found.state,
        "members": [
            {
                "member_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "partitions": each.assigned,
            }
            for each in found.members
        ],
    }


def expire(stage: StagedCluster, member: str, groups: Sequence[str]) -> str:
    """End a member's session now; return its member id."""
    found, one = _member(stage, member, groups)
    began_ms = wall_ms()

    async def end() -> bool:
        return stage.cluster.expire(found.group_id, one.member_id)

    if not stage.run(end()):
        raise FailureError(f"Group {found.group_id} has no coordinator now.")
    stage.notes.note(
        found.group_id, began_ms, f"the test has ended the session of {named(one.member_id)}"
    )
    return one.member_id


def fence(stage: StagedCluster, instance: str, groups: Sequence[str]) -> str:
    """Fence a static member; return the member id that has its place now."""
    found, one = _member(stage, instance, groups)
    began_ms = wall_ms()
    if one.instance_id is None:
        raise ValueError(f"member {one.member_id} is not static: it has no group.instance.id")
    took_over = ghosts.fence(stage.addresses, found, one, _topology(stage, found.group_id))
    stage.notes.note(found.group_id, began_ms, f"the test has fenced instance {named(instance)}")
    return took_over


def force_rebalance(stage: StagedCluster, group: str) -> None:
    """Let a group rebalance."""
    with stage.client() as client:
        found = describe_group(client, group)
    if not found.members:
        raise ValueError(f"group {group} has no members")
    ghosts.force_rebalance(stage.addresses, found, _topology(stage, group))


def _topology(stage: StagedCluster, group: str) -> StreamsTopology | None:
    """Return a streams group's topology; None for other groups."""

    async def look() -> StreamsTopology | None:
        return stage.cluster.topology(group)

    found: StreamsTopology | None = stage.run(look())
    return found


def coordinator(stage: StagedCluster, group: str) -> int:
    """Return the node id of a group's coordinator; -1: none now."""

    async def ask() -> int:
        return stage.cluster.coordinator_of(group)

    return int(stage.run(ask()))


def move_coordinator(stage: StagedCluster, group: str, to: int | None) -> int:
    """Move a group to another coordinator; return its node id."""
    began_ms = wall_ms()
    node = int(stage.run(stage.cluster.move(group, to)))
    stage.notes.note(group, began_ms, f"the test has moved it to coordinator {node}")
    return node


def kill_coordinator(stage: StagedCluster, group: str) -> int:
    """Kill a group's coordinator; return its node id when others lead."""
    began_ms, node = wall_ms(), coordinator(stage, group)
    stage.run(stage.cluster.kill(node))
    after = coordinator(stage, group)
    stage.notes.note(
        group, began_ms, f"the test has killed coordinator {node}, and {after} has taken over"
    )
    return node


def start_coordinators(stage: StagedCluster) -> list[int]:
    """Start the coordinators again that were killed."""
    started: list[int] = stage.run(stage.cluster.restart())
    return started


def fault(stage: StagedCluster, api: str, error: str, count: int, group: str | None) -> None:
    """Answer the next requests of an API with an error."""

    async def add() -> None:
        stage.cluster.faults.add(api, error, count, group)

    stage.run(add())


def faults_left(stage: StagedCluster) -> int:
    """Return how many requests are still to get an error."""

    async def ask() -> int:
        return stage.cluster.faults.left()

    return int(stage.run(ask()))


def delay_assignor(stage: StagedCluster, delay_ms: int) -> None:
    """Let server-side assignors begin later."""

    async def delay() -> None:
        stage.cluster.faults.delay_assignor(delay_ms)

    stage.run(delay())


def mend(stage: StagedCluster) -> None:
    """End all faults and delays, and start what was killed."""

    async def clear() -> None:
        stage.cluster.faults.clear()
        await stage.cluster.restart()

    stage.run(clear())


def explain(stage: StagedCluster, group: str) -> list[str]:
    """Return the stories of a group's rebalances, a line each."""
    stage.run(stage.cluster.until_told())
    with stage.client() as client:
        return history(client, stage.notes, group)


def mark(stage: StagedCluster) -> int:
    """Return a mark of this moment, for :func:`stories`."""
    del stage
    return wall_ms()


def stories(stage: StagedCluster, since: int, groups: Sequence[str]) -> list[str]:
    """Return the stories of these groups, and of all that rebalanced since a mark."""
    stage.run(stage.cluster.until_told())
    wanted = [*dict.fromkeys([*groups, *stage.notes.touched(since)])]
    with stage.client() as client:
        told = [history(client, stage.notes, each, since) for each in wanted[:STORIES_MAX]]
    lines = [line for one in told for line in one]
    if len(wanted) > STORIES_MAX:
        lines.append(f"and {len(wanted) - STORIES_MAX} other groups")
    return lines


def _member(
    stage: StagedCluster, name: str, groups: Sequence[str]
) -> tuple[GroupDescription, MemberDescription]:
    """Find a member by its member id or instance id, in these groups, or else in any."""
    with stage.client() as client:
        all_groups = admin.list_groups(client, (), ())
        ids = [each.group_id for each in all_groups]
        found = _named(client, [each for each in ids if each in groups], name)
        found = found or _named(client, [each for each in ids if each not in groups], name)
    if not found:
        raise ValueError(f"no group has a member {name!r}, by member id or instance id")
    if len(found) > 1:
        names = ", ".join(sorted(described.group_id for described, _ in found))
        raise ValueError(f"{name!r} is in the groups {names}: say in which, by group=")
    return found[0]


def _named(
    client: AdminClient, groups: Sequence[str], name: str
) -> list[tuple[GroupDescription, MemberDescription]]:
    return [
        (described, one)
        for described in (describe_group(client, each) for each in groups)
        for one in described.members
        if name in (one.member_id, one.instance_id)
    ]


VERBS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        verb.__name__: verb
        for verb in (
            create_topic, delete_topics, describe, expire, fence, force_rebalance, coordinator,
            move_coordinator, kill_coordinator, start_coordinators, fault, faults_left,
            delay_assignor, mend, explain, mark, stories,
        )
    }
)  # fmt: skip
