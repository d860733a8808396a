"""Times a new target assignment end to end: group, arrays, worker process, record bytes.

A process at the other end of a pipe does what an assignor worker does: it reads a task, updates its
cached arrays, assigns, checks, writes the values of the target assignment's records, and answers.
``full`` sends the whole group, ``join`` and ``leave`` only the changes. Kafka's side is its
``TargetAssignmentBuilder`` alone, in place: its records are not written to bytes.
"""

from __future__ import annotations

import multiprocessing
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from actors.workers.task_frames import RunTiming, pack_answer, read_answer, read_task, task_parts
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.consumer.records import UNKNOWN_MEMBER
from protocol.groups.effects import AssignmentComputed
from protocol.groups.modern.target_feed import TargetFeed
from protocol.groups.topics import Topic, Topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from protocol.assignors.spec import GroupSpec

WORKER_MODES: Final = ("full", "join", "leave")
GROUP: Final = "group"
START_TIMEOUT_S: Final = 120


class TimedWorker:
    """The coordinator's end of the pipe: a consumer group, and what the worker has cached of it."""

    def __init__(self, pipe: Connection, spec: GroupSpec, assignor: str) -> None:
        self._pipe = pipe
        self._assignor = assignor
        self._run = 0
        self._feed = TargetFeed()
        self._group = ConsumerGroup(GROUP)
        sizes = (spec.partition_starts[1:] - spec.partition_starts[:-1]).tolist()
        names = [f"topic-{topic}" for topic in range(spec.topic_count)]
        self._topics = Topics(
            Topic(UUID(int=topic + 1), names[topic], size) for topic, size in enumerate(sizes)
        )
        starts, listed = spec.class_starts.tolist(), spec.class_topics.tolist()
        for member, number in enumerate(spec.member_class.tolist()):
            topics = listed[starts[number] : starts[number + 1]]
            subscribed = tuple(names[at] for at in topics)
            metadata = replace(UNKNOWN_MEMBER, subscribed_topic_names=subscribed)
            self._group.put_member(f"member-{member:06d}", metadata)
        self._last = next(reversed(self._group.members.values()))

    def whole(self) -> AssignmentComputed:
        """Assign the whole group, without the worker's cache."""
        self._feed.start_over()
        return self._ask()

    def join(self) -> AssignmentComputed:
        """Let the last member join the group that the worker has cached."""
        self._group.put_member(self._last.member_id, self._last.metadata)
        self._feed.member_changed(self._last.member_id)
        return self._ask()

    def leave(self) -> AssignmentComputed:
        """Let the last member leave the group that the worker has cached."""
        self._group.remove_member(self._last.member_id)
        self._feed.member_gone(self._last.member_id)
        return self._ask()

    def _ask(self) -> AssignmentComputed:
        self._run += 1
        task = self._feed.task(self._group, self._topics, self._run, self._assignor)
        for part in task_parts(task):
            self._pipe.send_bytes(part)
        self._pipe.send_bytes(b"")
        answer, _ = read_answer(self._pipe.recv_bytes())
        assert isinstance(answer, AssignmentComputed), answer
        self._feed.base_run = self._run
        return answer


@contextmanager
def running_worker(spec: GroupSpec, assignor: str) -> Iterator[TimedWorker]:
    """Start a worker process and wait until its kernels are compiled."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(START_TIMEOUT_S):
            raise OSError(f"the worker process was not ready after {START_TIMEOUT_S} s")
        ours.recv_bytes()
        yield TimedWorker(ours, spec, assignor)
    finally:
        ours.close()
        process.join(10)
        process.terminate()


def time_worker(spec: GroupSpec, assignor: str, mode: str, calls: int) -> list[float]:
    """Return the ms of each call, from the coordinator's group to the bytes of every record."""
    took_ms = []
    with running_worker(spec, assignor) as worker:
        worker.whole()
        for call in range(calls + 5):
            if mode == "join":
                worker.leave()
            began_at = time.perf_counter()
            answer = {"full": worker.whole, "join": worker.join, "leave": worker.leave}[mode]()
            values = [answer.members[place] for place in range(len(answer.members))]
            if call >= 5:
                took_ms.append((time.perf_counter() - began_at) * 1000)
            assert values
            if mode == "leave":
                worker.join()
    return took_ms


def _serve(pipe: Connection) -> None:
    from protocol.assignors.executor import Executor
    from protocol.assignors.warm_up import warm_up

    warm_up()
    executor = Executor(time.perf_counter)
    pipe.send_bytes(b"ready")
    while True:
        try:
            answer = executor.run(read_task(iter(pipe.recv_bytes, b"")))
        except EOFError:
            return
        pipe.send_bytes(pack_answer(answer, RunTiming(0, 0)))
