"""Kafka's tools for groups print here what they print on Kafka, and ours prints it on both.

The same conversations are held with a real Kafka 4.3.1 and with Rollcall: members of given ids
join and leave, and between their steps the tools run: kafka-consumer-groups, kafka-share-groups,
kafka-streams-groups and `rollcall groups`. What they print must be the same, but for the
coordinator's address.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients import servers
from tests.clients.modern_members import ConsumerMember, ShareMember, StreamsMember
from tests.clients.tools.side_by_side import (
    CONSUMER,
    GROUP,
    PARTITIONS,
    SHARE,
    STREAMS,
    TOPIC,
    Both,
    ClassicMember,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]


@pytest.mark.parametrize(
    ("kind", "member_ids"),
    [(ClassicMember, ("dynamic", "static")), (ConsumerMember, ("member-1", "member-2"))],
    ids=["classic", "consumer"],
)
def test_kafka_consumer_groups_prints_what_it_prints_on_kafka(
    both: Both,
    kind: type[ClassicMember | ConsumerMember],
    member_ids: Sequence[str],
    tmp_path: Path,
) -> None:
    def described(*, ours: bool = True) -> None:
        both.describe(CONSUMER, ours=ours)

    def reset(*words: str) -> None:
        both.run(CONSUMER, "--reset-offsets", "--group", GROUP, *words, ours=True)

    def commit() -> None:
        words = ("--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
        both.run(CONSUMER, "--reset-offsets", *words)

    described(ours=False)
    both.join(kind, member_ids[0])
    described()
    if kind is ClassicMember:
        both.commit(3)
    both.join(kind, member_ids[1])
    described()
    for words in ((), ("--state",), ("--type",), ("--state", "stable"), ("--state", "empty")):
        both.run(CONSUMER, "--list", *words, ours=True)
    both.run(CONSUMER, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.remove_all()
    described()
    reset("--topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--topic", TOPIC, "--to-latest", "--execute")
    described()
    reset("--topic", f"{TOPIC}:0,2", "--to-offset", "0", "--execute")
    reset("--topic", TOPIC, "--shift-by", "-1", "--dry-run")
    reset("--topic", TOPIC, "--by-duration", "PT1H", "--execute")
    reset("--topic", TOPIC, "--to-datetime", "2026-01-01T00:00:00.000", "--execute")
    reset("--all-topics", "--to-current", "--execute")
    reset("--all-topics", "--to-current", "--export", "--dry-run")
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f"{TOPIC},{number},0\n" for number in range(PARTITIONS)))
    reset("--from-file", str(plan), "--export", "--dry-run")
    reset("--from-file", str(plan), "--execute")
    words = ("--reset-offsets", "--all-groups", "--topic", TOPIC, "--to-latest")
    both.run(CONSUMER, *words, "--dry-run", ours=True)
    both.run(CONSUMER, *words, "--execute", ours=True)
    described()
    for topic in (f"{TOPIC}:1", TOPIC):
        words = ("--delete-offsets", "--group", GROUP, "--topic", topic)
        both.run(CONSUMER, *words, ours=True, again=commit)
        described()
    both.delete(CONSUMER, again=commit)
    assert not both.differences, "\n".join(both.differences)


def two_members_come(both: Both, tool: str, member: type[ShareMember | StreamsMember]) -> None:
    """Let two members join, and see what lists and descriptions say of them."""
    both.describe(tool)
    for name in ("member-1", "member-2"):
        both.join(member, name)
        both.describe(tool, ours=True)
    for states in ((), ("--state",), ("--state", "stable,empty"), ("--state", "empty")):
        both.run(tool, "--list", *states, ours=True)
    both.run(tool, "--describe", "--all-groups", "--state")


def test_kafka_share_groups_prints_what_it_prints_on_kafka(both: Both) -> None:
    def described(*, ours: bool = False) -> None:
        both.describe(SHARE, ours=ours)

    def reset(*words: str, ours: bool = True) -> None:
        both.run(SHARE, "--reset-offsets", "--group", GROUP, *words, ours=ours)

    def come_and_go() -> None:
        both.join(ShareMember, "member-1")
        both.leave("member-1")

    def start() -> None:
        reset("--topic", TOPIC, "--to-earliest", "--execute", ours=False)

    two_members_come(both, SHARE, ShareMember)
    reset("--topic", TOPIC, "--to-earliest", "--execute")
    both.run(SHARE, "--delete-offsets", "--group", GROUP, "--topic", TOPIC)
    both.run(SHARE, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.leave("member-1")
    described()
    both.leave("member-2")
    described(ours=True)
    both.run(SHARE, "--list", "--state", ours=True)
    reset("--topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--topic", TOPIC, "--to-latest", "--execute")
    described()
    reset("--topic", f"{TOPIC}:0,2", "--to-earliest", "--execute")
    reset("--topic", f"{TOPIC}:9", "--to-earliest", "--execute")
    reset("--topic", "missing", "--to-earliest", "--execute")
    reset("--all-topics", "--to-datetime", "2026-01-01T00:00:00.000", "--execute")
    reset("--all-topics", "--to-earliest", "--execute")
    described()
    both.run(SHARE, "--delete-offsets", "--group", GROUP, "--topic", "missing")
    both.run(SHARE, "--delete-offsets", "--group", "no-group", "--topic", TOPIC)
    words = ("--delete-offsets", "--group", GROUP, "--topic", TOPIC)
    both.run(SHARE, *words, ours=True, again=start)
    described(ours=True)
    both.run(SHARE, "--delete", "--group", "no-group")
    both.delete(SHARE, again=come_and_go)
    described()
    assert not both.differences, "\n".join(both.differences)


def test_kafka_streams_groups_prints_what_it_prints_on_kafka(both: Both) -> None:
    def described(*, ours: bool = False) -> None:
        both.describe(STREAMS, ours=ours)

    def reset(*words: str, ours: bool = True) -> None:
        both.run(STREAMS, "--reset-offsets", "--group", GROUP, *words, ours=ours)

    def come_and_go() -> None:
        both.join(StreamsMember, "member-1")
        both.leave("member-1")

    two_members_come(both, STREAMS, StreamsMember)
    reset("--input-topic", TOPIC, "--to-earliest", "--execute")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", TOPIC)
    both.run(STREAMS, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.leave("member-1")
    described()
    both.leave("member-2")
    described(ours=True)
    reset("--input-topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--input-topic", TOPIC, "--to-earliest", "--execute")
    described()
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", f"{TOPIC}:1")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", "missing")
    both.run(STREAMS, "--delete-offsets", "--group", "no-group", "--input-topic", TOPIC)
    reset("--input-topic", f"{TOPIC}:0,2", "--to-latest", "--execute")
    reset("--input-topic", f"{TOPIC}:9", "--to-earliest", "--execute")
    reset("--all-input-topics", "--to-current", "--execute", "--export")
    reset("--all-input-topics", "--to-earliest", "--execute", "--delete-all-internal-topics")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--all-input-topics", ours=True)
    both.commit_without_members()
    reset("--input-topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--input-topic", f"{TOPIC}:0,2", "--to-latest", "--execute")
    reset("--all-input-topics", "--to-current", "--execute", "--export")
    reset("--all-input-topics", "--to-earliest", "--execute")
    for selected in (("--input-topic", f"{TOPIC}:1"), ("--all-input-topics",)):
        words = ("--delete-offsets", "--group", GROUP, *selected)
        both.commit_without_members()
        both.run(STREAMS, *words, ours=True, again=both.commit_without_members)
    described(ours=True)
    both.run(STREAMS, "--delete", "--group", "no-group")
    both.delete(STREAMS, again=come_and_go)
    described()
    assert not both.differences, "\n".join(both.differences)
