"""Shipped scenarios in less time: everything in them takes a part of the time that it takes there.

Sessions, intervals and pauses shrink with what happens, so that a shortened run has the same
rebalances for the same reasons.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bench.scenarios.members import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from bench.scenarios.plan import expand
from bench.scenarios.scenario import Group, Scenario
from bench.scenarios.values import Duration
from protocol.config import Configs

S = TypeVar("S", bound=Struct)

INTERVALS: Final = (
    "group.initial.rebalance.delay.ms",
    "group.streams.initial.rebalance.delay.ms",
    *(
        f"group.{kind}.{what}.ms"
        for kind in ("consumer", "share", "streams")
        for what in ("heartbeat.interval", "session.timeout", "assignment.interval")
    ),
)
"""Configs of brokers that shrink, too."""

LEAST: Final = {
    "group.min.session.timeout.ms": "1000",
    **{
        f"group.{kind}.min.{what}": ms
        for kind in ("consumer", "share", "streams")
        for what, ms in (("heartbeat.interval.ms", "100"), ("session.timeout.ms", "1000"))
    },
}
"""Configs that allow short sessions and intervals."""


REST_MS: Final = 10_000


def configs_in(divisor: float, scenario: Scenario | None = None) -> dict[str, str]:
    """Return the configs of a broker where time is so much shorter."""
    given = {} if scenario is None else scenario.broker_configs()
    usual = Configs({"group.initial.rebalance.delay.ms": "3000", **given})
    shorter = {name: str(round(usual.integer(name) / divisor)) for name in INTERVALS}
    return {**given, **LEAST, **shorter}


def shortened(scenario: Scenario, divisor: float) -> Scenario:
    """Return a scenario in which everything takes so much less time."""
    made = _shorter(scenario, divisor)
    groups = tuple(_explicit(group, divisor) for group in made.groups)
    return replace(made, groups=groups, configs=configs_in(divisor, scenario))


def fewer(scenario: Scenario, members_max: int) -> Scenario:
    """Return a larger scenario with one copy of each application, and a twentieth of its pods."""
    if scenario.members <= members_max:
        return scenario
    groups = [
        replace(
            group, replicas=group.replicas // 20, expect=replace(group.expect, members_min=None)
        )
        for group in scenario.groups
        if group.name.removesuffix("-0") == group.name.rstrip("-0123456789")
    ]
    return replace(scenario, groups=tuple(groups))


def ended(scenario: Scenario, divisor: float) -> Scenario:
    """Return a scenario that ends soon after the last step of its plan, but not within a session.

    ``divisor``: by which its times are divided.
    """
    last_ms = max(step.due_ms for step in expand(scenario).steps)
    end_ms = last_ms + round((SESSION_TIMEOUT_MS + REST_MS) / divisor)
    return replace(scenario, duration=Duration(min(scenario.duration, end_ms)))


def _explicit(group: Group, divisor: float) -> Group:
    """Return a group whose members have short sessions and intervals also by default."""
    return replace(
        group,
        session_timeout_ms=group.session_timeout_ms or round(SESSION_TIMEOUT_MS / divisor),
        heartbeat_interval_ms=group.heartbeat_interval_ms or round(HEARTBEAT_INTERVAL_MS / divisor),
    )


def _shorter(value: S, divisor: float) -> S:
    changed = {
        name: _value(name, getattr(value, name), divisor) for name in value.__struct_fields__
    }
    return replace(value, **changed)


def _value(name: str, value: Any, divisor: float) -> Any:
    if isinstance(value, Duration):
        return Duration(round(value / divisor))
    if isinstance(value, int | float) and name.endswith(("_ms", "_seconds_min")):
        return round(value / divisor)  # the least time that something must take is shorter, too
    if isinstance(value, Struct):
        return _shorter(value, divisor)
    if isinstance(value, tuple):
        return tuple(_value(name, each, divisor) for each in value)
    if isinstance(value, Mapping):
        return {key: _value(name, each, divisor) for key, each in value.items()}
    return value
