"""Three coordinators that replicate by TLS, in this process."""

import logging
from pathlib import Path

import pytest

from actors.installation import installed_version
from actors.peers.versions import PEER_VERSIONS
from bench.client.blocking_client import BlockingClient
from protocol.wire.errors import ErrorCode
from tests.actors.coordinator.coordinators import running
from tests.certificates import Authority, tls_configs
from tests.failover.apis import asks
from tests.waiting import WITHIN_S, until


def test_what_is_acknowledged_was_replicated_by_tls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rollcall.peers")
    authority = Authority(tmp_path)
    settings = {
        **tls_configs(authority, authority.issue("coordinator")),
        "offsets.topic.replication.factor": "3",
        "log.flush": "majority",
    }
    with running(settings=settings) as cluster:
        place = cluster.spec.places[0].listener
        with BlockingClient((place.host, place.port), WITHIN_S) as client:
            made = until(lambda: client.ask(asks.create_topics("t")), 30, "it is answered")
            assert made.topics[0].error_code is ErrorCode.none
        status = [coordinator.status() for coordinator in cluster.coordinators]
        assert [row["linked"] for row in status] == [[1, 2], [0, 2], [0, 1]]
        newest = PEER_VERSIONS[-1].number
        assert status[0]["link_versions"] == {1: newest, 2: newest}
        assert status[0]["version"] == installed_version()
    said = [row.getMessage() for row in caplog.records if "linked to node" in row.getMessage()]
    assert len(said) >= 6
    assert all(line.endswith(" by TLSv1.3") for line in said)
