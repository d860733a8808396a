"""A small scenario with faults, and how tests compare runs of scenarios."""

import re
from typing import Any, Final

from tests.waiting import PATIENCE

FAULTS: Final = """
about = "every fault, one after the other"
duration = "25s"
topics.t.partitions = 3
configs = { "group.initial.rebalance.delay.ms" = "0" }
faults = [
    { do = "kill", at = "5s" },
    { do = "freeze", at = "10s", for = "3s" },
    { do = "cut", at = "18s", for = "3s" },
]
[[groups]]
name = "a"
topics = ["t"]
expect = { rebalances_max = 0 }
"""

SLOWER: Final = max(1, int(PATIENCE) // 2)
"""How much more time a machine that has much else to do gets for what happens in a scenario."""


def slower(text: str) -> str:
    """Return a scenario in which everything takes longer, sessions too."""
    text = re.sub(r'"(\d+)s"', lambda found: f'"{int(found[1]) * SLOWER}s"', text)
    return re.sub(
        r"(session_timeout_ms = )(\d+)", lambda found: f"{found[1]}{int(found[2]) * SLOWER}", text
    )


def counts(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what does not depend on the speed of a machine."""
    kept = ("members", "rebalances", "causes", "failed")
    return {
        name: {**{key: group[key] for key in kept}, "exceeded": bool(group["exceeded"])}
        for name, group in document["groups"].items()
    }
