"""What processes of two versions send each other by calls of Ray, and how Ray knows an actor."""

import asyncio
import pickle
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import ray
from ray import cloudpickle

from actors.cluster.actor_process import ActorProcess, RemoteMethod, named_after
from actors.cluster.data_dir import ClusterFile
from actors.cluster.directory_copy import DirectoryContent
from actors.cluster.exchange import Exchanged
from actors.cluster.host_agent import HostAgent, HostReport
from actors.cluster.spec import Address, ClusterSpec, CoordinatorPlace, on_one_host
from actors.console.actor import ConsoleActor
from actors.coordinator.coordinator import Recorded
from actors.coordinator.state_copies import CopySlice, CopyStart
from actors.deployment.actors import ControllerActor, CoordinatorActor, LogOpenResult
from actors.deployment.controller import MovedLeadership
from actors.deployment.ray_hosts import RayHosts
from actors.peers.tls import TlsSettings
from actors.workers.assignor import AssignorWorker
from failover.catalogue.cluster_view import Node
from failover.control.balancing import CoordinatorMove
from protocol.groups.effects import ClientInfo, Request
from protocol.groups.facts import MemberEvent
from tests.failover.apis import asks

NEEDED = {
    ClusterSpec: "cluster_id places console data_dir overrides workers",
    CoordinatorPlace: "ray_host listener advertised peer",
    Address: "host port",
    ClusterFile: "cluster_id partitions ports replicas secret",
    HostReport: "address",
    DirectoryContent: "files witness",
    LogOpenResult: "directory_id failure is_damaged is_new",
    MovedLeadership: "partition leader",
    Recorded: "data missing",
    CopyStart: "copy_id offset epoch",
    CopySlice: "records",
    TlsSettings: "keystore truststore",
    Node: "node_id host port",
    CoordinatorMove: "node_id home host reason",
    MemberEvent: "group_id time_ms kind member_id",
    Request: "ticket api_key api_version client message",
    ClientInfo: "client_id host",
}
"""The values in calls between actors, and the fields without a default. A field that is added needs
one, as older versions do not send it; a class that is renamed or moved is not found by them."""

ACTORS = (CoordinatorActor, ControllerActor, ConsoleActor, AssignorWorker, HostAgent, RayHosts)
"""The classes that older versions look for by name."""

