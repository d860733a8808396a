"""What can happen to the pods of an application, as settings: a class for each ``do``.

What each does to the pods is a row of ``bench.scenarios.plan``.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, field

from bench.scenarios.values import Amount, Duration, Protocol

ONE_POD: Final = Amount(1)
ALL_PODS: Final = Amount(100, is_percent=True)
POLL_TIMEOUT: Final = "consumer poll timeout has expired."
"""What Kafka's consumer tells the coordinator then."""
Replicas = Annotated[int, Meta(ge=0, le=100_000)]


class RollingDeploy(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do",
    tag="rolling-deploy",
):  # fmt: skip
    """Replace every pod by one of a new revision, within ``maxSurge`` and ``maxUnavailable``.

    The members of the new revision may use another ``protocol``: an online migration (KIP-848).
    """

    at: Duration
    protocol: Protocol | None = None


class Scale(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="scale"
):
    """Change the number of pods, as an autoscaler's step does."""

    at: Duration
    replicas: Replicas


class Crash(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="crash"
):
    """End ``pods`` without a word to the coordinator; each starts again in place after ``away``.

    ``renamed``: with another instance id, as of an application that makes one up at each start.
    ``rack``: only pods on this rack.
    """

    at: Duration
    pods: Amount = ONE_POD
    away: Duration = Duration(5_000)
    renamed: bool = False
    rack: str | None = None


class Restart(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="restart"
):
    """Restart the processes of ``pods`` in place: all at once, or one ``every`` so often.

    ``clean``: each closes its member; otherwise it ends without a word, as in a crash.
    """

    at: Duration
    pods: Amount = ALL_PODS
    every: Duration = Duration(0)
    away: Duration = Duration(5_000)
    clean: bool = True


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
    reason: Annotated[str, Meta(max_length=255)] = POLL_TIMEOUT


class Pause(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="pause"
):
    """Let ``pods`` stand still, as in a long garbage collection: they send and read nothing."""

    at: Duration
    lasts: Duration = field(name="for")
    pods: Amount = ONE_POD


class Arrivals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From ``at`` on, so many records a second arrive in the topics of a group."""

    at: Duration
    per_second: Annotated[int, Meta(ge=0, le=10**9)]


class Autoscale(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do",
    tag="autoscale",
    rename={
        "lag_threshold": "lagThreshold",
        "min_replicas": "minReplicaCount",
        "max_replicas": "maxReplicaCount",
        "cooldown_seconds": "cooldownPeriod",
        "stabilization_seconds": "stabilizationWindowSeconds",
    },
):  # fmt: skip
    """Change the number of pods with the lag, as KEDA does.

    :mod:`bench.scenarios.workloads.autoscaler` says how many it wants.
    """

    at: Duration
    arrivals: Annotated[tuple[Arrivals, ...], Meta(min_length=1, max_length=1_000)]
    pod_per_second: Annotated[int, Meta(ge=1, le=10**9)]
    until: Duration | None = None
    every: Duration = Duration(15_000)
    lag_threshold: Annotated[int, Meta(ge=1, le=10**9)] = 10
    min_replicas: Replicas = 1
    max_replicas: Annotated[int, Meta(ge=1, le=100_000)] = 100
    cooldown_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 300
    stabilization_seconds: Annotated[int, Meta(ge=0, le=3_600)] = 300


class Drain(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="drain",
    rename={"max_unavailable": "maxUnavailable"},
):  # fmt: skip
    """Drain ``drained`` of the ``nodes`` of Kubernetes that the pods are spread over, in turn."""

    at: Duration
    nodes: Annotated[int, Meta(ge=2, le=10_000)] = 3
    drained: Annotated[int, Meta(ge=1, le=10_000)] = 1
    every: Duration = Duration(60_000)
    max_unavailable: Amount = ALL_PODS


Behaviour: TypeAlias = (
    RollingDeploy
    | Scale
    | Autoscale
    | Drain
    | Crash
    | Restart
    | Churn
    | Flap
    | Duplicate
    | PollTimeout
    | Pause
)
