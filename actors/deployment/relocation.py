"""Starts a coordinator on another host, where its log begins empty."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.node_rack import rack_of
from actors.cluster.ray_calls import CallError, actor, answer, end, find, host_labels, on_host
from actors.cluster.ray_peers import coordinator_name
from actors.deployment.actors import CoordinatorActor
from actors.deployment.hosts import Hosts
from actors.deployment.planning import PlanRequest, agreed_file, plan_place
from actors.errors import BadInputError, FailureError
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.cluster.spec import ClusterSpec

STOP_S: Final = 10.0
GONE_S: Final = 10.0


class RayHosts:
    """The hosts of the Ray cluster (:class:`actors.deployment.host_watch.HostControl`)."""

    def living(self) -> Mapping[str, str | None]:
        """Return the addresses of all living Ray nodes, with their racks if Ray knows them."""
        return {host: rack_of(labels) for host, labels in host_labels().items()}

    def relocate(self, spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
        """Move a coordinator (:func:`relocate`)."""
        return relocate(spec, node_id, host)


def relocate(spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
    """Move a coordinator to a host and return the new definition; blocks for seconds.

    If it still runs, it is stopped first. A directory that it once had on the new host is moved
    aside. Raises CommandError.
    """
    with contextlib.closing(Hosts(spec.data_dir)) as hosts:
        reports = hosts.reports()
        if host not in {report.address for report in reports}:
            raise BadInputError(f"There is no host {host} in the Ray cluster.")
        file = agreed_file(reports, Path(spec.data_dir))
        if file is None:
            raise FailureError(f"No host has a cluster file in {spec.data_dir}.")
        request = PlanRequest(data_dir=Path(spec.data_dir), overrides=spec.overrides)
        place = plan_place(request, spec, node_id, host, hosts.choose_ports)
        moved = spec.with_place(node_id, place)
        hosts.save(
            replace(
                file,
                ports=(*(one.listener.port for one in moved.places), file.ports[-1]),
                hosts=tuple(one.ray_host for one in moved.places),
                moved=tuple(sorted({*file.moved, node_id})),
                revision=file.revision + 1,
            )
        )
        _stop(node_id)
        hosts.set_aside(host, node_id)
        create_coordinator(moved, node_id)
    return moved


def create_coordinator(spec: ClusterSpec, node_id: int) -> Any:
    """Create the actor of a coordinator on its host; return its handle."""
    environment = {"env_vars": dict(spec.environment)}
    runtime: Any = {"runtime_env": environment} if spec.environment else {}
    place = on_host(spec.places[node_id].ray_host)
    return actor(CoordinatorActor, coordinator_name(node_id), spec, node_id, **place, **runtime)


def _stop(node_id: int) -> None:
    """End a coordinator's actor: cleanly if it answers."""
    name = coordinator_name(node_id)
    handle = find(name)
    if handle is None:
        return
    with contextlib.suppress(CallError):
        answer(handle.stop.remote(), STOP_S)
    end(handle)
    if not poll(lambda: find(name) is None, GONE_S):
        raise FailureError(f"Coordinator {node_id} could not be stopped.")
