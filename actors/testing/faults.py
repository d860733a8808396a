"""Faults that a test asks for: requests answered with an error, assignors that take longer.

A :class:`InjectedFaults` is installed into the coordinators of a test's cluster. No config, request
or command does that, so no other cluster can have faults.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.serving.memo import Memo
from protocol.groups.effects import CancelAssignment, Reply
from protocol.wire.apis import API, Route, error_response, group_ids
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.coordinator.pump import Pump
    from actors.workers.dispatcher import WorkerDispatcher
    from protocol.groups.effects import Request, WorkerTask

COUNT_MAX: Final = 1_000_000
FAULTS_MAX: Final = 1_000
DELAY_MS_MAX: Final = 60_000
OWN_CLIENT_ID: Final = "rollcall-test"
"""The client id of the requests that verbs send: no fault concerns them."""

API_KEYS: Final = {api.name: api.key for api in API.values()}
ERRORS: Final = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}
MESSAGE: Final = "a fault that a test asked for"


@dataclass(slots=True)
class _Fault:
    """The next ``left`` requests of one API, of one group or (None) any, get an error."""

    api_key: int
    error: ErrorCode
    left: int
    group_id: str | None


class InjectedFaults:
    """The faults of one cluster, and how many requests each still concerns."""

    def __init__(self) -> None:
        self.assignor_delay_ms = 0
        self._faults: list[_Fault] = []
        self._pumps: list[Pump] = []

    def add(self, api: str, error: str, count: int, group_id: str | None) -> None:
        """Answer the next ``count`` requests of an API with an error; Kafka's names of both.

        Raises ValueError with a sentence.
        """
        if api not in API_KEYS:
            raise ValueError(f"{api!r} is not served; the APIs are {', '.join(sorted(API_KEYS))}")
        if error not in ERRORS:
            raise ValueError(f"{error!r} is not one of Kafka's errors, such as NOT_COORDINATOR")
        if not 1 <= count <= COUNT_MAX:
            raise ValueError(f"count must be from 1 to {COUNT_MAX}, not {count}")
        row = API[API_KEYS[api]]
        if group_id is not None and row.route not in (Route.GROUP, Route.GROUPS):
            raise ValueError(f"{api} names no group: leave out group")
        if len(self._faults) == FAULTS_MAX:
            raise ValueError(f"{FAULTS_MAX} faults wait already")
        self._faults.append(_Fault(row.key, ERRORS[error], count, group_id))
        for pump in self._pumps:
            pump.listener.memo = Memo()  # it answers repeated heartbeats before we see them

    def left(self) -> int:
        """Return how many requests are still to get an error."""
        return sum(fault.left for fault in self._faults)

    def delay_assignor(self, delay_ms: int) -> None:
        """Let each run of a server-side assignor begin so much later. Raises ValueError."""
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise ValueError(f"the delay must be from 0 to {DELAY_MS_MAX} ms, not {delay_ms}")
        self.assignor_delay_ms = delay_ms

    def clear(self) -> None:
        """End all faults."""
        self._faults.clear()
        self.assignor_delay_ms = 0

    # --- in a coordinator

    def install(self, pump: Pump) -> None:
        """Let a coordinator ask for a fault before it handles a client's request."""
        self._pumps.append(pump)
        pump.receive = partial(self._receive, pump, pump.receive)

    def uninstall(self, pump: Pump | None) -> None:
        """Forget a coordinator that has stopped."""
        if pump in self._pumps:
            self._pumps.remove(pump)

    def slow(self, dispatcher: WorkerDispatcher) -> None:
        """Let a coordinator's dispatcher wait before it starts an assignor."""
        dispatcher.submit = partial(  # type: ignore[method-assign]
            self._submit, dispatcher.submit
        )

    def _receive(self, pump: Pump, receive: Callable[[Request], None], request: Request) -> None:
        error = self._take(request)
        if error is None:
            receive(request)
            return
        answer = error_response(
            request.api_key, request.message, error, MESSAGE, request.api_version
        )
        pump.answer(Reply(request.ticket, answer))

    def _take(self, request: Request) -> ErrorCode | None:
        if request.client.client_id == OWN_CLIENT_ID:
            return None
        for fault in self._faults:
            if fault.api_key != request.api_key or not _is_of(request, fault.group_id):
                continue
            fault.left -= 1
            if not fault.left:
                self._faults.remove(fault)
            return fault.error
        return None

    def _submit(
        self, submit: Callable[[int, WorkerTask], None], partition: int, task: WorkerTask
    ) -> None:
        if self.assignor_delay_ms and not isinstance(task, CancelAssignment):
            loop = asyncio.get_running_loop()
            loop.call_later(self.assignor_delay_ms / 1000, submit, partition, task)
        else:
            submit(partition, task)


def _is_of(request: Request, group_id: str | None) -> bool:
    if group_id is None:
        return True
    if API[request.api_key].route is Route.GROUP:
        return getattr(request.message, "group_id", None) == group_id
    return group_id in group_ids(request.api_key, request.message)
