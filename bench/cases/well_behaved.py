"""Well-behaved clients in their own process, which measure the effect of other load.

On each coordinator a group of 20 static members heartbeats and commits, and asks for its topic and
its coordinator. Each answer must be identical to the first of its kind. Latency counts from the
time at which a request was due, so that no stall is hidden.
"""

from __future__ import annotations

import os
import time
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from bench.cases.commits import commit
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import AnswerError, Pipeline, RepeatedRequest
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner, heartbeat
from bench.load.side_process import side_process
from bench.report.progress import note
from bench.report.rounds import latencies
from protocol.client.frames import HEARTBEAT_ANSWER, frame_of
from protocol.wire.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection as Pipe

    from kio.static.protocol import RequestPayload

MEMBERS: Final = 20
HEARTBEATS_PER_SECOND: Final = 300
TOPIC: Final = "bench"
ANSWER_S_MAX: Final = 30
HEARTBEAT: Final = HEARTBEAT_ANSWER.pack(HEARTBEAT_ANSWER.size - 4, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WellBehavedResult:
    """The well-behaved clients' latencies of heartbeats, in seconds, and when each was due."""

    due: array[float]
    taken: array[float]
    others: int
    """How many other requests were answered correctly."""
    failure: str
    """What failed, if anything; then all clients stopped."""

    def between(self, begun: float, ended: float) -> array[float]:
        """Return the latencies of the heartbeats due in a period of ``time.perf_counter()``."""
        pairs = zip(self.due, self.taken, strict=True)
        return array("d", [taken for due, taken in pairs if begun <= due < ended])

    def minute_p99s_ms(self, begun: float, ended: float) -> list[float]:
        """Return the p99 of each whole minute of the period, in order of time.

        A p99 that grows, or has one bad minute, differs from a steady one.
        """
        minutes = [array("d") for _ in range(int((ended - begun) // 60))]
        for due, taken in zip(self.due, self.taken, strict=True):
            number = int((due - begun) // 60)
            if 0 <= number < len(minutes):
                minutes[number].append(taken)
        return [latencies(minute)["p99_ms"] for minute in minutes if minute]


class WellBehavedClients:
    """The process with the well-behaved clients."""

    def __init__(self, pipe: Pipe, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def stop(self) -> WellBehavedResult:
        """Stop it, and return its measurements."""
        self._pipe.send(None)
        result: WellBehavedResult = self._pipe.recv()
        return result

    def has_failed(self) -> bool:
        """Whether it has ended because a request failed."""
        return self._pipe.poll()


@contextmanager
def well_behaved_clients(
    bootstrap: Sequence[tuple[str, int]], group_ids: Sequence[str]
) -> Iterator[WellBehavedClients]:
    """Run a group for each id until the block ends; stop it inside the block."""
    with side_process(_run, bootstrap, group_ids) as pipe:
        yield WellBehavedClients(pipe, pipe.recv())


def _run(bootstrap: Sequence[tuple[str, int]], group_ids: Sequence[str], pipe: Pipe) -> None:
    reactor = Reactor()
    beats: list[Pipeline] = []
    others: list[Pipeline] = []
    for group_id in group_ids:
        _join(group_id, bootstrap[0], reactor, beats, others)
    pipe.send("ready")
    pipe.send(os.getpid())
    due = array("d")
    failure = ""
    try:
        _send_requests(reactor, beats, others, due, pipe)
    except (AnswerError, ConnectionError) as error:
        failure = str(error)
    by_pipeline = [pipeline.latencies_s for pipeline in beats]
    taken = array("d", chain.from_iterable(zip(*by_pipeline, strict=False)))
    pipe.send(
        WellBehavedResult(
            due=due[: len(taken)],
            taken=taken,
            others=sum(len(pipeline.latencies_s) for pipeline in others),
            failure=failure,
        )
    )
    if failure:
        pipe.recv()


def _send_requests(
    reactor: Reactor,
    beats: Sequence[Pipeline],
    others: Sequence[Pipeline],
    due: array[float],
    pipe: Pipe,
) -> None:
    """Send each pipeline's next request in turn until told to stop; then wait for the open ones."""
    begun, number, other = time.perf_counter(), 0, 0
    in_flight_max = ANSWER_S_MAX * HEARTBEATS_PER_SECOND // len(beats)
    told = [0] * len(beats)
    while not pipe.poll():
        now = time.perf_counter()
        while (at := begun + number / HEARTBEATS_PER_SECOND) <= now:
            due.append(at)
            beats[number % len(beats)].send(1, at)
            if number % 10 == 0 and not others[other % len(others)].in_flight:
                others[other % len(others)].send(1, at)
                other += 1
            number += 1
            if number % (60 * HEARTBEATS_PER_SECOND) == 0:
                _tell_last_minute(beats, told)
        reactor.turn(max(at - time.perf_counter(), 0))
        if any(pipeline.in_flight > in_flight_max for pipeline in beats):
            raise AnswerError(f"a heartbeat had no answer within {ANSWER_S_MAX} s")
    while number % len(beats):  # the same number for each pipeline
        at = time.perf_counter()
        due.append(at)
        beats[number % len(beats)].send(1, at)
        number += 1
    deadline = time.perf_counter() + ANSWER_S_MAX
    while any(pipeline.in_flight for pipeline in (*beats, *others)):
        if time.perf_counter() > deadline:
            raise AnswerError(f"no answer within {ANSWER_S_MAX} s")
        reactor.turn(0.1)


def _tell_last_minute(beats: Sequence[Pipeline], told: list[int]) -> None:
    """Show the p99 of the answers since the last call; ``told`` counts each pipeline's answers."""
    pairs = list(zip(beats, told, strict=True))
    taken = array("d", chain.from_iterable(p.latencies_s[n:] for p, n in pairs))
    told[:] = [len(pipeline.latencies_s) for pipeline in beats]
    if taken:
        note(f"  well-behaved clients' p99 in the last minute: {latencies(taken)['p99_ms']:.2f} ms")


def _join(
    group_id: str,
    address: tuple[str, int],
    reactor: Reactor,
    beats: list[Pipeline],
    others: list[Pipeline],
) -> None:
    """Make one group Stable; return pipelines for its members and for their other requests."""
    with BlockingClient(address) as connection:
        connection.create_topic(TOPIC, MEMBERS)
        coordinator = connection.coordinator(group_id)
    names = tuple(f"{group_id}-{number}" for number in range(MEMBERS))
    plan = GroupPlan(group_id=group_id, topic=TOPIC, instance_ids=names)
    joiner = Joiner(plan, reactor, reactor.open(coordinator, MEMBERS))
    joiner.join_all()
    for number, member in enumerate(joiner.members):
        request = RepeatedRequest(frame_of(heartbeat(member)), HEARTBEAT)
        beats.append(Pipeline(member.channel, [request]))
        if number < 3:
            (channel,) = reactor.open(coordinator, 1)
            others.append(Pipeline(channel, [commit(plan, member, number)]))
    topic = MetadataRequestTopic(topic_id=None, name=TOPIC)
    questions: tuple[Any, ...] = (
        FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,)),
        MetadataRequest(
            topics=(topic,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )
    for question in questions:
        (channel,) = reactor.open(coordinator, 1)
        others.append(
            Pipeline(channel, [RepeatedRequest(frame_of(question), _answer(coordinator, question))])
        )


def _answer(address: tuple[str, int], question: RequestPayload) -> bytes:
    """Send the request once; return the answer to expect from then on, with its length."""
    with BlockingClient(address) as connection:
        return connection.ask_frame(frame_of(question))
