"""Share and streams groups of a watched Kafka: what happens there, and what is told of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka.admin import NewPartitions

from protocol.stories.causes import Cause
from tests.clients import wire
from tests.clients.confluent import admin, create_topics
from tests.clients.modern_members import ShareMember, StreamsMember
from tests.exchange.watched_kafka import TOPIC
from tests.waiting import patient, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONFIGS, GROUP, SET, DELETE = 44, 32, 0, 1
SHORT: Final[Mapping[str, str]] = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "5500"}
"""Configs of a group whose member vanishes: its heartbeat shows when they apply."""

MEMBERS: Final = {"share": ShareMember, "streams": StreamsMember}
WITHIN_S: Final = patient(60)


class WatchedGroup:
    """A group of one type, with a topic of its own; ``members`` live."""

    def __init__(self, bootstrap: str, kind: str) -> None:
        self.kind, self.topic = kind, topic_of(kind)
        self.members: list[ShareMember | StreamsMember] = []
        self._bootstrap = bootstrap
        self._count = 0
        if not wire.partitions(bootstrap, self.topic):
            create_topics(bootstrap, [self.topic], 4)

    def beat(self) -> None:
        """Let all members heartbeat."""
        for each in self.members:
            each.beat()

    def join(self) -> None:
        """Let a member join, and all take over what they are to have."""
        self._count += 1
        name = f"{self.kind}-{self._count}"
        self.members.append(MEMBERS[self.kind](self._bootstrap, self.kind, name, self.topic))

        def is_settled() -> bool:
            self.beat()
            return all(each.assigned for each in self.members) and self.members[0].is_settled()

        until(is_settled, WITHIN_S, f"{name} has joined, and the group is settled")

    def leave(self) -> None:
        """Let the last member leave."""
        self.members.pop().leave()

    def vanish(self) -> None:
        """Let the last member vanish; its session ends, no other one does."""
        lost = self.members.pop()
        self._configure(SET)
        expected = timedelta(milliseconds=int(SHORT["heartbeat.interval.ms"]))
        until(lambda: lost.beat().heartbeat_interval == expected, WITHIN_S, "its session is short")
        self._configure(DELETE)
        until(
            lambda: lost.member_id not in {each.member_id for each in lost.describe().members},
            WITHIN_S,
            f"the session of {lost.member_id} has ended",
        )

    def enlarge(self) -> None:
        """Let the topic have more partitions."""
        client = admin(self._bootstrap)
        for future in client.create_partitions([NewPartitions(self.topic, 6)]).values():
            future.result()

    def _configure(self, operation: int) -> None:
        def request(m: Any) -> Any:
            configs = tuple(
                m.AlterableConfig(
                    name=f"{self.kind}.{name}", config_operation=operation, value=value
                )
                for name, value in SHORT.items()
            )
            resource = m.AlterConfigsResource(
                resource_type=GROUP, resource_name=self.kind, configs=configs
            )
            return m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        with wire.Wire(self._bootstrap) as connection:
            (answer,) = connection.call(CONFIGS, 1, request).responses
        assert answer.error_code == wire.NONE, answer


def topic_of(kind: str) -> str:
    """Return the topic of a group: that of a streams group is known to its broker for long."""
    return TOPIC if kind == "streams" else f"{kind}-bills"


class Step(NamedTuple):
    """One thing that happens in a group (None: it comes of the one before), and what is told.

    ``cause`` is the one that its trace has; ``inferred`` a pattern of the evidence, "" if the
    records say it.
    """

    act: Callable[[WatchedGroup], None] | None
    told: str
    cause: Cause
    inferred: str = ""


GONE: Final = "left or its session ended; it never committed"


def _comes_and_goes(kind: str) -> tuple[Step, ...]:
    """Return what is told of the second and third member: one leaves, one vanishes."""
    return (
        Step(WatchedGroup.join, f"member {kind}-2 .*joined", Cause.JOINED),
        Step(WatchedGroup.leave, f"member {kind}-2 .*is gone .inferred", Cause.GONE, GONE),
        Step(WatchedGroup.join, f"member {kind}-3 .*joined", Cause.JOINED),
        Step(WatchedGroup.vanish, f"member {kind}-3 .*is gone .inferred", Cause.GONE, GONE),
    )


_SHARE_STATE: Final = "more of its partitions may be assigned; 4 partitions newly"
_READY: Final = "all topics of its topology exist now; 8 tasks newly"
_UNFIT: Final = "other numbers of partitions; 0 tasks moved; 8 without an owner now"
"""The internal topics have as many partitions as the topic had before."""
_HASH: Final = "hash is another one"

STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    "share": (
        Step(WatchedGroup.join, "member .* joined", Cause.JOINED),
        Step(None, _SHARE_STATE, Cause.SHARE_STATE),
        *_comes_and_goes("share"),
        Step(WatchedGroup.enlarge, "topics have changed .inferred", Cause.TOPICS_CHANGED, _HASH),
    ),
    "streams": (
        Step(WatchedGroup.join, "member .* joined", Cause.JOINED),
        Step(None, _READY, Cause.TOPOLOGY_READY),
        *_comes_and_goes("streams"),
        Step(WatchedGroup.enlarge, _UNFIT, Cause.TOPOLOGY_NOT_READY),
    ),
}
"""What happens in a group of each type, one after the other."""
