"""How many Python functions run for one request of the main loads, from the host to its answer.

Speed is calls, mostly. Each limit is a little above the count. A test that fails here says that a
request became slower: find out why before you change the limit.

What is made once in a process (plans of messages, compiled functions, remembered bytes) would be
counted or not, depending on the tests that ran before. So each load runs twice, and the second run
counts.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from protocol.assignors.executor import Executor
from protocol.config import Configs
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import (
    Record,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TargetTopicPartitions,
    encode,
)
from protocol.unread import Row
from protocol.wire.embedded import encode_subscription
from protocol.wire.frames import decode_request, encode_request, encode_response
from protocol.wire.messages import OwnedTopicPartitions, ShareGroupHeartbeatRequest
from tests.counting import calls
from tests.failover.apis import asks
from tests.failover.working import beat, working_driver
from tests.protocol.groups.earlier import EARLIER

MEMBERS = 100
TOGETHER = 10
"""Members whose first requests arrive in one turn."""
PARTITIONS = 300
SHARE_MEMBERS = 5
SHARE_TOPICS = 100
INTERVAL_MS = 1_500
"""More than the assignment interval."""
LIMITS = {
    "consumer join": 258,
    "consumer settle": 127,
    "consumer full heartbeat": 77,
    "consumer heartbeat": 42,
    "share new assignment": 395,
    "classic join": 69,
    "classic sync": 48,
    "classic heartbeat": 35,
    "classic restart": 87,
}


class Load:
    """Requests to one coordinator, and the calls that they cost."""

    def __init__(self) -> None:
        self.driver = working_driver()
        self.driver.ask(19, 7, asks.create_topics("load", partitions=PARTITIONS))
        self.executor = Executor(lambda: 0.0)
        self.requests = self.calls = 0
        self.counts = True

    def calls_per_request(self, do: Callable[[], object]) -> float:
        """Return the calls for each request that ``do`` sends; assignors are not counted."""
        self.requests = self.calls = 0
        do()
        return self.calls / self.requests

    def ask(self, api_key: int, version: int, messages: Iterable[Any]) -> list[Any]:
        """Send requests that arrive together; return their answers."""
        driver, tickets = self.driver, []
        for message in messages:
            tickets.append(self._counted(lambda each=message: driver.give(api_key, version, each)))
        self._counted(driver.pump)
        self.wait(0)
        self.requests += len(tickets)
        return [driver.replies.pop(ticket) for ticket in tickets]

    def wait(self, ms: int) -> None:
        """Let time pass, and workers do what they are asked."""
        self._counted(lambda: self.driver.wait(ms))
        for partition, task in self.driver.__dict__.pop("submitted", []):
            answer = self.executor.run(task)
            self._counted(
                lambda each=(partition, answer): self.driver.host.computed(*each, self.driver.now)
            )
            self._counted(self.driver.pump)

    def replay(self, shard: GroupShard, rows: Sequence[Row]) -> None:
        """Replay rows that are all skipped, and count each as a request."""
        assert self._counted(lambda: shard.replay_rows(rows)) == (len(rows), len(rows))
        self.requests += len(rows)

    def _counted(self, do: Callable[[], Any]) -> Any:
        if not self.counts:
            return do()
        said: list[Any] = []
        self.calls += calls(lambda: said.append(do())) - 1
        return said[0]


class MemberLoad(Load):
    """Members of a consumer group, and what they know."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = {f"member-{number:03}": 0 for number in range(MEMBERS)}
        self.owned: dict[str, Any] = dict.fromkeys(self.epochs, ())
        self.told = dict(self.owned)

    def beat(self, says: Mapping[str, Mapping[str, Any]]) -> None:
        """Let members heartbeat, each with these fields beside its id and epoch."""
        requests = [beat("g", each, self.epochs[each], **more) for each, more in says.items()]
        for member, answer in zip(says, self.ask(68, 1, requests), strict=True):
            assert not answer.error_code, answer
            self.epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[member] = tuple(
                    OwnedTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                )

    def join(self) -> None:
        members = list(self.epochs)
        for first in range(0, MEMBERS, TOGETHER):
            some = members[first : first + TOGETHER]
            self.beat({member: {"subscribed_topic_names": ("load",)} for member in some})
            self.wait(50)

    def settle(self) -> None:
        """Let members heartbeat until all have told that they have their assignments."""
        while True:
            self.wait(INTERVAL_MS)
            before = dict(self.epochs), dict(self.owned)
            told, self.told = self.told, dict(self.owned)
            self.beat(
                {
                    member: {"topic_partitions": owned if owned != told[member] else None}
                    for member, owned in before[1].items()
                }
            )
            if before == (self.epochs, self.owned):
                break
        partitions = [each.partitions for owned in self.owned.values() for each in owned]
        assert sum(map(len, partitions)) == PARTITIONS

    def say_all(self) -> None:
        self.beat(
            {
                member: {
                    "rebalance_timeout": timedelta(seconds=60),
                    "subscribed_topic_names": ("load",),
                    "topic_partitions": owned,
                }
                for member, owned in list(self.owned.items())
            }
        )

    def say_nothing(self) -> None:
        self.beat({member: {} for member in self.epochs})


