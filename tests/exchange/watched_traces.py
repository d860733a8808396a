"""The traces of a watched Kafka's rebalances, as Jaeger gives them back: their roots and trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.telemetry.root_names import CAME_BACK, ROOT_NAMES
from protocol.stories.causes import Cause
from tests.otlp_backend import FOUND_S, Jaeger, parents, paths, root
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "watched"

CLASSIC: Final = frozenset({"trigger", "join"})
"""The spans below the root of a classic group's rebalance. If members are left, ``sync`` follows.

Records show who joined, and not who joined again.
"""

JOINED: Final = frozenset({Cause.JOINED, Cause.STATIC_REPLACED, Cause.STATIC_CHANGED})
"""Causes of which the records show who joined."""

EPOCH: Final = frozenset({"trigger"})
"""Those of another group's rebalance. If members are left, those of ``TARGET`` follow."""

TARGET: Final = frozenset({"wait", "reconcile", "reconcile/take-over"})
"""No record has when the assignor ran, or where: nothing of that is told."""


def wanted(kind: str, found: dict[str, Any]) -> frozenset[str]:
    """Return the paths of the spans that a rebalance with this root must have."""
    tags = found["tags"]
    is_left = bool(tags.get("rollcall.members"))
    if kind == "classic":
        joined = {"join/rejoin"} if tags["rollcall.rebalance.cause"] in JOINED else set()
        return CLASSIC | joined | ({"sync"} if is_left else set())
    return EPOCH | TARGET if is_left else EPOCH


def traces_of(jaeger: Jaeger, group_id: str, cause: Cause) -> list[list[dict[str, Any]]]:
    """Return the traces of a group's rebalances that have a cause."""
    return jaeger.traces(
        SERVICE,
        **{"messaging.consumer.group.name": group_id, "rollcall.rebalance.cause": str(cause)},
    )


def is_in_the_backend(
    jaeger: Jaeger,
    group: tuple[str, str],
    cause: Cause,
    beat: Callable[[], object] | None = None,
    *,
    is_inferred: bool,
) -> None:
    """Who looks for a cause in a group finds its rebalances: roots, what is inferred, and trees.

    ``group`` is its id and type. ``beat``: a rebalance is traced once every member has told that it
    has its target.
    """
    group_id, kind = group
    seen: list[set[str]] = []

    def found() -> list[dict[str, Any]]:
        """Return the roots once there are some, and all traces are complete."""
        if beat is not None:
            beat()
        traces = [
            each
            for each in traces_of(jaeger, group_id, cause)
            if any(not parents(span) for span in each)
        ]
        roots = [root(each) for each in traces]
        seen[:] = (set(paths(each)) for each in traces)
        trees = [wanted(kind, each) for each in roots]
        return roots if seen == trees else []

    try:
        roots = until(found, FOUND_S, f"the traces of {group_id} for {cause} are whole")
    except AssertionError as error:
        error.add_note(f"Trees: {seen}")
        raise
    for each in roots:
        tags = each["tags"]
        assert each["operationName"] == ROOT_NAMES[cause]
        assert tags["rollcall.group.type"] == kind
        assert ("rollcall.rebalance.inferred" in tags) is is_inferred


def came_back(jaeger: Jaeger, group_id: str) -> None:
    """Who looks for a static member that came back unchanged finds it, and no rebalance."""

    def found() -> list[list[dict[str, Any]]]:
        traces = traces_of(jaeger, group_id, Cause.STATIC_REPLACED)
        return [each for each in traces if paths(each) == ["trigger"]]

    for trace in until(found, FOUND_S, f"the static member of {group_id} is found"):
        tags = root(trace)["tags"]
        assert root(trace)["operationName"] == CAME_BACK
        assert tags["rollcall.rebalance.outcome"] == "unchanged"
        assert tags["rollcall.member.instance_id"] == "i-1"
