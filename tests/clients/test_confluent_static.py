"""confluent-kafka with group.instance.id: KIP-345 as a user meets it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaError

from tests.clients import wire
from tests.clients.confluent import (
    Member,
    Partition,
    create_topics,
    is_shared_out,
    partitions_of,
    poll_until,
)
from tests.waiting import WITHIN_S, until

Closing = Callable[[Callable[[], object]], object]

STANDALONE_MEMBER = "tests.clients.standalone_member"
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


def static_pair(
    bootstrap: str, name: str, closing: Closing, assignor: str = "range"
) -> dict[str, Member]:
    """Two static members, "one" and "two", that share a topic of four partitions evenly."""
    create_topics(bootstrap, [name], 4)
    members = {i: static_member(bootstrap, name, closing, i, assignor) for i in ("one", "two")}
    both = list(members.values())
    everything = partitions_of([name], 4)
    poll_until(both, lambda: is_shared_out(both, everything), 30, "two partitions for each")
    settle(bootstrap, name, both)
    return members


def static_member(
    bootstrap: str, name: str, closing: Closing, instance_id: str, assignor: str = "range"
) -> Member:
    """Give a member of the test's group with an instance id."""
    member = Member(
        bootstrap,
        name,
        [name],
        group_instance_id=instance_id,
        partition_assignment_strategy=assignor,
    )
    closing(member.close)
    return member


def settle(bootstrap: str, group_id: str, members: Sequence[Member]) -> None:
    """Wait until the group itself says that it is Stable."""
    poll_until(
        members, lambda: wire.describe(bootstrap, group_id).group_state == "Stable", 20, "Stable"
    )


def member_ids(bootstrap: str, group_id: str) -> dict[str, str]:
    """Member id of every instance id, as DescribeGroups says."""
    members = wire.describe(bootstrap, group_id).members
    return {m.group_instance_id: m.member_id for m in members}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_static_restart_keeps_partitions_and_generation(
    bootstrap: str, name: str, closing: Closing, assignor: str
) -> None:
    # KIP-345: no other member notices a restart, of the leader or of a follower.
    members = static_pair(bootstrap, name, closing, assignor)
    for instance_id, other in (("one", "two"), ("two", "one")):
        before = members[instance_id].assigned
        ids = member_ids(bootstrap, name)
        generation = wire.generation_of(bootstrap, name)
        quiet = members[other]
        story = (list(quiet.given), list(quiet.revoked))
        members[instance_id].close()
        assert member_ids(bootstrap, name) == ids, "a static member does not leave when it closes"

        again = static_member(bootstrap, name, closing, instance_id, assignor)
        members[instance_id] = again
        poll_until([again, quiet], lambda a=again, b=before: a.assigned == b, 20, "the same again")
        after = member_ids(bootstrap, name)
        assert after[instance_id] != ids[instance_id]
        assert after[other] == ids[other]
        assert wire.generation_of(bootstrap, name) == generation
        assert (quiet.given, quiet.revoked) == story


def test_a_static_member_killed_and_started_again_finds_its_partitions(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 4)
    here = static_member(bootstrap, name, closing, "here")
    process, assigned = start_process(bootstrap, name, closing)
    poll_until([here], lambda: len(here.assigned) == 2, 30, "two partitions for each")
    first = until(assigned, 20, "the process has told its assignment")
    settle(bootstrap, name, [here])
    generation = wire.generation_of(bootstrap, name)
    story = (list(here.given), list(here.revoked))
    os.kill(process.pid, signal.SIGKILL)
    process.wait(WITHIN_S)

    _, assigned_again = start_process(bootstrap, name, closing)
    poll_until([here], assigned_again, 20, "the second process has told its assignment")
    assert assigned_again() == first
    assert wire.generation_of(bootstrap, name) == generation
    assert (here.given, here.revoked) == story


def start_process(
    bootstrap: str, name: str, closing: Closing
) -> tuple[subprocess.Popen[bytes], Callable[[], set[Partition]]]:
    """Start a static member in a process; returns it and a question for its assignment so far."""
    process = subprocess.Popen(
        [sys.executable, "-m", STANDALONE_MEMBER, bootstrap, name, name, "there"],
        stdout=subprocess.PIPE,
    )
    out = process.stdout
    assert out is not None
    closing(out.close)
    closing(process.wait)
    closing(process.kill)
    os.set_blocking(out.fileno(), False)
    told = bytearray()

    def assigned() -> set[Partition]:
        told.extend(out.read() or b"")
        lines = [line for line in told.decode().splitlines() if line.startswith("ASSIGNED ")]
        if not lines or not told.endswith(b"\n"):
            return set()
        pairs = (one.split(":") for one in lines[-1].removeprefix("ASSIGNED ").split(",") if one)
        return {(topic, int(partition)) for topic, partition in pairs}

    return process, assigned


def test_the_older_of_two_with_one_instance_id_is_fenced(
    bootstrap: str, name: str, closing: Closing
) -> None:
    # KIP-345: the newcomer replaces; the old member id gets FENCED_INSTANCE_ID, which is fatal.
    create_topics(bootstrap, [name], 2)
    older = static_member(bootstrap, name, closing, "same")
    poll_until([older], lambda: len(older.assigned) == 2, 30, "the first member has all")
    newer = static_member(bootstrap, name, closing, "same")
    poll_until(
        [older, newer],
        lambda: len(newer.assigned) == 2 and older.errors,
        30,
        "the newcomer owns all, the older one met an error",
    )
    (fatal,) = older.errors
    assert fatal.code() == KafkaError._FATAL
    assert "Static consumer fenced by other consumer with same group.instance.id" in fatal.str()
    assert not newer.errors


def test_a_static_member_that_stays_away_is_expelled_after_its_session(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 2)
    stays = static_member(bootstrap, name, closing, "stays")
    leaves = Member(bootstrap, name, [name], group_instance_id="leaves", session_timeout_ms=3000)
    closing(leaves.close)
    both = [stays, leaves]
    poll_until(both, lambda: is_shared_out(both, partitions_of([name], 2)), 30, "one for each")
    leaves.close()
    poll_until([stays], lambda: len(stays.assigned) == 2, 20, "all belongs to the one that stayed")
    assert set(member_ids(bootstrap, name)) == {"stays"}


def test_static_and_dynamic_members_mix(bootstrap: str, name: str, closing: Closing) -> None:
    create_topics(bootstrap, [name], 4)
    static = static_member(bootstrap, name, closing, "static")
    dynamic = Member(bootstrap, name, [name])
    closing(dynamic.close)
    both = [static, dynamic]
    poll_until(both, lambda: is_shared_out(both, partitions_of([name], 4)), 30, "two for each")
    dynamic.close()
    poll_until([static], lambda: len(static.assigned) == 4, 20, "the dynamic member has left")
