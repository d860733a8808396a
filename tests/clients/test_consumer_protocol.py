"""Real clients with ``group.protocol=consumer`` (KIP-848): confluent-kafka and the Java client."""

import os
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import libversion
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.clients import servers, wire
from tests.clients.confluent import ADMIN_S, admin, create_topics, partitions_of
from tests.clients.riding import (
    Life,
    Partition,
    Riders,
    acknowledged,
    are_shared_out,
    group_on_partition_0,
    invented,
    lost,
    wait_until_committing,
)
from tests.waiting import patient, until

Closing = Callable[[Callable[[], object]], object]

CLIENTS = ("confluent-kafka", "java")
KILLS = int(os.environ.get("ROLLCALL_LEADER_KILLS", "2"))
SETTLE_S = patient(60)
BACK_S = patient(30)
# A group's expressions are looked at again 10 s after the last time at the earliest.
REFRESH_S = patient(40)
UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH = 25, 113


def board(
    client: str,
    bootstrap: str,
    subscribe: str,
    members: Sequence[tuple[str, str, str | None]],
    closing: Closing,
    *,
    closed: Sequence[str] = (),
) -> Riders:
    """Start members of one library that speak the consumer protocol."""
    made = Riders(client, bootstrap, subscribe, members, protocol="consumer", closed=closed)
    closing(made.kill)
    return made


def wait_until_shared(
    bootstrap: str, riders: Riders, lives: Sequence[Life], everything: set[Partition]
) -> None:
    """Wait until these members, all of one group, share everything and the group is Stable."""

    def is_so() -> bool:
        riders.check()
        return (
            are_shared_out(lives, everything)
            and wire.describe_consumer(bootstrap, lives[0].group_id).group_state == "Stable"
        )

    until(is_so, SETTLE_S, f"{[*riders.lives]} of {riders.client} share {len(everything)}")


def moved(life: Life, event: str) -> set[Partition]:
    """Give the partitions that a member was told of by callbacks of one kind."""
    return {p for told, partitions in life.callbacks if told == event for p in partitions}


def test_librdkafka_has_the_protocol_for_production() -> None:
    # Generally available since 2.12.0.
    assert libversion()[1] >= 0x020C0000


@pytest.mark.parametrize("client", CLIENTS)
def test_members_come_and_go_and_the_others_keep_what_they_can(
    bootstrap: str, name: str, closing: Closing, client: str
) -> None:
    create_topics(bootstrap, [name], 6)
    everything = partitions_of([name], 6)
    members = [(label, name, None) for label in ("one", "two", "three")]
    riders = board(client, bootstrap, name, members, closing, closed=["three"])
    *pair, third = riders.lives.values()
    wait_until_shared(bootstrap, riders, pair, everything)
    for life in pair:
        life.forget()

    riders.order("open", "three")
    wait_until_shared(bootstrap, riders, [*pair, third], everything)
    for life in pair:
        assert (len(moved(life, "REVOKED")), moved(life, "ASSIGNED")) == (1, set())
    assert third.owned == moved(pair[0], "REVOKED") | moved(pair[1], "REVOKED")
    for life in pair:
        life.forget()

    riders.order("close", "three")
    wait_until_shared(bootstrap, riders, pair, everything)
    for life in pair:
        assert (len(moved(life, "ASSIGNED")), moved(life, "REVOKED")) == (1, set())
    riders.stop()
    assert not lost(bootstrap, name, acknowledged(riders.lives.values()))


