"""Kernels are compiled once, outside the time limits of single tests."""

import pytest

from protocol.assignors.warm_up import warm_up


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    warm_up()
