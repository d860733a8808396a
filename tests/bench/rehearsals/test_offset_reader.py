"""The reader of committed offsets beside a real run: a thread with a client of its own."""

import threading
from types import SimpleNamespace

import pytest

from bench.client.connection_settings import DEFAULT
from bench.rehearsals.offset_reader import GroupOffsets, OffsetReader
from bench.scenarios.files import parse
from bench.scenarios.members import ClusterNames
from tests.waiting import WITHIN_S, until

SCENARIO = """
about = "x"
duration = "24h"
topics.t.partitions = 2
[[groups]]
name = "a"
topics = ["t"]
"""


class Client:
    """Returns other offsets each time; None while nobody leads."""

    def __init__(self, leads=True):
        self.asked = []
        self.leads = leads
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.may_answer.set()

    def read(self, group_id):
        self.asked.append(group_id)
        self.may_answer.wait(WITHIN_S)
        return {("p-t", 0): len(self.asked)} if self.leads else None


def reader_of(client):
    return OffsetReader(parse("s", SCENARIO), SimpleNamespace(names=ClusterNames("p-")), client)


def test_offsets_are_read_under_the_names_of_the_scenario_with_their_times():
    client = Client()
    with reader_of(client) as reader:
        until(reader.kept.all, WITHIN_S, "a read is kept")
    assert client.asked == ["p-a"]
    (read,) = reader.kept.all()
    assert (read.group, dict(read.offsets)) == ("a", {("t", 0): 1})
    assert read.asked_ms <= read.time_ms


def test_a_fault_lets_the_next_read_come_at_once():
    client = Client()
    with reader_of(client) as reader:
        until(reader.kept.all, WITHIN_S, "a read is kept")
        reader.hurry()
        until(lambda: len(reader.kept.all()) > 1, WITHIN_S, "the next one is due after 8 s")


def test_while_nobody_leads_there_is_no_read_and_nobody_waits_for_one():
    client = Client(leads=False)
    with reader_of(client) as reader:
        until(lambda: client.asked, WITHIN_S, "it asks")
        client.may_answer.clear()
        reader.hurry()  # while it waits for an answer
    assert reader.kept.all() == ()


def test_what_goes_wrong_otherwise_is_raised_in_the_end():
    client = Client()
    client.read = lambda _group_id: 1 // 0
    reader = reader_of(client)
    with pytest.raises(ZeroDivisionError), reader:
        until(lambda: not reader._thread.is_alive(), WITHIN_S, "it has failed")


def test_a_client_returns_nothing_while_no_node_answers_and_offsets_once_one_does(node):
    nowhere = ("127.0.0.1", 1)
    with GroupOffsets([nowhere], DEFAULT) as client:
        assert client.read("a") is None
    with GroupOffsets([nowhere, node.address], DEFAULT) as client:
        assert until(lambda: client.read("a") == {}, WITHIN_S, "the group is led")
        (connection,) = client._connections.values()
        connection.close()
        assert client.read("a") is None
        assert client.read("a") == {}
