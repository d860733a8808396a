"""What can happen to the cluster during a scenario, as settings: a class for each ``do``.

Faults hit the coordinator of ``group`` (not given: of the first group). A killed coordinator is
restarted. How each is carried out is a row of ``bench.scenarios.simulated`` and of
``bench.rehearsals.stages``.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

from bench.scenarios.values import Duration


class KillCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="kill"
):
    """End the coordinator's process, as ``kill -9`` does."""

    at: Duration
    group: str | None = None


class FreezeCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="freeze"
):
    """Stop the coordinator's process ``for`` a while without ending it, as SIGSTOP does."""

    at: Duration
    lasts: Duration = field(name="for")
    group: str | None = None


class CutCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="cut"
):
    """Cut the coordinator off from its peers ``for`` a while, but not from its clients."""

    at: Duration
    lasts: Duration = field(name="for")
    group: str | None = None


Fault: TypeAlias = KillCoordinator | FreezeCoordinator | CutCoordinator
