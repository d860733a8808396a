"""The fixtures of the plugin, also where this project is installed without its entry points."""

from rollcall.pytest_plugin import rollcall_cluster, rollcall_configs, rollcall_server

__all__ = ("rollcall_cluster", "rollcall_configs", "rollcall_server")
