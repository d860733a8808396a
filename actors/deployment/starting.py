"""Starts a cluster's actors until it is READY, and stops them."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.cluster.ray_calls import (
    ACTOR_FAILED,
    CallError,
    LateError,
    actor,
    answer,
    answered,
    end,
    find,
    living_nodes,
    near,
)
from actors.cluster.ray_peers import CONSOLE, CONTROLLER, assignor_name, cause, coordinator_name
from actors.console.actor import ConsoleActor
from actors.deployment.actors import ControllerActor
from actors.deployment.ray_hosts import RayHosts, create_coordinator, with_environment
from actors.deployment.status import console_moved
from actors.errors import AlreadyRunningError, FailureError
from actors.logs.line_format import format_of
from actors.waiting import poll
from actors.workers.assignor import AssignorWorker
from protocol.config import Configs
from protocol.groups.modern.target import TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.cluster.spec import ClusterSpec
    from actors.deployment.actors import LogOpenResult

WORKER_NICENESS: Final = 5
"""The niceness of assignor workers: heartbeats take precedence."""

READY_S: Final = 60.0
READY_EACH_S: Final = 3.0
"""So much longer each coordinator may take: starting a process takes seconds of CPU time."""

READY_MOST_S: Final = 20.0
"""After this a cluster starts without some of its coordinators, if the others suffice."""

STOP_S: Final = 10.0
GONE_S: Final = 5.0


class Operator(Protocol):
    """The process that starts the cluster."""

    def formed(self, directories: tuple[str, ...]) -> None:
        """Record, at the first start, the directories that the cluster is formed from."""

    def say(self, sentence: str) -> None:
        """Print a problem that does not stop the start."""


def refuse_second_cluster() -> None:
    """Raise AlreadyRunningError if a cluster runs on this Ray."""
    if find(CONTROLLER) is not None:
        raise AlreadyRunningError(
            "A Rollcall cluster is already running on this Ray. Stop it with `rollcall down` first."
        )


def create(spec: ClusterSpec, operator: Operator) -> str:
    """Create all actors of a cluster, wait until clients can use it; return the console's URL.

    Raises CommandError; then :func:`destroy` must stop the actors that were created.
    """
    try:
        return _create(spec, operator)
    except LateError:
        raise FailureError(
            f"The coordinators were not ready within {ready_s(spec):g} s. See {spec.data_dir}/logs."
        ) from None
    except ACTOR_FAILED as error:
        raise FailureError(f"An actor could not start: {cause(error)}") from error


def ready_s(spec: ClusterSpec) -> float:
    """Return how long the start of a cluster may take."""
    return READY_S + READY_EACH_S * spec.partitions


def _create(spec: ClusterSpec, operator: Operator) -> str:
    coordinators = [create_coordinator(spec, node_id) for node_id in range(spec.partitions)]
    controller = actor(ControllerActor, CONTROLLER, spec, RayHosts(), **with_environment(spec))
    console = actor(ConsoleActor, CONSOLE, spec)
    opened = _await_opened(spec, coordinators)
    left_out: list[int] = []
    if not spec.directories and (known := _formed_before(spec, opened)):
        operator.formed(known)
        spec = replace(spec, directories=known)
    if spec.directories:
        left_out = _restart_formed(spec, opened, operator)
    else:
        _form(coordinators, opened, operator)
    if failure := answer(controller.ready.remote(), ready_s(spec)):
        raise FailureError(failure)
    if _await_ready(spec, coordinators, left_out, operator):
        with contextlib.suppress(CallError):  # it only balances leaderships
            answer(controller.settle.remote(), READY_S)
    _start_workers(spec)
    return _console(spec, controller, console, operator)


def _console(spec: ClusterSpec, controller: Any, console: Any, operator: Operator) -> str:
    """Return the console's URL, and tell the controller. Clients are served without a console."""
    try:
        address = answer(console.address.remote(), READY_S)
        answer(controller.console_at.remote(address), READY_S)
    except CallError as error:
        operator.say(f"The console does not answer yet: {cause(error)}")
        address = spec.console
    url = f"http://{address}"
    if why := console_moved(spec.console.port, url):
        operator.say(why)
    return url


def _await_opened(spec: ClusterSpec, coordinators: Sequence[Any]) -> list[LogOpenResult | None]:
    """Wait until the coordinators have opened their logs; None for one that has not in time.

    If others can do without it, its host may be away: it starts when the host is back. They cannot
    if a log among theirs is of no use.
    """
    calls = [each.opened.remote() for each in coordinators]
    opened: list[LogOpenResult | None] = []
    for wait_s in (READY_MOST_S, ready_s(spec) - READY_MOST_S):
        _, left = answered(calls, wait_s)
        opened = [None if call in left else answer(call, READY_S) for call in calls]
        if not left or (spec.directories and spec.can_lose(_of_no_use(spec, opened))):
            return opened
    if any(row is not None and row.failure for row in opened):
        return opened  # it says more than that some are late
    raise LateError


def _of_no_use(spec: ClusterSpec, opened: Sequence[LogOpenResult | None]) -> list[int]:
    """Return the nodes without the log that the cluster was formed with: away, damaged, empty."""
    return [
        node_id
        for node_id, row in enumerate(opened)
        if row is None or row.is_damaged or _is_empty(spec, node_id, row)
    ]


def _is_empty(spec: ClusterSpec, node_id: int, row: LogOpenResult) -> bool:
    return row.is_new and row.directory_id != spec.directories[node_id]


def scale_workers(spec: ClusterSpec) -> ClusterSpec:
    """Return ``spec`` with its number of workers on each of the current Ray nodes."""
    return replace(spec, workers=spec.workers * len(living_nodes()))


