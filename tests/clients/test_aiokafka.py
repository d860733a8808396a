"""aiokafka: members with a rebalance listener, static members, commits."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from tests.clients import wire
from tests.clients.confluent import create_topics
from tests.waiting import LONG_SESSION_MS, WITHIN_S, until_async

Event = tuple[str, frozenset[int]]


class Story(ConsumerRebalanceListener):
    """What a member was given and told to give up, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(p.partition for p in revoked)))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(p.partition for p in assigned)))


@asynccontextmanager
async def member(
    bootstrap: str, name: str, story: Story | None = None, instance_id: str | None = None
) -> AsyncIterator[AIOKafkaConsumer]:
    """Join the group of the test's name with its topic, and leave at the end."""
    made = AIOKafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=name,
        group_instance_id=instance_id,
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=LONG_SESSION_MS,
        metadata_max_age_ms=1000,
        auto_offset_reset="earliest",
    )
    made.subscribe([name], listener=story)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def owned(one: AIOKafkaConsumer) -> set[int]:
    return {p.partition for p in one.assignment()}


async def owns(one: AIOKafkaConsumer, count: int) -> None:
    """Wait until a member owns that many partitions."""

    async def ask() -> bool:
        return len(owned(one)) == count

    await until_async(ask, 30, f"a member owns {count} partitions")


async def has_been_told(story: Story, last: Event) -> None:
    """Wait until the listener has run, which is after the assignment shows."""

    async def ask() -> bool:
        return story.events[-1:] == [last]

    await until_async(ask, WITHIN_S, f"the listener was told {last}")


def test_a_listener_is_told_of_each_rebalance(bootstrap: str, name: str) -> None:
    async def scenario() -> None:
        story = Story()
        everything = frozenset({0, 1, 2, 3})
        async with member(bootstrap, name, story) as first:
            await owns(first, 4)
            async with member(bootstrap, name) as second:
                await owns(first, 2)
                await owns(second, 2)
                assert owned(first) | owned(second) == {0, 1, 2, 3}
                half = frozenset(owned(first))
            await owns(first, 4)
            await has_been_told(story, ("assigned", everything))
        assert [e for e in story.events if e[1]] == [
            ("assigned", everything),
            ("revoked", everything),
            ("assigned", half),
            ("revoked", half),
            ("assigned", everything),
        ]

    create_topics(bootstrap, [name], 4)
    asyncio.run(scenario())


def test_a_static_restart_disturbs_nobody(bootstrap: str, name: str) -> None:
    async def scenario() -> None:
        story = Story()
        async with AsyncExitStack() as stack:
            stays = await stack.enter_async_context(member(bootstrap, name, story, "stays"))
            async with member(bootstrap, name, None, "restarts") as restarts:
                await owns(stays, 2)
                await owns(restarts, 2)
                half = ("assigned", frozenset(owned(stays)))
                await has_been_told(story, half)
                before, told = owned(restarts), list(story.events)
                generation = await asyncio.to_thread(wire.generation_of, bootstrap, name)
            async with member(bootstrap, name, None, "restarts") as again:
                await owns(again, 2)
                assert owned(again) == before
                now = await asyncio.to_thread(wire.generation_of, bootstrap, name)
                assert now == generation
                assert story.events == told

    create_topics(bootstrap, [name], 4)
    asyncio.run(scenario())


def test_commits_are_found_again(bootstrap: str, name: str) -> None:
    async def scenario() -> None:
        zero = TopicPartition(name, 0)
        async with member(bootstrap, name) as one:
            await owns(one, 1)
            await one.commit({zero: OffsetAndMetadata(9, "note")})
        async with member(bootstrap, name) as again:
            await owns(again, 1)
            assert await again.committed(zero) == 9

    create_topics(bootstrap, [name], 1)
    asyncio.run(scenario())
