"""Moves a coordinator to another host: with its data, or empty.

The newest cluster file says where a coordinator belongs. It is changed while the coordinator is
stopped and its directory is in its new place, and before it starts there. So whatever ends a move,
:meth:`Relocator.restore` starts the coordinator at one place, with the newest of its data
(docs/decisions/moving-coordinators.md).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from actors.cluster.directory_copy import REPLACED
from actors.deployment.copying import CopyCancelledError, copy_directory
from actors.deployment.planning import PlanRequest, agreed_file, plan_place
from actors.errors import BadInputError, CommandError, FailureError
from actors.peers.tls import tls_settings
from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.cluster.data_dir import ClusterFile
    from actors.cluster.host_agent import HostReport
    from actors.cluster.spec import Address, ClusterSpec, CoordinatorPlace
    from actors.deployment.copying import Copier, CopyLimits
    from actors.peers.tls import TlsSettings

_log = logging.getLogger("rollcall.controller")

MOVED: Final = "moved"
"""The reason why a directory was moved aside: it was copied to another host."""

UNSEEN_REVISIONS: Final = 2
"""By how much the revision grows when a coordinator is restored: a host that vanished may have one
revision more than those that are there, and must not overrule them when it returns."""


class ClusterHosts(Protocol):
    """The hosts (:class:`actors.deployment.hosts.Hosts`); every call may raise CommandError."""

    def reports(self) -> list[HostReport]:
        """Return what each host holds."""

    def choose_ports(
        self, host: str, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...]:
        """Return ports to listen on."""

    def check_certificates(self, settings: TlsSettings) -> None:
        """Check that a coordinator on each host could use these certificates."""

    def save(self, file: ClusterFile) -> None:
        """Write the cluster file on every host."""

    def set_aside(self, host: str, node_id: int, why: str) -> None:
        """Move a node's directory on a host aside, if there is one."""

    def copier(self, host: str) -> Copier:
        """Return what copies directories on a host."""


class Coordinators(Protocol):
    """The coordinators' actors."""

    def stop(self, node_id: int) -> None:
        """End a coordinator, cleanly if it answers; raises FailureError if it does not end."""

    def create(self, spec: ClusterSpec, node_id: int) -> None:
        """Create a coordinator at its place, unless it exists."""


class Relocator:
    """Moves coordinators of one cluster. Each method returns the cluster's new definition."""

    def __init__(self, spec: ClusterSpec, hosts: ClusterHosts, coordinators: Coordinators) -> None:
        self._spec = spec
        self._hosts = hosts
        self._coordinators = coordinators

    def start_empty(self, node_id: int, host: str) -> ClusterSpec:
        """Start a coordinator with an empty directory on another host.

        If it still runs, it is stopped first. A directory that it once had on the new host is moved
        aside.
        """
        file = self._file(host)
        place = self._place(node_id, host)
        self._coordinators.stop(node_id)
        try:
            self._hosts.set_aside(host, node_id, REPLACED)
            self._save_home(file, node_id, place)
        except CommandError:
            self.restore(node_id)
            raise
        return self._create(node_id, place)

    def move(self, node_id: int, host: str, limits: CopyLimits) -> ClusterSpec:
        """Move a coordinator that runs, with its data. The old directory is moved aside."""
        home = self._spec.places[node_id].ray_host
        file = self._file(host)
        place = self._place(node_id, host)
        if (tls := tls_settings(Configs(self._spec.overrides))) is not None:
            self._hosts.check_certificates(tls)
        source, target = self._hosts.copier(home), self._hosts.copier(host)
        target.expect(node_id, source.content(node_id).size_bytes)
        # From now on only the directory at its home counts, whatever is on other hosts.
        file = self._save_home(file, node_id, self._spec.places[node_id])
        self._coordinators.stop(node_id)
        try:
            copy_directory(node_id, source, target, limits)
        except CopyCancelledError:
            raise
        except CommandError:
            self._coordinators.create(self._spec, node_id)
            raise
        try:
            self._save_home(file, node_id, place)
        except CommandError:
            self.restore(node_id)
            raise
        try:
            self._hosts.set_aside(home, node_id, MOVED)
        except CommandError as error:
            _log.warning("the old directory of coordinator %d is left: %s", node_id, error)
        return self._create(node_id, place)

    def at_home(self, node_ids: Sequence[int]) -> ClusterSpec:
        """Return the cluster with these coordinators where the newest cluster file says.

        Nothing is changed. They may run there, so their ports are not tried.
        """
        file, spec = self._file(), self._spec
        for node_id in node_ids:
            if file.hosts and file.hosts[node_id] != spec.places[node_id].ray_host:
                last = partial(_as_before, file.ports[node_id])
                place = plan_place(self._request(), spec, node_id, file.hosts[node_id], last)
                spec = spec.with_place(node_id, place)
        return spec

    def restore(self, node_id: int) -> ClusterSpec:
        """Create a coordinator where the newest cluster file says that it belongs.

        Its directory there is the newest one, or it is to start empty. It must not run.
        """
        self._coordinators.stop(node_id)
        file = self._file()
        home = file.hosts[node_id]
        place = self._spec.places[node_id]
        if place.ray_host != home:
            place = self._place(node_id, home)
        revision = file.revision + UNSEEN_REVISIONS - 1
        self._save_home(replace(file, revision=revision), node_id, place)
        return self._create(node_id, place)

    def _file(self, host: str = "") -> ClusterFile:
        """Return the newest cluster file; the host must be there if one is named."""
        reports = self._hosts.reports()
        if host and host not in {report.address for report in reports}:
            raise BadInputError(f"There is no host {host} in the Ray cluster.")
        file = agreed_file(reports, Path(self._spec.data_dir))
        if file is None:
            raise FailureError(f"No host has a cluster file in {self._spec.data_dir}.")
        return file

    def _place(self, node_id: int, host: str) -> CoordinatorPlace:
        return plan_place(self._request(), self._spec, node_id, host, self._hosts.choose_ports)

    def _request(self) -> PlanRequest:
        return PlanRequest(data_dir=Path(self._spec.data_dir), overrides=self._spec.overrides)

    def _save_home(self, file: ClusterFile, node_id: int, place: CoordinatorPlace) -> ClusterFile:
        """Save the cluster file with a coordinator's host; return the file."""
        ports, hosts = list(file.ports), list(file.hosts)
        ports[node_id], hosts[node_id] = place.listener.port, place.ray_host
        saved = replace(
            file,
            ports=tuple(ports),
            hosts=tuple(hosts),
            moved=tuple(sorted({*file.moved, node_id})),
            revision=file.revision + 1,
        )
        self._hosts.save(saved)
        return saved

    def _create(self, node_id: int, place: CoordinatorPlace) -> ClusterSpec:
        moved = self._spec.with_place(node_id, place)
        self._coordinators.create(moved, node_id)
        return moved


def _as_before(
    port: int, _host: str, wanted: Sequence[Address], _before: Sequence[int]
) -> tuple[int, ...]:
    """Return the ports of a coordinator that listened at ``port`` when it ran last."""
    return tuple(address.port or port for address in wanted)