class ShareLoad(Load):
    """Members of a share group that each read many topics, and what they know."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = [f"t{number:03}" for number in range(SHARE_TOPICS)]
        self.driver.ask(19, 7, asks.create_topics(*self.topics, partitions=2))
        self.epochs = {f"member-{number}": 0 for number in range(SHARE_MEMBERS)}
        self.assigned = 0

    def beat(self, says: Mapping[str, Sequence[str] | None]) -> None:
        """Let members heartbeat, with these topics; their answers are encoded, too."""
        requests = [
            ShareGroupHeartbeatRequest(
                group_id="g",
                member_id=member,
                member_epoch=self.epochs[member],
                rack_id=None,
                subscribed_topic_names=None if topics is None else tuple(topics),
            )
            for member, topics in says.items()
        ]
        for member, answer in zip(says, self.ask(76, 1, requests), strict=True):
            assert not answer.error_code, answer
            self._counted(lambda told=answer: encode_response(76, 1, 0, told))
            self.epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                self.assigned += len(answer.assignment.topic_partitions)

    def join(self) -> None:
        self.beat(dict.fromkeys(self.epochs, self.topics))
        for _ in range(3):
            self.wait(INTERVAL_MS)
            self.beat(dict.fromkeys(self.epochs))

    def subscribe(self, topics: int) -> None:
        """Let one member read fewer topics, or all."""
        self.beat({"member-0": self.topics[:topics]})

    def learn(self) -> None:
        """Let the others get the new target, which their record has as well."""
        self.wait(INTERVAL_MS)
        self.assigned = 0
        others = [member for member in self.epochs if member != "member-0"]
        self.requests = self.calls = 0  # the target itself is counted elsewhere
        self.beat(dict.fromkeys(others))
        assert self.assigned >= len(others) * SHARE_TOPICS // 2, "many topics are news"


class ClassicLoad(Load):
    """Members of a classic group, and what they know."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.generation = 0

    def join(self) -> None:
        nameless = self.ask(11, 9, [asks.join("g") for _ in range(MEMBERS)])
        self.ids = [each.member_id for each in nameless]
        joined = self.ask(11, 9, [asks.join("g", each) for each in self.ids])
        (self.generation,) = {each.generation_id for each in joined}

    def sync(self) -> None:
        assignments = dict.fromkeys(self.ids, b"assignment")
        requests = [asks.sync("g", self.generation, each, assignments) for each in self.ids]
        assert not any(each.error_code for each in self.ask(14, 5, requests))

    def beat(self) -> None:
        requests = [asks.heartbeat("g", self.generation, each) for each in self.ids]
        assert not any(each.error_code for each in self.ask(12, 4, requests))


