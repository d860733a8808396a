"""The entry point of the pytest plugin: see ``docs/how-to/test-with-rollcall.md``."""

from actors.testing.plugin import (
    pytest_runtest_makereport,
    rollcall_cluster,
    rollcall_configs,
    rollcall_server,
)

__all__ = (
    "pytest_runtest_makereport",
    "rollcall_cluster",
    "rollcall_configs",
    "rollcall_server",
)
