"""How a cluster is planned: on one host, on several, at the first start and later. Needs no Ray."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cluster.data_dir import ClusterFile, render
from actors.cluster.host_agent import HostReport
from actors.cluster.spec import Address
from actors.deployment.planning import (
    PlanRequest,
    agreed_file,
    cluster_file,
    homes_of,
    plan_cluster,
    with_replica_nodes,
)
from actors.errors import BadInputError

DATA = Path("/data")
FILE = ClusterFile(cluster_id="c", partitions=3, ports=(), replicas=3, secret="s")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
EMPTY = [HostReport(address=host) for host in HOSTS]


def asked(**configs: str) -> PlanRequest:
    overrides = {name.replace("_", "."): value for name, value in configs.items()}
    return PlanRequest(data_dir=DATA, overrides=overrides)


class Chooser:
    """Takes each port as wanted, the last one or the next of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def __call__(
        self, host: str, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...]:
        self.calls.append((host, [str(one) for one in wanted]))
        last = before if len(before) == len(wanted) else [0] * len(wanted)
        found = zip(wanted, last, range(40_000, 50_000), strict=False)
        return tuple(one.port or port or free for one, port, free in found)


def test_on_its_own_ray_the_listeners_are_in_a_row_and_the_console_is_beside_them() -> None:
    chooser = Chooser()
    plan = plan_cluster(asked(), FILE, ["", "", ""], chooser)
    assert plan.spec.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert str(plan.spec.console) == "127.0.0.1:40003"
    assert chooser.calls == [
        ("", ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094", "127.0.0.1:0"])
    ]
    assert plan.file.ports == (9092, 9093, 9094, 40003)
    assert plan.file.hosts == ()
    assert {place.ray_host for place in plan.spec.places} == {""}


def test_free_ports_are_those_of_the_last_start() -> None:
    request = PlanRequest(data_dir=DATA, overrides={}, port=0)
    first = plan_cluster(request, FILE, ["", "", ""], Chooser())
    again = plan_cluster(request, first.file, ["", "", ""], Chooser())
    assert again.spec == first.spec


def test_one_coordinator_on_each_host_has_the_same_port_everywhere() -> None:
    plan = plan_cluster(asked(replica_port="9192"), FILE, HOSTS, Chooser())
    assert plan.spec.bootstrap == "10.0.0.1:9092,10.0.0.2:9092,10.0.0.3:9092"
    assert [str(place.peer) for place in plan.spec.places] == [f"{host}:9192" for host in HOSTS]
    assert [place.ray_host for place in plan.spec.places] == [*HOSTS]
    assert plan.file.hosts == HOSTS
    assert plan.spec.console.host == "", "it is where the controller is"


def test_on_hosts_the_console_keeps_its_port() -> None:
    """The controller starts again on any host, with the definition that it was created with."""
    chooser = Chooser()
    plan = plan_cluster(asked(), FILE, HOSTS, chooser)
    assert (HOSTS[0], [f"{HOSTS[0]}:0"]) in chooser.calls
    assert plan.spec.console == Address(host="", port=40_000)
    assert plan.file.ports[-1] == 40_000
    again = plan_cluster(asked(), plan.file, HOSTS[1:] + HOSTS[:1], Chooser())
    assert again.spec.console == plan.spec.console


@pytest.mark.parametrize("homes", [["", "", ""], HOSTS], ids=["own Ray", "hosts"])
def test_the_consoles_port_can_be_given(homes: Sequence[str]) -> None:
    kept = plan_cluster(asked(), FILE, homes, Chooser()).file
    plan = plan_cluster(asked(console_port="9292"), kept, homes, Chooser())
    assert plan.spec.console.port == plan.file.ports[-1] == 9292
    again = plan_cluster(asked(), plan.file, homes, Chooser())
    assert again.spec.console.port == 9292
    with pytest.raises(
        BadInputError, match=r"The console \(console.port\) and node 0 \(listeners\)"
    ):
        plan_cluster(asked(console_port="9092"), FILE, homes, Chooser())


def test_several_coordinators_on_a_host_have_consecutive_ports() -> None:
    homes = [HOSTS[0], HOSTS[1], HOSTS[0]]
    plan = plan_cluster(asked(), FILE, homes, Chooser())
    assert plan.spec.bootstrap == "10.0.0.1:9092,10.0.0.2:9092,10.0.0.1:9093"


def test_what_is_advertised_may_differ_from_what_is_bound() -> None:
    configs = {
        "listeners": "PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners": "PLAINTEXT://broker-{node.id}.example.com:19092",
    }
    request = PlanRequest(data_dir=DATA, overrides=configs)
    plan = plan_cluster(request, FILE, HOSTS, Chooser())
    place = plan.spec.places[1]
    assert str(place.advertised) == "broker-1.example.com:19092"
    assert (str(place.listener), str(place.internal)) == ("0.0.0.0:9092", "10.0.0.2:9092")
    assert str(place.peer) == "10.0.0.2:0", "peers listen only where they must"
    assert plan.spec.node(1, up=True).host == "broker-1.example.com"


def test_an_ipv6_address_is_in_brackets() -> None:
    plan = plan_cluster(asked(), FILE, ["fd00::1", "fd00::2", "fd00::3"], Chooser())
    assert plan.spec.bootstrap == "[fd00::1]:9092,[fd00::2]:9092,[fd00::3]:9092"


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (
            lambda: PlanRequest(
                data_dir=DATA, overrides={"listeners": "PLAINTEXT://h:1"}, host="h"
            ),
            "Give listeners, or --host and --port, but not both",
        ),
        (lambda: PlanRequest(data_dir=DATA, overrides={}, host="0.0.0.0"), "is not an address"),
        (
            lambda: plan_cluster(
                asked(listeners="PLAINTEXT://h:65535"), FILE, ["", "", ""], Chooser()
            ),
            "65535",
        ),
        (
            lambda: plan_cluster(asked(listeners="SSL://h:1"), FILE, ["", "", ""], Chooser()),
            "SSL",
        ),
    ],
)
def test_what_can_not_be_planned_is_said(request_of: object, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        request_of()  # type: ignore[operator]


# --- cluster files of several hosts


def reported(host: str, file: ClusterFile | None, *node_ids: int) -> HostReport:
    return HostReport(
        address=host,
        file="" if file is None else render(file),
        directories={node_id: f"d{node_id}" for node_id in node_ids},
    )


def test_the_newest_file_of_all_hosts_counts() -> None:
    newer = replace(FILE, revision=2, directories=("d0", "d1", "d2"))
    reports = [reported("a", replace(FILE, revision=1)), reported("b", newer), reported("c", None)]
    assert agreed_file(reports, DATA) == newer
    assert agreed_file(EMPTY, DATA) is None


def test_hosts_of_different_clusters_are_refused() -> None:
    reports = [reported("a", FILE), reported("b", replace(FILE, cluster_id="other"))]
    with pytest.raises(BadInputError, match="belongs to cluster c on a, but to other on b"):
        agreed_file(reports, DATA)


def test_a_host_whose_directory_can_not_be_used_is_named() -> None:
    with pytest.raises(BadInputError, match="a: it is full"):
        agreed_file([HostReport(address="a", failure="it is full")], DATA)


def test_a_coordinator_goes_where_its_directory_is() -> None:
    reports = [reported("a", None, 2), reported("b", None), reported("c", None, 0)]
    homes = homes_of(FILE, reports)
    assert homes == ("c", "b", "a")


def test_the_last_host_counts_while_it_is_away_or_has_lost_its_disk() -> None:
    formed = replace(FILE, hosts=("a", "b", "c"), directories=("d0", "d1", "d2"))
    reports = [reported("a", None, 0), reported("c", None)]
    assert homes_of(formed, reports) == ("a", "b", "c")
    never_formed = replace(formed, directories=())
    assert set(homes_of(never_formed, reports)) == {"a", "c"}


def test_of_two_directories_of_a_node_the_one_where_it_last_ran_counts() -> None:
    reports = [reported("a", None, 0, 1), reported("b", None, 1), reported("c", None, 2)]
    assert homes_of(replace(FILE, hosts=("a", "b", "c")), reports) == ("a", "b", "c")
    with pytest.raises(BadInputError, match="node-1 is on the hosts a and b"):
        homes_of(replace(FILE, hosts=("a", "c", "c")), reports)


def test_of_a_moved_node_only_the_directory_on_its_last_host_counts() -> None:
    formed = replace(
        FILE, hosts=("a", "b", "d"), directories=("d0", "d1", "d2"), moved=(2,), revision=3
    )
    reports = [reported("a", formed, 0), reported("b", formed, 1), reported("c", None, 2)]
    assert homes_of(formed, reports) == ("a", "b", "d"), "it waits for d, where its data is"
    assert agreed_file(reports, DATA) == formed


def test_replicas_are_placed_once() -> None:
    four = replace(FILE, partitions=4)
    homes = homes_of(four, EMPTY)
    placed = with_replica_nodes(four, homes, EMPTY)
    for nodes in placed.replica_nodes:
        assert len({homes[node_id] for node_id in nodes}) == 3
    assert with_replica_nodes(placed, tuple(reversed(homes)), EMPTY) == placed
    formed = replace(four, directories=("d0", "d1", "d2", "d3"))
    assert with_replica_nodes(formed, homes, EMPTY) == formed


def test_what_is_fixed_at_the_first_start_stays() -> None:
    assert cluster_file(asked(), FILE) == FILE
    with pytest.raises(BadInputError, match="cannot be changed to 5 after the first start"):
        cluster_file(asked(offsets_topic_num_partitions="5"), FILE)