@pytest.mark.parametrize("client", CLIENTS)
def test_static_members_restart_one_after_another_and_nobody_else_notices(
    bootstrap: str, name: str, closing: Closing, client: str
) -> None:
    create_topics(bootstrap, [name], 4)
    members = [(label, name, f"i-{label}") for label in ("one", "two")]
    riders = board(client, bootstrap, name, members, closing)
    lives = list(riders.lives.values())
    wait_until_shared(bootstrap, riders, lives, partitions_of([name], 4))
    before = wire.describe_consumer(bootstrap, name)
    for label, life in riders.lives.items():
        restart(riders, label)
        (other,) = (one for one in lives if one is not life)
        assert other.callbacks == []
    after = wire.describe_consumer(bootstrap, name)
    assert after.group_epoch == before.group_epoch
    assert (ids(after).keys(), shares(after)) == (ids(before).keys(), shares(before))
    assert not set(ids(after).values()) & set(ids(before).values())
    riders.stop()
    assert not lost(bootstrap, name, acknowledged(lives))
    assert not invented(bootstrap, lives)


def restart(riders: Riders, label: str) -> None:
    """Restart a member and wait until it has what it had, with all callbacks before forgotten."""
    life = riders.lives[label]
    owned, closed = life.owned, life.closed
    for one in riders.of(life.group_id):
        one.forget()
    riders.order("restart", label)
    until(
        lambda: life.closed > closed and life.owned == owned,
        SETTLE_S,
        f"{label} of {riders.client} has the same partitions again",
    )
    wait_until_committing([riders], f"after the restart of {label}", BACK_S)


def ids(described: object) -> dict[str, str]:
    """Member id of every instance id."""
    return {m.instance_id: m.member_id for m in described.members}


