"""Hosts for tests. Where they are not possible, tests are skipped with one sentence."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.hosts.hosts import NamespaceHosts
from bench.hosts.namespaces import what_is_missing

NewHosts = Callable[..., NamespaceHosts]


@pytest.fixture(scope="session")
def hosts_are_possible() -> None:
    """Skip where they are not."""
    if missing := what_is_missing():
        pytest.skip(missing)


@pytest.fixture
def new_hosts(hosts_are_possible: None, tmp_path: Path) -> Iterator[NewHosts]:
    """Make hosts of a test's own: ``one, two = new_hosts(2)``; ``has_ipv4=False``: IPv6 only."""
    with ExitStack() as stack:
        made: list[NamespaceHosts] = []

        def make(count: int, *, has_ipv4: bool = True) -> NamespaceHosts:
            directory = tmp_path / f"hosts{len(made)}"
            directory.mkdir()
            made.append(stack.enter_context(NamespaceHosts(count, directory, has_ipv4=has_ipv4)))
            return made[-1]

        yield make