def _start_workers(spec: ClusterSpec) -> None:
    """Spread the workers evenly; a worker whose node is lost restarts on another."""
    nodes = living_nodes()
    time_limit_ms = Configs(spec.overrides).integer(TIME_LIMIT)
    for number in range(spec.workers):
        name = assignor_name(number)
        log_path = spec.text_log_path(name)
        options = {**near(nodes[number % len(nodes)]), **with_environment(spec)}
        setting = time_limit_ms, log_path, WORKER_NICENESS, format_of(spec.overrides)
        worker = actor(AssignorWorker, name, *setting, **options)
        worker.warm_up.remote()


def _form(
    coordinators: Sequence[Any], opened: Sequence[LogOpenResult | None], operator: Operator
) -> None:
    """Form the cluster from the coordinators' directories: record them, then distribute them."""
    rows = [row for row in opened if row is not None]
    for row in rows:
        if row.failure:
            raise row.refusal(row.failure)
    directories = tuple(row.directory_id for row in rows)
    operator.formed(directories)
    answer([each.form.remote(directories) for each in coordinators], READY_S)


def _formed_before(spec: ClusterSpec, opened: Sequence[LogOpenResult | None]) -> tuple[str, ...]:
    """Return the directories that the nodes have recorded, if the cluster's own file has none.

    That file is then an old copy; forming the cluster again would split it.
    """
    known = {row.formed for row in opened if row is not None and row.formed}
    if len(known) > 1 or any(len(one) != spec.partitions for one in known):
        raise FailureError(
            f"{spec.data_dir}: its nodes belong to different clusters. "
            "Put each node's own directory back, or use another data directory."
        )
    return known.pop() if known else ()


def _restart_formed(
    spec: ClusterSpec, opened: Sequence[LogOpenResult | None], operator: Operator
) -> list[int]:
    """Continue without missing or damaged logs if the others suffice; return the nodes left out.

    These are the nodes with damaged logs, and those of hosts that are away. Nothing is replaced
    here: the controller does that when the remaining voters lead and have all records.
    """
    rows = {node_id: row for node_id, row in enumerate(opened) if row is not None}
    for row in rows.values():
        if row.failure and not row.is_damaged:
            raise row.refusal(row.failure)
    damaged = [node_id for node_id, row in rows.items() if row.is_damaged]
    away = [node_id for node_id, row in enumerate(opened) if row is None]
    empty = [node_id for node_id, row in rows.items() if _is_empty(spec, node_id, row)]
    if not spec.can_lose(_of_no_use(spec, opened)):
        for node_id in damaged:
            raise FailureError(rows[node_id].failure)
        nodes = ", ".join(f"node-{node_id}" for node_id in sorted([*empty, *away]))
        raise FailureError(
            f"{spec.data_dir}: too many logs are missing ({nodes}): the others may lack records. "
            "Put them back, or start empty in another directory."
        )
    for node_id in damaged:
        operator.say(_to_be_healed(rows[node_id].failure))
    if away:
        names = ", ".join(f"coordinator {one} ({spec.places[one].ray_host})" for one in away)
        operator.say(f"Not there yet, each starts when its host is: {names}.")
    return sorted([*damaged, *away])


def _to_be_healed(failure: str) -> str:
    return f"{failure} This happens automatically once the other replicas have all its records."


def _await_ready(
    spec: ClusterSpec, coordinators: Sequence[Any], left_out: Collection[int], operator: Operator
) -> bool:
    """Wait until clients can use the cluster; after a time, a majority of each partition suffices.

    Does not wait for the nodes that are left out. Returns whether all nodes are ready.
    """
    waiting = {
        each.ready.remote(): node_id
        for node_id, each in enumerate(coordinators)
        if node_id not in left_out
    }
    left = list(waiting)
    for wait_s in (READY_MOST_S, ready_s(spec) - READY_MOST_S):
        done, left = answered(left, wait_s)
        for one, failure in zip(done, answer(done, READY_S), strict=True):
            if not failure:
                continue
            node_id = waiting[one]
            late: LogOpenResult = answer(coordinators[node_id].opened.remote(), READY_S)
            if not (late.is_damaged and spec.can_lose({*left_out, node_id})):
                raise late.refusal(failure)
            operator.say(_to_be_healed(failure))  # the damage was found when the log was loaded
            left_out = [*left_out, node_id]
        missing = [*left_out, *(waiting[one] for one in left)]
        if not left:
            return not missing
        if spec.can_lose(missing):
            names = ", ".join(map(str, missing))
            operator.say(f"Not ready yet: coordinator {names}.")
            return False
    raise LateError


def destroy(partitions: int, workers: int) -> list[str]:
    """Stop all actors of a cluster cleanly: console, controller, one coordinator after the other.

    Each coordinator transfers its leaderships while the others are a majority. Returns the names of
    the actors that did not stop.
    """
    coordinators = [coordinator_name(node_id) for node_id in reversed(range(partitions))]
    names = [CONSOLE, CONTROLLER, *coordinators]
    workers_names = [assignor_name(number) for number in range(workers)]
    handles: list[Any] = []
    with contextlib.suppress(CallError):
        for some in (
            [CONSOLE, CONTROLLER],
            coordinators,
        ):  # until it stops, the controller creates some
            found = [handle for name in some if (handle := find(name)) is not None]
            for handle in found:
                answered([handle.stop.remote()], STOP_S)
            handles += found
        handles += [handle for name in workers_names if (handle := find(name)) is not None]
        for handle in handles:
            end(handle)
    return poll(
        lambda: [name for name in (*names, *workers_names) if find(name) is not None],
        GONE_S,
        is_done=operator.not_,
    )
