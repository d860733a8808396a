"""The pytest plugin: one cluster per session, topics and groups per test, stories on failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from actors.testing.cluster import ClusterForTests, ServerProcess

SECTION: Final = "What happened to the groups"
CLUSTER: Final = pytest.StashKey["ClusterForTests"]()
"""Where a test that has the fixture keeps its cluster, however it has asked for it."""


@pytest.fixture(scope="session")
def rollcall_configs() -> Mapping[str, str]:
    """Broker configs of the cluster that differ from the plugin's; override it in a conftest."""
    return {}


@pytest.fixture(scope="session")
def rollcall_server(
    tmp_path_factory: pytest.TempPathFactory, rollcall_configs: Mapping[str, str]
) -> Iterator[ServerProcess]:
    """Start the cluster, once per session, and stop it at the end."""
    from actors.testing.cluster import RollcallError, ServerProcess

    try:
        server = ServerProcess(tmp_path_factory.mktemp("rollcall"), rollcall_configs)
    except RollcallError as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.close()


@pytest.fixture
def rollcall_cluster(
    rollcall_server: ServerProcess, request: pytest.FixtureRequest
) -> Iterator[ClusterForTests]:
    """Give a test the cluster, with topics and groups of its own."""
    from actors.testing.cluster import ClusterForTests

    cluster = ClusterForTests(rollcall_server, request.node.name)
    request.node.stash[CLUSTER] = cluster
    yield cluster
    del request.node.stash[CLUSTER]
    cluster.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the story of its groups to the report of a test that failed, or whose setup did."""
    report = yield
    cluster = item.stash.get(CLUSTER, None)
    if report.failed and cluster is not None:
        report.sections.append((SECTION, _story(cluster)))
    return report


def _story(cluster: ClusterForTests) -> str:
    """Return the story; a cluster that has ended must not hide why the test failed."""
    try:
        return cluster.stories()
    except Exception as error:
        return str(error)
