"""Runs ``rollcall`` in this process, and reads what it prints; members and offsets to run it on."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from actors.cli import admin
from actors.cli import main as cli
from actors.cli.client import AdminClient, parse_bootstrap
from tests.actors.coordinator.coordinators import Cluster
from tests.waiting import until


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.lines = out.splitlines()
        self.err = err.strip()

    @property
    def rows(self) -> list[dict[str, str]]:
        """Read an aligned table: its columns begin where the header's words do."""
        header = self.lines[0]
        starts = [match.start() for match in re.finditer(r"(?<=  )\S|^\S", header)]
        spans = list(zip(starts, [*starts[1:], None], strict=True))
        names = [header[a:b].strip() for a, b in spans]
        return [
            dict(zip(names, (line[a:b].strip() for a, b in spans), strict=True))
            for line in self.lines[1:]
        ]


Run = Callable[..., Said]


def rollcall(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    capsys.readouterr()
    try:
        code = cli.main(words)
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    said = capsys.readouterr()
    return Said(code, said.out, said.err)


@contextlib.contextmanager
def member(cluster: Cluster, group: str, topic: str, **settings: object) -> Iterator[Consumer]:
    """Hold a real consumer in the group, with all partitions of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": "cli-test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    try:
        until(lambda: consumer.poll(0.05) or consumer.assignment(), 20, "an assignment")
        yield consumer
    finally:
        consumer.close()


def set_offsets(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """Commit as a client without a group does: topics hold no records, so no tool sets these."""
    with AdminClient(parse_bootstrap(cluster.bootstrap)) as client:
        admin.commit_offsets(client, group, {(topic, number): offset for number in range(2)})
