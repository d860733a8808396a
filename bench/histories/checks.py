"""What a history must never show: a row for each check."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.histories import bounces, instances, membership, offsets, ownership, settled, tenures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory


class Severity(StrEnum):
    """What a finding means."""

    BROKEN = "broken"  # a promise of the protocol is broken: the verdict is not clean
    SUSPECT = "suspect"  # there may be a reason, such as a run that ended too early: look at it


class HistoryCheck(NamedTuple):
    """One row: what is told when it finds something, how bad that is, and what finds it.

    ``source`` says who else has the rule: a KIP, a system test of Kafka, a workload of Jepsen.
    :data:`bench.histories.planted.FAULTS` has a fault for each that it must find.
    """

    sentence: str
    severity: Severity
    source: str
    find: Callable[[PreparedHistory], DataFrame]


CHECKS: Final[Mapping[str, HistoryCheck]] = {
    "two-owners": HistoryCheck(
        "A partition was given to a member while another one owned it.",
        Severity.BROKEN, "KIP-429 and KIP-848: revoked first, assigned then",
        ownership.owned_at_once,
    ),
    "two-owners-in-generation": HistoryCheck(
        "A partition was assigned to several members in one generation.",
        Severity.BROKEN, "Kafka's test_valid_assignment",
        ownership.owned_in_generation,
    ),
    "no-owner": HistoryCheck(
        "A partition has no owner in the end, though its group has members.",
        Severity.BROKEN, "Kafka's test_valid_assignment",
        ownership.unassigned,
    ),
    "ended-early": HistoryCheck(
        "A partition has no owner in the end, and the session of a vanished member still lasted.",
        Severity.SUSPECT, "KIP-62: the session timeout",
        ownership.ended_early,
    ),
    "incomplete": HistoryCheck(
        "A partition had no owner for long, or in a generation, though all had their assignments.",
        Severity.BROKEN, "Kafka's test_valid_assignment",
        settled.incomplete,
    ),
    "foreign-partition": HistoryCheck(
        "A partition was assigned that is not of a topic of its group.",
        Severity.BROKEN, "Kafka's test_valid_assignment",
        ownership.foreign,
    ),
    "backward": HistoryCheck(
        "A member was told an older generation or epoch after it or its group had a newer one.",
        Severity.BROKEN, "KIP-848: epochs only grow",
        tenures.backward,
    ),
    "lost-commit": HistoryCheck(
        "An acknowledged commit was not there when it was read later.",
        Severity.BROKEN, "Jepsen's lost-write, of offsets",
        offsets.lost_commits,
    ),
    "rolled-back": HistoryCheck(
        "A committed offset was less than it had been when it was read before.",
        Severity.BROKEN, "Jepsen's nonmonotonic-poll, of offsets",
        offsets.rolled_back,
    ),
    "uncommitted": HistoryCheck(
        "A committed offset was read that nobody had committed.",
        Severity.BROKEN, "Jepsen's linearizable registers",
        offsets.uncommitted,
    ),
    "never-read": HistoryCheck(
        "The acknowledged commits of a group were never read, and so not checked.",
        Severity.SUSPECT, "Jepsen's lost-write, of offsets",
        offsets.never_read,
    ),
    "static-moved": HistoryCheck(
        "A member lost partitions by the restart of a static one, and nothing else had happened.",
        Severity.BROKEN, "KIP-345, Kafka's test_static_consumer_bounce",
        bounces.static_moved,
    ),
    "static-rebalanced": HistoryCheck(
        "The restart of a static member within its session caused a rebalance.",
        Severity.SUSPECT, "KIP-345, Kafka's test_static_consumer_bounce",
        membership.restart_rebalanced,
    ),
    "fenced-came-back": HistoryCheck(
        "A member was served after it had been fenced.",
        Severity.BROKEN, "Kafka's test_fencing_static_consumer",
        membership.came_back,
    ),
    "fenced-wrongly": HistoryCheck(
        "A member was fenced, and nobody had joined under its instance id after it.",
        Severity.BROKEN, "Kafka's test_static_consumer_persisted_after_rejoin",
        instances.fenced_wrongly,
    ),
    "zombie-served": HistoryCheck(
        "A member was served after another one had joined under its instance id.",
        Severity.BROKEN, "KIP-345 and KIP-848: an instance id has one member",
        instances.zombie_served,
    ),
    "refused-wrongly": HistoryCheck(
        "A member was refused its instance id, and nobody else could have it.",
        Severity.BROKEN, "KIP-848: UNRELEASED_INSTANCE_ID",
        instances.refused_wrongly,
    ),
    "expelled-early": HistoryCheck(
        "A member was expelled before its session timeout was over.",
        Severity.BROKEN, "KIP-62: the session timeout",
        membership.expelled_early,
    ),
    "not-converged": HistoryCheck(
        "A member is not in the newest generation of its group in the end.",
        Severity.SUSPECT, "Kafka's test_consumer_bounce",
        ownership.not_converged,
    ),
}  # fmt: skip
"""The checks by their names."""
