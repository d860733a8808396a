"""The table of kinds of partitions is whole, and so is every table by kind."""

from __future__ import annotations

from itertools import pairwise

import pytest

from failover.catalogue.topic_names import INTERNAL, OWN_LOGS
from failover.machine_adapters import MACHINES
from failover.partition_kinds import (
    CATALOG,
    GROUPS,
    KINDS,
    PARTITIONS_MAX,
    PLACED,
    PartitionKind,
    kind_of,
    kind_of_topic,
    replicas,
    title_of,
)
from failover.simulation.checkers.states import MACHINES as SIMULATED
from protocol.records import RECORD_TYPES, SHARE_STATE_TYPES


def test_each_kind_has_a_machine_in_the_host_and_in_the_simulator() -> None:
    assert MACHINES.keys() == set(PLACED)
    assert SIMULATED.keys() == set(KINDS)
    assert tuple(kind.topic for kind in PLACED) == OWN_LOGS
    assert set(OWN_LOGS) <= INTERNAL


def test_the_numbers_of_kinds_do_not_overlap() -> None:
    assert KINDS[0] is CATALOG
    assert CATALOG.first == -1, "as in logs of earlier versions"
    assert GROUPS.first == 0, "as in logs of earlier versions"
    for one, other in pairwise(PLACED):
        assert one.first + PARTITIONS_MAX <= other.first
    assert PLACED[-1].first + PARTITIONS_MAX < 1 << 31


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_number_tells_its_kind(kind: PartitionKind) -> None:
    last = 0 if kind.topic is None else PARTITIONS_MAX - 1
    for index in {0, last}:
        number = kind.number(index)
        assert kind_of(number) is kind
        assert kind.index(number) == index
        assert kind.full_disk.retriable
    assert kind.topic is None or kind_of_topic(kind.topic) is kind
    titles = {title_of(each.number(0)) for each in KINDS}
    assert len(titles) == len(KINDS)


def test_every_kind_is_placed_alike() -> None:
    placement = ((0, 1), (1, 0))
    assert list(replicas(placement).items()) == [
        (kind.number(index), nodes) for kind in PLACED for index, nodes in enumerate(placement)
    ]


def test_each_topic_numbers_its_record_types() -> None:
    for table in (RECORD_TYPES, SHARE_STATE_TYPES):
        assert len({row.number for row in table.values()}) == len(table)
    assert [row.number for row in SHARE_STATE_TYPES.values()] == [0, 1], "as in Kafka"
    assert not RECORD_TYPES.keys() & SHARE_STATE_TYPES.keys()