MODULE = "two_versions"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose classes a test replaces by those of another version."""
    made = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, made)
    return made


def put(module: ModuleType, kind: type) -> type:
    """Let the module have a class."""
    kind.__module__, kind.__qualname__, kind.__name__ = MODULE, "Sent", "Sent"
    module.Sent = kind  # type: ignore[attr-defined]
    return kind


def passed(value: object) -> Any:
    return pickle.loads(cloudpickle.dumps(Exchanged(value)))


def frozen() -> tuple[type, type]:
    @dataclass(frozen=True, slots=True)
    class Older:
        first: int
        second: str = "2"

    @dataclass(frozen=True, slots=True)
    class Newer:
        zeroth: tuple[int, ...] = field(default_factory=tuple)
        first: int = 1
        second: str = "2"
        third: str = "3"

    return Older, Newer


def mutable() -> tuple[type, type]:
    @dataclass
    class Older:
        first: int
        second: str = "2"

    @dataclass
    class Newer:
        zeroth: tuple[int, ...] = ()
        first: int = 1
        second: str = "2"
        third: str = "3"

    return Older, Newer


class OlderRow(NamedTuple):
    first: int
    second: str = "2"


class NewerRow(NamedTuple):
    zeroth: tuple[int, ...] = ()
    first: int = 1
    second: str = "2"
    third: str = "3"


def rows() -> tuple[type, type]:
    return OlderRow, NewerRow


@pytest.mark.parametrize("made", [frozen, mutable, rows])
def test_a_version_with_more_fields_and_one_with_fewer_read_each_other(
    made: Any, module: ModuleType
) -> None:
    older, newer = made()
    put(module, older)
    sent = cloudpickle.dumps(Exchanged([older(7, "x")]))
    put(module, newer)
    (read,) = pickle.loads(sent)
    assert type(read) is newer
    assert (read.zeroth, read.first, read.second, read.third) == ((), 7, "x", "3")
    sent = cloudpickle.dumps(Exchanged({"a": newer((0,), 8, "y", "z")}))
    put(module, older)
    read = pickle.loads(sent)["a"]
    assert type(read) is older
    assert (read.first, read.second) == (8, "y")


def test_a_field_without_a_default_that_is_missing_is_named(module: ModuleType) -> None:
    older, _ = frozen()

    @dataclass(frozen=True, slots=True)
    class Needy:
        first: int
        needed: int

    put(module, older)
    sent = cloudpickle.dumps(Exchanged(older(1)))
    put(module, Needy)
    with pytest.raises(TypeError, match="Sent came without needed, which this version needs"):
        pickle.loads(sent)


def example() -> list[object]:
    address = Address(host="10.0.0.1", port=9092)
    request = Request(
        ticket=1, api_key=19, api_version=7, client=ClientInfo("client", "host"),
        message=asks.create_topics("t"),
    )  # fmt: skip
    spec = ClusterSpec(
        cluster_id="c", places=on_one_host("127.0.0.1", [1, 2]), console=address, data_dir="/d",
        overrides={"a": "b"}, workers=1,
    )  # fmt: skip
    return [spec, request, Node(1, "h", 2, rack="r"), CopyStart(1, 2, 3), {"place": address}]


def test_values_are_the_same_behind_a_call() -> None:
    values = example()
    assert passed(values) == values
    assert passed(None) is None
    assert isinstance(passed([RayHosts()])[0], RayHosts)
    assert passed(MemberEvent) is MemberEvent


@pytest.mark.parametrize("kind", NEEDED, ids=lambda kind: kind.__name__)
def test_what_is_sent_may_get_fields_only_with_defaults(kind: Any) -> None:
    """If this fails: an older version cannot send or read it. Give the new field a default."""
    if issubclass(kind, tuple):
        needed = [name for name in kind._fields if name not in kind._field_defaults]
    else:
        needed = [
            row.name
            for row in fields(kind)
            if row.default is MISSING and row.default_factory is MISSING
        ]
    assert " ".join(needed) == NEEDED[kind]


class Plain:
    """What an actor does."""

    def __init__(self, number: int) -> None:
        self.number = number

    def adds(self, more: int) -> int:
        return self.number + more

    async def waits(self) -> list[int]:
        await asyncio.sleep(0)
        return [self.number]


def methods_known(plain: type, remote: Any) -> list[str]:
    """Which methods of a plain class are named in what Ray keeps of an actor's class."""
    known = cloudpickle.dumps(remote.__ray_metadata__.modified_class)
    return [name for name in vars(plain) if f"{plain.__name__}.{name}".encode() in known]


@pytest.mark.parametrize("plain", [Plain, *ACTORS], ids=lambda plain: plain.__name__)
def test_ray_knows_an_actor_by_one_call_and_by_no_method_of_it(plain: type) -> None:
    remote: Any = ray.remote(named_after(plain))
    assert methods_known(plain, remote) == []
    assert methods_known(ActorProcess, remote)
    assert remote.__ray_metadata__.class_name == plain.__name__
    assert methods_known(plain, ray.remote(plain)), "so it would be without that class"


def call(process: ActorProcess, method: str, *arguments: object) -> Any:
    answer = asyncio.run(process.call(method, arguments))
    return pickle.loads(cloudpickle.dumps(answer))


def test_a_process_passes_calls_to_its_plain_value() -> None:
    process = named_after(Plain)(Plain, [5])
    assert call(process, "adds", 2) == 7
    assert call(process, "waits") == [5]
    with pytest.raises(TypeError, match=r"takes 1 positional argument"):
        call(process, "waits", "an argument of a later version")


def test_a_call_that_a_version_does_not_have_is_refused_in_one_sentence() -> None:
    process = ActorProcess(Plain, [5])
    with pytest.raises(NotImplementedError, match=r"of Rollcall runs there, and has no call 'no'"):
        call(process, "no")


def test_a_handle_sends_arguments_with_names() -> None:
    class Ray:
        def __init__(self) -> None:
            self.sent: tuple[str, Sequence[object]] = ("", ())

        @property
        def call(self) -> "Ray":
            return self

        def remote(self, method: str, arguments: Exchanged) -> None:
            self.sent = method, pickle.loads(cloudpickle.dumps(arguments))

    handle = Ray()
    RemoteMethod(handle, "node_changed").remote(Node(1, "h", 2))
    assert handle.sent == ("node_changed", (Node(1, "h", 2),))
