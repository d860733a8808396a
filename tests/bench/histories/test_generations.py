"""What Kafka permits after a failover or a commit is no broken promise."""

from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

from bench.histories.membership import expelled_early
from bench.histories.ownership import backward, owned_in_generation
from bench.histories.prepared import PreparedHistory
from bench.histories.rows import HistoryLife, life_rows
from bench.histories.schema import SCHEMA
from bench.histories.store import RunFacts
from protocol.members.history import MemberHistoryEvent
from protocol.members.history import MemberHistoryKind as Kind

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

LIVES = {
    "joins-again": ("classic", [(Kind.ASSIGNED, 1), (Kind.JOINED, 2), (Kind.JOINED, 1)]),
    "beats-between": (
        "classic",
        [(Kind.ASSIGNED, 1), (Kind.JOINED, 2), (Kind.HEARTBEAT, 2), (Kind.ASSIGNED, 1)],
    ),
    "forgotten": ("classic", [(Kind.JOINED, 2), (Kind.ASSIGNED, 2), (Kind.JOINED, 1)]),
    "modern": ("consumer", [(Kind.JOINED, 2), (Kind.HEARTBEAT, 1)]),
}
"""A failover came before the last event of each."""

SESSION_MS, BEAT_MS, COMMIT_MS, LOST_MS = 45_000, 1_000, 30_000, 50_000


def history_of(session, lives):
    """Return the history of these lives: a name, its protocol, and its events."""
    rows = []
    for name, protocol, events in lives:
        life = HistoryLife(
            group_id="g", protocol=protocol, member=name, events=events, started_ms=0,
            session_timeout_ms=SESSION_MS,
        )  # fmt: skip
        rows += life_rows(life)
    facts = RunFacts(run_id="a", what="a run", changed_ms=0, ended_ms=LOST_MS)
    return PreparedHistory(session.createDataFrame(rows, SCHEMA).localCheckpoint(), facts)


def event(at_ms, kind, generation=1, error=None):
    return MemberHistoryEvent(
        time_ms=at_ms, asked_ms=at_ms, kind=kind, member_id="id", instance_id=None,
        generation=generation, error=error,
    )  # fmt: skip


def test_a_classic_generation_that_was_not_written_may_begin_again(session):
    lives = [
        (name, protocol, [event(at_ms, *each) for at_ms, each in enumerate(told, 1)])
        for name, (protocol, told) in LIVES.items()
    ]
    found = {row["text"] for row in backward(history_of(session, lives)).collect()}
    assert found == {
        "forgotten was in generation 2 and then in 1",
        "modern was in generation 2 and then in 1",
    }


def test_a_commit_renews_the_session_of_a_classic_member_only(session):
    events = [
        event(BEAT_MS, Kind.ASSIGNED),
        event(COMMIT_MS, Kind.COMMITTED),
        event(LOST_MS, Kind.LOST, 0, "unknown_member_id"),
    ]
    lives = [(protocol, protocol, events) for protocol in ("classic", "consumer", "streams")]
    (found,) = expelled_early(history_of(session, lives)).collect()
    assert found["text"] == (
        "classic was expelled (unknown_member_id) 20000 ms after a request that renewed its"
        " session, which lasts 45000 ms"
    )


@pytest.mark.parametrize(("came_ms", "is_found"), [(46_900, True), (47_100, False)])
def test_generations_begin_again_once_a_group_was_empty(session, came_ms, is_found):
    """As after an offline migration there and back; a session lasts for 45 s after the end."""
    rows = []
    for name, at_ms, ended_ms in (("x", 100, 2_000), ("y", came_ms + 200, None)):
        told = [replace(event(at_ms, Kind.ASSIGNED), partitions=(("t", 0),))]
        rows += life_rows(
            HistoryLife(
                group_id="g", protocol="classic", member=name, events=told,
                started_ms=at_ms - 200, session_timeout_ms=SESSION_MS, ended_ms=ended_ms,
            )
        )  # fmt: skip
    facts = RunFacts(run_id="a", what="a run", changed_ms=0, ended_ms=LOST_MS)
    history = PreparedHistory(session.createDataFrame(rows, SCHEMA).localCheckpoint(), facts)
    assert bool(owned_in_generation(history).collect()) == is_found
