"""Ray's calls and errors under our names: only this folder imports Ray."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import ray
from ray._private import worker
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # compiled
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster.actor_process import ActorHandle, named_after
from actors.cluster.exchange import Exchanged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMESPACE: Final = "rollcall"

CallError = RayError
"""Any call to an actor that failed."""
LateError = GetTimeoutError
"""A call to an actor that was not answered in time; a :data:`CallError`."""
ACTOR_FAILED: Final = (RayActorError, RayTaskError)
"""Raised by a call to an actor that is dead, or that itself raised an error."""
NOT_ANSWERED: Final = (LateError, *ACTOR_FAILED)
NOT_CONNECTED: Final = (ConnectionError, ValueError, RuntimeError, CallError)
"""What :func:`connect` raises."""

ACTOR_OPTIONS: Final[Mapping[str, Any]] = {
    "namespace": NAMESPACE,
    "lifetime": "detached",
    "num_cpus": 0,
    "max_restarts": -1,
    "max_concurrency": 1_000,
}
"""The options of all our actors. Ray does not retry calls: that is up to the caller."""

HOST_SHARE: Final = 0.0001
"""What an actor takes of the resource that each Ray node has for its address."""


def connect(address: str) -> None:
    """Become a driver of the Ray at ``address``; raises one of :data:`NOT_CONNECTED`.

    From now on Ray prints nothing: it would tell of lost nodes on our standard output.
    """
    worker.print_to_stdstream = _say_nothing
    AuthenticationTokenLoader.instance().reset_cache()  # an earlier cluster had another token
    ray.init(
        address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.CRITICAL,
    )


def _say_nothing(*_: object, **__: object) -> None:
    """Take what Ray would print to a driver's output."""


def disconnect() -> None:
    """Disconnect from Ray."""
    ray.shutdown()


def ray_address() -> str:
    """Return the address of the Ray to which this process is connected."""
    address: str = ray.get_runtime_context().gcs_address
    return address


def machine_address() -> str:
    """Return the address of this process's Ray node, or of the machine without one."""
    address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]  # as Ray does
    return address


def own_node_id() -> str:
    """Return the Ray node on which this process is."""
    return str(ray.get_runtime_context().get_node_id())


def own_node_labels() -> Any:
    """Return the labels of that node."""
    return ray.get_runtime_context().get_node_labels()


def living_nodes() -> list[str]:
    """Return the ids of all Ray nodes that are alive, sorted."""
    return sorted(row["NodeID"] for row in _living())


def living_hosts() -> dict[str, str]:
    """Return the addresses of all living Ray nodes, sorted, each with the id of one node there."""
    return dict(sorted((row["NodeManagerAddress"], row["NodeID"]) for row in _living()))


def host_labels() -> dict[str, Mapping[str, str]]:
    """Return the addresses of all living Ray nodes, each with the labels of one node there."""
    return {row["NodeManagerAddress"]: row.get("Labels", {}) for row in _living()}


def _living() -> list[dict[str, Any]]:
    rows = ray.nodes()  # type: ignore[no-untyped-call]  # as Ray has it
    return [row for row in rows if row["Alive"]]


def on_host(address: str) -> Mapping[str, Any]:
    """Return options that keep an actor on the Ray nodes with this address; "": on any node.

    While there is no such node, a restart of the actor waits for one.
    """
    return {"resources": {f"node:{address}": HOST_SHARE}} if address else {}


def near(node_id: str) -> Mapping[str, Any]:
    """Return options that place an actor on this Ray node, or on another one if it is lost."""
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=True)}


def actor(plain: type, name: str, *arguments: object, **options: Any) -> ActorHandle:
    """Create an actor from a plain class; return its handle."""
    return _created(plain, {**ACTOR_OPTIONS, **options, "name": name}, arguments)


def helper(plain: type, node_id: str, *arguments: object) -> ActorHandle:
    """Create an actor on this Ray node only, which ends with this process; return its handle."""
    place = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return _created(plain, {"num_cpus": 0, "scheduling_strategy": place}, arguments)


def _created(plain: type, options: Mapping[str, Any], arguments: Sequence[object]) -> ActorHandle:
    remote: Any = ray.remote(named_after(plain))
    return ActorHandle(remote.options(**options).remote(plain, Exchanged(arguments)))


def named(name: str) -> ActorHandle:
    """Return the handle of a named actor; raises ValueError if it does not exist."""
    return ActorHandle(ray.get_actor(name, NAMESPACE))


def find(name: str) -> ActorHandle | None:
    """Return the handle of a named actor; None if it does not exist."""
    try:
        return named(name)
    except ValueError:
        return None


def answer(call: Any, timeout_s: float) -> Any:
    """Return the result of a call, or of a list of calls; raises one of :data:`NOT_ANSWERED`."""
    return ray.get(call, timeout=timeout_s)


def answered(calls: Sequence[Any], timeout_s: float) -> tuple[list[Any], list[Any]]:
    """Wait for all calls; return those that finished in time, and the others."""
    done, left = ray.wait(list(calls), num_returns=len(calls), timeout=timeout_s)
    return done, left


def end(handle: ActorHandle) -> None:
    """Kill an actor's process; Ray does not restart it."""
    ray.kill(handle.ray_handle, no_restart=True)
