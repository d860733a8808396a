"""What can happen to the pods of an application, as settings: a class for each ``do``.

What each does to the pods is a row of ``bench.scenarios.plan``.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, field

from bench.scenarios.values import Amount, Duration

ONE_POD: Final = Amount(1)
Replicas = Annotated[int, Meta(ge=0, le=100_000)]


class RollingDeploy(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do",
    tag="rolling-deploy",
):  # fmt: skip
    """Replace every pod by one of a new revision, within ``maxSurge`` and ``maxUnavailable``."""

    at: Duration


class Scale(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="scale"
):
    """Change the number of pods, as an autoscaler's step does."""

    at: Duration
    replicas: Replicas


class Crash(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="crash"
):
    """End ``pods`` without a word to the coordinator; each starts again in place after ``away``."""

    at: Duration
    pods: Amount = ONE_POD
    away: Duration = Duration(5_000)


class Churn(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="churn"
):
    """Evict a pod ``every`` so often, from ``at`` to ``until``; another one takes its place."""

    at: Duration
    every: Duration
    until: Duration | None = None


class Flap(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="flap"
):
    """Let ``pods`` change between their subscription and ``topics``: KIP-1263's bad application."""

    at: Duration
    every: Duration
    topics: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    until: Duration | None = None
    pods: Amount = ONE_POD


class Duplicate(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do",
    tag="duplicate",
):  # fmt: skip
    """Start a second process with the instance id of each of ``pods``, a zombie."""

    at: Duration
    lasts: Duration = field(name="for", default=Duration(30_000))
    pods: Amount = ONE_POD


class PollTimeout(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do",
    tag="poll-timeout",
):  # fmt: skip
    """Let ``pods`` exceed ``max.poll.interval.ms``: they leave and join again after ``away``."""

    at: Duration
    pods: Amount = ONE_POD
    away: Duration = Duration(5_000)
    reason: Annotated[str, Meta(max_length=255)] = "consumer poll timeout has expired."


class Pause(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="pause"
):
    """Let ``pods`` stand still, as in a long garbage collection: they send and read nothing."""

    at: Duration
    lasts: Duration = field(name="for")
    pods: Amount = ONE_POD


Behaviour: TypeAlias = (
    RollingDeploy | Scale | Crash | Churn | Flap | Duplicate | PollTimeout | Pause
)
