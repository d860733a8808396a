"""`rollcall watch` goes on while brokers die and come back, and tells each story once.

Three brokers and a controller. The one that leads the only partition of ``__consumer_offsets``,
which also coordinates the group, is killed and started again; once it is in sync, the leader of
then is killed for good.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewTopic

from bench.servers import kafka as kafka_servers
from tests.clients import servers
from tests.clients.confluent import admin as admin_of
from tests.clients.java import java
from tests.exchange.watched_kafka import LOG, TOLD_S, TOPIC, Members, Watching
from tests.waiting import SESSION_MS, until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

GROUP = "riders"
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
HEAP_MIB = 256
CHEAP_JVM = "-XX:TieredStopAtLevel=1"
"""Nobody waits for a test's brokers to be fast: what is compiled quickly takes less CPU time."""


@pytest.mark.timeout(900)
@pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself")
def test_a_watch_outlives_the_brokers_that_it_reads_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", CHEAP_JVM)
    monkeypatch.setattr(kafka_servers, "START_SECONDS", servers.START_S)
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_servers.kafka_cluster(3, CONFIGS, HEAP_MIB))
        bootstrap = ",".join(f"{host}:{port}" for host, port in kafka.bootstrap)
        admin = admin_of(bootstrap)
        for future in admin.create_topics([NewTopic(TOPIC, 4, 3)]).values():
            future.result()
        members = Members(bootstrap)
        stack.callback(members.close)
        a = members.join("consumer", GROUP, "a")
        until(lambda: "ASSIGNED 4" in a.lines, TOLD_S, "a has all partitions")
        place = ("--state", str(tmp_path / "place"))
        watching = Watching(bootstrap, tmp_path, *place)
        stack.callback(watching.close)
        b = members.join("consumer", GROUP, "b")
        watching.expect(GROUP, "member b .*joined.*; 2 of 4 partitions moved$")

        first, _ = leader_and_replicas(admin)
        kafka.kill(first)
        b.leave()
        watching.expect(GROUP, "member b .*(left|is gone|no heartbeat)")
        kafka.start_again(first)
        until(lambda: first in leader_and_replicas(admin)[1], TOLD_S, "it is in sync again")

        second, _ = leader_and_replicas(admin)
        assert second != first, "nothing moves the leadership back by itself so soon"
        kafka.kill(second)
        c = members.join("consumer", GROUP, "c")
        watching.expect(GROUP, "member c .*joined.*; 2 of 4 partitions moved$")
        watching.stop()

        c.leave()
        again = Watching(bootstrap, tmp_path, *place)
        stack.callback(again.close)
        again.expect(GROUP, "member c .*(left|is gone|no heartbeat)")
        again.stop()
        noted = watching.noted() + again.noted()
        assert "reading everything again" not in noted
        assert "no broker answers" not in noted, "two of three always do"
        told = [*watching.stories(), *again.stories()]
        assert twice(told) == []
        epochs = {(each["before"], each["after"]) for each in told}
        begun = sorted(before for before, _ in epochs)
        assert begun[1:] == sorted(after for _, after in epochs)[:-1], "no epoch is passed over"
        assert {each["group_id"] for each in told} == {GROUP}


def leader_and_replicas(admin: AdminClient) -> tuple[int, list[int]]:
    """Return who leads the log that is watched, and which replicas are in sync."""
    partition = admin.list_topics(LOG, timeout=TOLD_S).topics[LOG].partitions[0]
    return partition.leader, partition.isrs


def twice(stories: Iterable[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Return what was told twice: a story is told again once its rebalance has ended."""
    told = Counter(
        (each["after"], each["cause"], str(each.get("who")), each.get("revision", 0))
        for each in stories
    )
    return [each for each, count in told.items() if count > 1]
