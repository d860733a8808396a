"""Kernels are compiled once, outside the time limits of single tests; and a custom assignor."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from protocol.assignors import registry
from protocol.assignors.warm_up import warm_up


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    warm_up()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install an object as the custom assignor ``custom``."""

    def install(found: Any) -> None:
        class Point(EntryPoint):
            def load(self) -> Any:
                if isinstance(found, ImportError):
                    raise found
                return found

        point = Point("custom", "somewhere:it", registry.ENTRY_POINTS)
        monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))
        registry.custom_names.cache_clear()
        registry.assignor.cache_clear()

    yield install
    registry.custom_names.cache_clear()
    registry.assignor.cache_clear()
