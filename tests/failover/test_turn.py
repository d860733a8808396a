"""The order of a turn: what leaves before the own write, and what waits for no sync."""

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from failover.effects import Effects
from failover.ports import Ports
from failover.turn import Turn
from protocol.groups.effects import Reply
from storage.log import DropBefore, Write
from storage.messages import Leading, Message
from tests.failover.hosts import T0, NoPorts

WRITE = DropBefore(0, 0)
TOLD = Leading(0, 1, 0)


class Recorder(NoPorts):
    """Ports that note what is done, in order, and a host that decides what it is told to."""

    def __init__(self, *, syncs_at_once: bool) -> None:
        self.done: list[str] = []
        self.decided: deque[Effects] = deque()
        self.syncs = SimpleNamespace(began=lambda _: None, ended=lambda _: None)
        self.disk_is_full = False
        self._syncs_at_once = syncs_at_once
        ports = Ports(
            log=self, clock=self, peers=self, answers=self, tasks=self, facts=self, timer=self
        )
        host: Any = self
        self.turn = Turn(host, ports)

    def take(self, *decided: Effects) -> list[str]:
        """Take a turn in which the host decides this; return what was done."""
        self.decided.extend(decided)
        before = len(self.done)
        self.turn.take()
        return self.done[before:]

    # --- the host

    def drain(self, now: int) -> Effects:
        return self.decided.popleft() if self.decided else Effects()

    def persisted(self, now: int, number: int) -> None:
        self.done.append(f"persisted {number}")

    def next_deadline(self) -> int | None:
        return None

    # --- the ports

    def now(self) -> int:
        return T0

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        self.done.append("send")

    def write(self, writes: Sequence[Write]) -> None:
        self.done.append("write")

    def sync(self) -> bool:
        self.done.append("sync")
        return self._syncs_at_once

    def answer(self, reply: Reply) -> None:
        self.done.append("answer")

    def flush(self) -> None:
        self.done.append("flush")


def unit(number: int, *, sync: bool = True) -> Effects:
    """What a host decides that appends a batch: it sends it, writes it and answers something."""
    reply = Reply(1, TOLD)  # type: ignore[arg-type]
    return Effects(number=number, messages={1: [TOLD]}, writes=[WRITE], sync=sync, replies=[reply])


@pytest.mark.parametrize("syncs_at_once", [True, False])
def test_messages_leave_before_the_own_write_and_its_sync(syncs_at_once: bool) -> None:
    turn = Recorder(syncs_at_once=syncs_at_once)
    persisted = ["persisted 0"] if syncs_at_once else []
    assert turn.take(unit(0)) == ["send", "write", "answer", "sync", *persisted, "flush"]


def test_turns_go_on_during_a_sync_and_the_next_one_covers_all_of_them() -> None:
    turn = Recorder(syncs_at_once=False)
    turn.take(unit(0))
    for number in (1, 2):
        assert turn.take(unit(number)) == ["send", "write", "answer", "flush"]
    turn.turn.synced()
    assert turn.take() == ["persisted 0", "sync", "flush"]
    turn.turn.synced()
    assert turn.take() == ["persisted 2", "flush"]


def test_what_needs_no_sync_waits_only_for_what_was_written_before() -> None:
    turn = Recorder(syncs_at_once=False)
    assert turn.take(unit(0, sync=False)) == ["send", "write", "answer", "persisted 0", "flush"]
    turn.take(unit(1))
    assert turn.take(unit(2, sync=False)) == ["send", "write", "answer", "flush"]
    turn.turn.synced()
    assert turn.take() == ["persisted 2", "flush"]
