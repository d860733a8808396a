"""A cluster that runs already as the stage of a scenario: nothing is killed, nothing is left."""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, get_args

from actors.cli.client import AdminClient, ClientError, parse_bootstrap, shown
from actors.client.security import read_security
from actors.errors import BadInputError, CommandError
from bench.interruption import Interrupted
from bench.load.driver import now_ms
from bench.report.sentences import listed
from bench.scenarios.faults import Fault
from bench.scenarios.members import ClusterNames
from bench.scenarios.values import Protocol
from bench.servers import cleanup
from protocol.client.versions import agreed
from protocol.wire.apis import API, api_of
from protocol.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    ShareGroupHeartbeatRequest,
)
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.rehearsals.stages import Address, Undo
    from bench.scenarios.scenario import Scenario

GONE_S: Final = 60.0
"""How long the sessions of members that ended without a word may last after the run."""
STOPPED_S: Final = 15.0
"""The same if somebody asked to stop: less than :data:`bench.interruption.PATIENCE_S`."""
NAMES_MAX: Final = 10
"""Of so many groups and topics that are left the names are told."""
SPARED: Final = "nothing is killed in a cluster that ran before"
NEEDED: Final[Mapping[Protocol, int]] = MappingProxyType(
    {
        Protocol.CLASSIC: api_of(JoinGroupRequest).key,
        Protocol.CONSUMER: api_of(ConsumerGroupHeartbeatRequest).key,
        Protocol.SHARE: api_of(ShareGroupHeartbeatRequest).key,
        Protocol.STREAMS: api_of(StreamsGroupHeartbeatRequest).key,
    }
)
"""The API that members of each protocol join by."""


class GuestStage:
    """A cluster of somebody else's, ours or Kafka."""

    leaves = True
    cannot: Mapping[type, str] = MappingProxyType(dict.fromkeys(get_args(Fault), SPARED))
    no_racks = "the cluster keeps its own"

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        versions: Mapping[int, int],
        prefix: str,
        command_config: Path | None = None,
    ) -> None:
        self.command_config = command_config
        self.how = ",".join(map(shown, bootstrap))
        self.bootstrap = bootstrap
        self.versions = versions
        self.names = ClusterNames(prefix)

    def inflict(self, fault: Any, node: int) -> Undo | None:
        """Inflict nothing."""
        raise AssertionError(fault, node)

    def check(self) -> None:
        """Do nothing: its disks are not ours to look at."""


@dataclass(frozen=True, slots=True)
class GuestCluster:
    """Where a cluster is, and the file with what makes connections to it safe."""

    bootstrap: str
    command_config: Path | None = None


def reached(
    cluster: GuestCluster, scenario: Scenario
) -> tuple[tuple[Address, ...], dict[int, int]]:
    """Return a cluster's brokers and the versions to ask them in; raises BadInputError."""
    security = read_security(cluster.command_config)
    try:
        addresses = parse_bootstrap(cluster.bootstrap)
        with AdminClient(addresses, security=security) as client:
            versions = agreed(client.ask(_WHO).api_keys)
            brokers = tuple(client.brokers().values())
    except (ValueError, ClientError) as error:
        raise BadInputError(f"{error}.") from None
    for group in scenario.groups:
        key = NEEDED[group.protocol]
        if key not in versions:
            raise BadInputError(
                f"{cluster.bootstrap} does not serve {API[key].name}, by which the"
                f" {group.protocol} members of {group.name} join."
            )
    return brokers, versions


_NUMBERS: Final = itertools.count()
"""Tell rehearsals of one process apart that begin together."""

_WHO: Final = ApiVersionsRequest(client_software_name="rollcall", client_software_version="0")


@contextmanager
def guest_stage(cluster: GuestCluster, scenario: Scenario) -> Iterator[GuestStage]:
    """Use a cluster that runs; at the end delete the scenario's groups and topics from it."""
    brokers, versions = reached(cluster, scenario)
    number = f"{os.getpid()}-{now_ms() % 1_000_000}-{next(_NUMBERS)}"
    prefix = f"rehearsal-{number}-"
    stage = GuestStage(brokers, versions, prefix, cluster.command_config)
    within_s = GONE_S
    try:
        yield stage
    except Interrupted:
        within_s = STOPPED_S
        raise
    finally:
        _clean_up(stage, scenario, within_s)


def _clean_up(stage: GuestStage, scenario: Scenario, within_s: float) -> None:
    """Delete what the rehearsal has made, and say what could not be deleted."""
    said = f"Groups and topics may be left, whose names begin with {stage.names.prefix}."
    try:
        left = cleanup.remove(
            stage.bootstrap,
            stage.names.all(group.name for group in scenario.groups),
            stage.names.all(scenario.topics),
            within_s,
            security=read_security(stage.command_config),
        )
        said = f"Not deleted after the rehearsal: {listed(left, NAMES_MAX, ', ')}." if left else ""
    except CommandError as error:
        said = f"The rehearsal's groups and topics could not be deleted: {error}. {said}"
    finally:
        if said:
            print(f"rollcall: {said}", file=sys.stderr)