class RestartLoad(Load):
    """Static members that all return: frames are decoded, and answers encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.names = [f"instance-{number}" for number in range(MEMBERS)]
        self.generation = 0

    def exchange(self, api_key: int, version: int, messages: Iterable[Any]) -> list[Any]:
        """Send requests as frames that arrive together; return their answers."""
        frames = [encode_request(api_key, version, 1, "c", each)[4:] for each in messages]
        requests = [self._counted(lambda each=frame: decode_request(each)) for frame in frames]
        answers = self.ask(api_key, version, [each.message for each in requests])
        for answer in answers:
            self._counted(lambda each=answer: encode_response(api_key, version, 1, each))
        return answers

    def restart(self) -> None:
        """Let all members join without their member ids, and fetch their assignments."""
        joins = [asks.join("g", "", name, encode_subscription(["t"])) for name in self.names]
        joined = self.exchange(11, 9, joins)
        assert not any(each.error_code for each in joined)
        ids = [each.member_id for each in joined]
        generation = joined[0].generation_id
        shares = {} if generation == self.generation else dict.fromkeys(ids, b"assignment")
        self.generation = generation
        syncs = [
            replace(asks.sync("g", generation, member_id, shares), group_instance_id=name)
            for member_id, name in zip(ids, self.names, strict=True)
        ]
        synced = self.exchange(14, 5, syncs)
        assert {(each.error_code, each.assignment) for each in synced} == {(0, b"assignment")}


L = TypeVar("L", bound=Load)


def second_run(kind: type[L], run: Callable[[L], dict[str, float]]) -> dict[str, float]:
    """Return the counts of a load's second run that are above their limits."""
    first = kind()
    first.counts = False
    run(first)
    return {name: count for name, count in run(kind()).items() if count > LIMITS[name]}


def test_members_of_consumer_groups_join_settle_and_heartbeat_in_few_calls() -> None:
    def run(load: MemberLoad) -> dict[str, float]:
        return {
            "consumer join": load.calls_per_request(load.join),
            "consumer settle": load.calls_per_request(load.settle),
            "consumer full heartbeat": load.calls_per_request(load.say_all),
            "consumer heartbeat": load.calls_per_request(load.say_nothing),
        }

    assert second_run(MemberLoad, run) == {}


def test_members_of_share_groups_get_new_assignments_of_many_topics_in_few_calls() -> None:
    def run(load: ShareLoad) -> dict[str, float]:
        load.join()
        load.subscribe(10)
        return {"share new assignment": load.calls_per_request(load.learn)}

    assert second_run(ShareLoad, run) == {}


def test_members_of_classic_groups_join_sync_and_heartbeat_in_few_calls() -> None:
    def run(load: ClassicLoad) -> dict[str, float]:
        return {
            "classic join": load.calls_per_request(load.join),
            "classic sync": load.calls_per_request(load.sync),
            "classic heartbeat": load.calls_per_request(load.beat),
        }

    assert second_run(ClassicLoad, run) == {}


def test_static_members_of_classic_groups_restart_in_few_calls() -> None:
    def run(load: RestartLoad) -> dict[str, float]:
        load.restart()
        generation = load.generation
        counts = {"classic restart": load.calls_per_request(load.restart)}
        assert load.generation == generation
        return counts

    assert second_run(RestartLoad, run) == {}


def test_records_that_nothing_replays_are_not_read() -> None:
    key = ShareGroupTargetAssignmentMemberKey(group_id="s", member_id="m")
    topic = TargetTopicPartitions(topic_id=UUID(int=1), partitions=tuple(range(100)))
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=(topic,))
    rows = [encode(Record(key, value))] * 100
    shard = GroupShard(Configs({}), Topics([]), random.Random(1), EARLIER)
    load = Load()
    load.replay(shard, rows)
    assert load.calls_per_request(lambda: load.replay(shard, rows)) <= 1
