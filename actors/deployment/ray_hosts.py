"""The hosts and coordinators of a Ray cluster, as the controller changes them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.node_rack import rack_of
from actors.cluster.ray_calls import (
    CallError,
    actor,
    answer,
    answered,
    end,
    find,
    host_labels,
    on_host,
)
from actors.cluster.ray_peers import coordinator_name
from actors.deployment.actors import CoordinatorActor
from actors.deployment.hosts import Hosts
from actors.deployment.mover import STOPPED
from actors.deployment.relocation import Relocator
from actors.errors import FailureError
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actors.cluster.spec import ClusterSpec
    from actors.deployment.copying import CopyLimits

STATUS_S: Final = 2.0
STOP_S: Final = 10.0
GONE_S: Final = 10.0


class RayHosts:
    """The hosts of the Ray cluster (:class:`actors.deployment.host_watch.HostControl`)."""

    def living(self) -> Mapping[str, str | None]:
        """Return the addresses of all living Ray nodes, with their racks if Ray knows them."""
        return {host: rack_of(labels) for host, labels in host_labels().items()}

    def absent(self, node_ids: Sequence[int]) -> list[int]:
        """Return those of these coordinators that Ray does not know, or that say they stopped."""
        handles = {node_id: find(coordinator_name(node_id)) for node_id in node_ids}
        calls = {one.status.remote(): node_id for node_id, one in handles.items() if one}
        done, _ = answered([*calls], STATUS_S) if calls else ([], [])
        stopped = set()
        for call in done:
            with contextlib.suppress(CallError):
                if answer(call, STATUS_S)["state"] == STOPPED:
                    stopped.add(calls[call])
        return [one for one in node_ids if handles[one] is None or one in stopped]

    def at_home(self, spec: ClusterSpec, node_ids: Sequence[int]) -> ClusterSpec:
        """Return the cluster with these coordinators where the newest cluster file says."""
        with _relocator(spec) as relocator:
            return relocator.at_home(node_ids)

    def start_empty(self, spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
        """Move a coordinator without its data; blocks for seconds."""
        with _relocator(spec) as relocator:
            return relocator.start_empty(node_id, host)

    def move(self, spec: ClusterSpec, node_id: int, host: str, limits: CopyLimits) -> ClusterSpec:
        """Move a coordinator with its data; blocks for as long as the copy takes."""
        with _relocator(spec) as relocator:
            return relocator.move(node_id, host, limits)

    def restore(self, spec: ClusterSpec, node_id: int) -> ClusterSpec:
        """Create a coordinator that Ray does not know, or that is stopped; blocks for seconds."""
        with _relocator(spec) as relocator:
            return relocator.restore(node_id)


@contextlib.contextmanager
def _relocator(spec: ClusterSpec) -> Iterator[Relocator]:
    with contextlib.closing(Hosts(spec.data_dir)) as hosts:
        yield Relocator(spec, hosts, RayCoordinators())


class RayCoordinators:
    """The coordinators' actors (:class:`actors.deployment.relocation.Coordinators`)."""

    def stop(self, node_id: int) -> None:
        """End a coordinator's actor, cleanly if it answers."""
        name = coordinator_name(node_id)
        handle = find(name)
        if handle is None:
            return
        with contextlib.suppress(CallError):
            answer(handle.stop.remote(), STOP_S)
        end(handle)
        if not poll(lambda: find(name) is None, GONE_S):
            raise FailureError(f"Coordinator {node_id} could not be stopped.")

    def create(self, spec: ClusterSpec, node_id: int) -> None:
        """Create a coordinator's actor at its place, unless it exists."""
        try:
            create_coordinator(spec, node_id)
        except ValueError:  # Ray has one actor of a name
            if find(coordinator_name(node_id)) is None:
                raise


def create_coordinator(spec: ClusterSpec, node_id: int) -> Any:
    """Create the actor of a coordinator on its host; return its handle."""
    place = on_host(spec.places[node_id].ray_host)
    more = with_environment(spec)
    return actor(CoordinatorActor, coordinator_name(node_id), spec, node_id, **place, **more)


def with_environment(spec: ClusterSpec) -> dict[str, Any]:
    """Return the option of an actor that adds the cluster's variables to its environment."""
    return {"runtime_env": {"env_vars": dict(spec.environment)}} if spec.environment else {}
