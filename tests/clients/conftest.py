"""One server for all client tests, names that no two tests share, and clients that get closed."""

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients import servers
from tests.waiting import SESSION_MS

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.filterwarnings("ignore", "(open|read)_text is deprecated", DeprecationWarning)
    import kafka.admin  # noqa: F401


# Sessions are short, so that members that died with a leader are not waited for long.
DOOMED = {
    "offsets.topic.replication.factor": "1" if servers.is_kafka() else "3",
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "60000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="package")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is: one started for this package, or ``ROLLCALL_TEST_BOOTSTRAP``'s."""
    given = os.environ.get("ROLLCALL_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with ExitStack() as stack:
        server = servers.server(tmp_path_factory.mktemp("server"))
        stack.callback(server.close)
        server.start()
        yield server.bootstrap


@pytest.fixture(scope="package")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """Start a server with replicas and quick heartbeats, for tests that kill its leaders."""
    with ExitStack() as stack:
        server = servers.server(tmp_path_factory.mktemp("doomed"), DOOMED)
        stack.callback(server.close)
        server.start()
        yield server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Give a name for this test's group and topics that no other test has used."""
    return f"{request.function.__name__[5:45]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def closing() -> Iterator[Callable[[Callable[[], object]], object]]:
    """Register what is to be called when the test ends, last first, whatever its outcome."""
    with ExitStack() as stack:
        yield stack.callback
