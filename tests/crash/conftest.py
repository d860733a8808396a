"""A server of one's own that may be killed, and names that no two tests share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients import servers
from tests.clients.conftest import closing, name

__all__ = ("closing", "doomed", "name")


@pytest.fixture(scope="package")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """Start a server for the tests to kill and to bring back."""
    with ExitStack() as stack:
        server = servers.server(tmp_path_factory.mktemp("doomed"))
        stack.callback(server.close)
        server.start()
        yield server


Closing = Callable[[Callable[[], object]], object]
