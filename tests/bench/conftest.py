"""A coordinator for the load to drive."""

import pytest

from tests.bench.one_node import OneNode


@pytest.fixture
def node(tmp_path):
    """One coordinator, up; killed in the end."""
    node = OneNode(tmp_path).start()
    yield node
    node.kill()
