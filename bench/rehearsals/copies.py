"""Which lines about what happens are told of applications with copies: those of the first copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios.record import about

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scenarios.scenario import Scenario


def in_first_copies(scenario: Scenario) -> Callable[[str], bool]:
    """Return whether a text is told: what is about another copy than the first one is not.

    The same happens to all copies of an application.
    """
    others = {
        group.name
        for group in scenario.groups
        if group.copies > 1 and group.name != f"{group.application}-0"
    }
    return lambda text: about(text, others)[0] is None