def shares(described: object) -> dict[str, set[Partition]]:
    """Partitions of every instance id."""
    return {
        m.instance_id: {
            (t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions
        }
        for m in described.members
    }


def test_offsets_are_committed_with_the_epoch_of_the_member(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 1)
    riders = board("confluent-kafka", bootstrap, name, [("one", name, None)], closing)
    (life,) = riders.lives.values()
    wait_until_shared(bootstrap, riders, [life], partitions_of([name], 1))
    (member,) = wire.describe_consumer(bootstrap, name).members
    me, epoch = member.member_id, member.member_epoch
    assert wire.commit(bootstrap, name, (me, epoch), name, 1) == wire.NONE
    assert wire.commit(bootstrap, name, (me, epoch + 1), name, 1) == STALE_MEMBER_EPOCH
    assert wire.commit(bootstrap, name, ("nobody", epoch), name, 1) == UNKNOWN_MEMBER_ID
    wait_until_committing([riders], "nothing has disturbed it", BACK_S)
    assert not life.trouble


def test_subscriptions_by_expression_follow_the_topics(
    bootstrap: str, name: str, closing: Closing
) -> None:
    # One group of two libraries: the coordinator resolves what both have subscribed to.
    create_topics(bootstrap, [f"{name}-a", f"{name}-b", f"{name}-other"], 2)
    expression = f"^{name}-[a-c]"
    both = [board(c, bootstrap, expression, [(c, name, None)], closing) for c in CLIENTS]
    lives = [life for one in both for life in one.lives.values()]
    topics = [f"{name}-a", f"{name}-b"]
    until(lambda: are_shared_out(lives, partitions_of(topics, 2)), SETTLE_S, "two topics")
    topics.append(f"{name}-c")
    create_topics(bootstrap, topics[2:], 2)
    until(lambda: are_shared_out(lives, partitions_of(topics, 2)), REFRESH_S, "three topics")
    described = wire.describe_consumer(bootstrap, name)
    # librdkafka puts parentheses around it.
    assert all(expression in m.subscribed_topic_regex for m in described.members)
    assert [m.subscribed_topic_names for m in described.members] == [(), ()]
    for one in both:
        one.stop()
    assert not lost(bootstrap, name, acknowledged(lives))


@pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka has no replicas")
@pytest.mark.timeout(240 + 90 * KILLS)
def test_members_ride_through_kills_of_their_leader_and_restart_meanwhile(
    doomed: servers.RollcallServer, name: str, closing: Closing
) -> None:
    bootstrap = doomed.bootstrap
    until(doomed.is_replicated, SETTLE_S, "every partition is in sync")
    create_topics(bootstrap, [name], 4)
    everything = partitions_of([name], 4)
    everyone = []
    for client in CLIENTS:
        groups = {k: group_on_partition_0(f"{name}-{client}-{k}") for k in ("static", "dynamic")}
        members = [
            (f"{kind}-{i}", group_id, f"i-{i}" if kind == "static" else None)
            for kind, group_id in groups.items()
            for i in range(2)
        ]
        let_take_over(bootstrap, groups["static"])
        everyone.append(board(client, bootstrap, name, members, closing))
    for riders in everyone:
        for group_id in riders.groups():
            wait_until_shared(bootstrap, riders, riders.of(group_id), everything)
    before = {g: wire.describe_consumer(bootstrap, g) for r in everyone for g in r.groups()}
    for number in range(KILLS):
        until(doomed.is_replicated, SETTLE_S, f"all replicas are in sync before kill {number}")
        kill_and_look(doomed, everyone, number)
    for riders in everyone:
        static, dynamic = riders.groups()
        after = wire.describe_consumer(bootstrap, static)
        assert after.group_epoch == before[static].group_epoch
        assert (shares(after), ids(after).keys()) == (
            shares(before[static]),
            ids(before[static]).keys(),
        )
        wait_until_shared(bootstrap, riders, riders.of(dynamic), everything)
        riders.stop()
        for group_id in (static, dynamic):
            lives = riders.of(group_id)
            assert not lost(bootstrap, group_id, acknowledged(lives))
            assert not invented(bootstrap, lives)


def let_take_over(bootstrap: str, group_id: str) -> None:
    """Let a static member come back at once although its leaving was lost with the leader.

    Otherwise it is refused until its session is over, as in Kafka, and its client gives up.
    """
    entry = ConfigEntry(
        "consumer.static.takeover.enable", "true", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=[entry])
    client = admin(bootstrap)
    client.incremental_alter_configs([resource])[resource].result(ADMIN_S)


def kill_and_look(doomed: servers.RollcallServer, everyone: Sequence[Riders], number: int) -> None:
    """Kill; every second time a member of each group restarts meanwhile."""
    lives = [life for one in everyone for life in one.lives.values()]
    for life in lives:
        life.forget()
    promised = {g: acknowledged(one.of(g)) for one in everyone for g in one.groups()}
    restarted = [
        (one, label, life, life.owned, life.closed)
        for one in everyone
        for label, life in one.lives.items()
        if number % 2 and label.endswith(f"-{number // 2 % 2}")
    ]
    doomed.kill_coordinator(everyone[0].groups()[0])
    for one, label, *_ in restarted:
        one.order("restart", label)
    for one, label, life, owned, closed in restarted:

        def is_back(life: Life = life, owned: object = owned, closed: int = closed) -> bool:
            same = life.owned == owned if life.instance_id else bool(life.owned)
            return life.closed > closed and same

        until(is_back, SETTLE_S, f"{label} of {one.client} is back after kill {number}")
    wait_until_committing(everyone, f"after kill {number}", BACK_S)
    told(everyone, number, bool(restarted))
    undisturbed = [
        life
        for one in everyone
        for life in one.lives.values()
        if not restarted or (life.instance_id and not life.label.endswith(f"-{number // 2 % 2}"))
    ]
    assert [life for life in undisturbed if life.callbacks] == []
    for group, offsets in promised.items():
        assert not lost(doomed.bootstrap, group, offsets)


def told(everyone: Sequence[Riders], number: int, restarting: bool) -> None:
    """Print how long members went without an acknowledged commit."""
    how = "members restart" if restarting else "nobody restarts"
    for one in everyone:
        gaps = {label: life.longest_gap_ms for label, life in one.lives.items()}
        commits = sum(life.commits for life in one.lives.values())
        trouble = [dict(life.trouble) for life in one.lives.values() if life.trouble]
        print(  # noqa: T201
            f"{one.client} kill {number}, {how}: gaps {gaps} ms, {commits} commits, {trouble}"
        )
