"""What coordinators cost on hosts: the sums by kind of process, and the table made of them."""

import json
import os

import pytest

from bench.hosts import footprint
from bench.hosts.footprint import MIB, Footprint, ProcessUse, costs, kind_of, main, read


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["ray::CoordinatorActor"], "coordinator"),
        (["ray::CoordinatorActor.status"], "coordinator"),
        (["ray::ControllerActor"], "controller"),
        (["ray::AssignorWorker.warm_up"], "assignor worker"),
        (["/usr/bin/raylet", "--port"], "Ray's own"),
        ([], "Ray's own"),
    ],
)
def test_the_kind_of_a_process_is_in_its_title(words, kind):
    assert kind_of(words) == kind


def uses(**seconds):
    """``c1=2.0``: process 1, a coordinator, has used 2 seconds, and has a MiB."""
    kinds = {"c": "coordinator", "r": "Ray's own"}
    return {int(name[1:]): ProcessUse(kinds[name[0]], s, MIB) for name, s in seconds.items()}


def test_costs_are_summed_by_kind_and_for_all():
    ready = uses(c1=3.0, c2=4.0, r3=10.0)
    before = uses(c1=3.0, c2=4.0, r3=11.0)
    after = uses(c1=3.5, c2=4.5, r3=12.0, r4=0.5)  # 4 is new: its time before is not known
    coordinators, ray, everything = costs(ready, before, after, idle_s=10.0)
    assert (coordinators.kind, coordinators.processes) == ("coordinator", 2)
    assert coordinators.pss_mib == 2.0
    assert coordinators.start_cpu_s == 7.0
    assert coordinators.idle_share == pytest.approx(0.1)
    assert (ray.kind, ray.processes, ray.idle_share) == ("Ray's own", 2, pytest.approx(0.1))
    assert (everything.kind, everything.processes, everything.start_cpu_s) == ("all", 4, 17.0)


def test_the_table_has_each_kind_with_the_cost_of_one_process():
    rows = costs(uses(c1=3.0, c2=5.0), uses(c1=3.0, c2=5.0), uses(c1=3.0, c2=5.5), idle_s=10.0)
    found = Footprint(partitions=50, hosts=3, ready_s=12.34, commands_cpu_s=5.0, kinds=rows)
    first, heads, coordinators, everything = found.text().splitlines()
    assert first == "50 partitions on 3 hosts: READY after 12.3 s; commands used 5.0 s of CPU time"
    assert heads.split()[:2] == ["processes", "PSS"]
    assert coordinators.split() == [
        "coordinator",
        "2",
        "2.00",
        "1.00",
        "8.00",
        "4.00",
        "5.00",
        "2.50",
    ]
    assert everything.split()[0] == "all"


def test_it_prints_the_table_and_writes_the_figures(monkeypatch, tmp_path, capsys):
    rows = costs(uses(c1=3.0), uses(c1=3.0), uses(c1=3.5), idle_s=10.0)

    def measure(partitions, idle_s, directory):
        assert directory.is_dir()
        return Footprint(
            partitions=partitions, hosts=3, ready_s=idle_s, commands_cpu_s=1.0, kinds=rows
        )

    monkeypatch.setattr(footprint, "measure", measure)
    monkeypatch.setattr(footprint, "what_is_missing", str)
    file = tmp_path / "figures.json"
    assert main(["--partitions", "50", "--idle-seconds", "7", "--json", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("50 partitions on 3 hosts: READY after 7.0 s;")
    assert json.loads(file.read_text())["kinds"][0]["kind"] == "coordinator"


def test_processes_in_the_namespace_of_a_process_are_read(monkeypatch):
    def namespace(pid):
        if pid not in {1, os.getpid()}:
            raise ProcessLookupError
        return 7

    monkeypatch.setattr(footprint, "_namespace", namespace)
    found = read([1], has_memory=True)
    assert [*found] == [os.getpid()], "without the first process itself"
    assert found[os.getpid()].cpu_s > 0
    assert found[os.getpid()].pss_bytes > 0


def test_without_the_right_to_make_hosts_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(footprint, "what_is_missing", lambda: "Hosts are made by root.")
    assert main([]) == 2
    assert capsys.readouterr().err == "rollcall: Hosts are made by root.\n"
