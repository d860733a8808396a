"""Small histories that are written here by hand: what must be found in them, and what must not."""

import pytest

pytest.importorskip("pyspark")

from bench.histories.checks import CHECKS
from bench.histories.prepared import PreparedHistory
from bench.histories.schema import SCHEMA, HistoryRow
from bench.histories.store import RunFacts
from bench.histories.verdict import violations

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

END_MS, SESSION_MS, BEAT_MS = 200_000, 45_000, 3_000
LOOKED_AT = (
    "no-owner", "ended-early", "incomplete", "foreign-partition", "lost-commit", "uncommitted",
    "never-read", "rolled-back", "static-moved",
)  # fmt: skip
WRITTEN = {}
"""What writes a history into a group, and what must be found in it, by the group's name."""


class Group:
    """The rows of a group with the partitions t-0 and t-1."""

    def __init__(self, name, protocol="classic"):
        self.name, self.protocol, self.sequence = name, protocol, 0
        self.rows = [HistoryRow("group", 0, group_id=name, protocol=protocol, owned=["t-0", "t-1"])]

    def row(self, kind, at_ms, member, life=1, **more):
        self.sequence += 1
        self.rows.append(
            HistoryRow(
                kind, at_ms, group_id=self.name, protocol=self.protocol, member=member[-1],
                life=life, sequence=self.sequence, member_id=f"{member}-{life}",
                instance_id=member[-1] if member.startswith("static") else None,
            )._replace(**{"asked_ms": at_ms - 1} | more)
        )  # fmt: skip

    def up(self, at_ms, member, generation, *parts, life=1):
        self.row("started", at_ms, member, life, asked_ms=None, session_timeout_ms=SESSION_MS)
        self.row("joined", at_ms + 100, member, life, generation=generation)
        self.assigned(at_ms + 200, member, generation, *parts, life=life)

    def assigned(self, at_ms, member, generation, *parts, life=1):
        names = [f"t-{each}" if isinstance(each, int) else each for each in parts]
        self.row(
            "assigned", at_ms, member, life, generation=generation, assigned=names, owned=names
        )

    def again(self, at_ms, member, generation, *parts):
        self.row("rebalancing", at_ms - 1_000, member, generation=generation - 1, owned=[])
        self.row("joined", at_ms - 500, member, generation=generation)
        self.assigned(at_ms, member, generation, *parts)

    def beats(self, from_ms, to_ms, member, generation, life=1):
        for at_ms in range(from_ms, to_ms, BEAT_MS):
            self.row("heartbeat", at_ms, member, life, generation=generation)

    def end(self, member, generation, *parts, life=1):
        self.row("final", END_MS - 10, member, life, asked_ms=None, generation=generation,
                 owned=[f"t-{each}" for each in parts])  # fmt: skip

    def gone(self, at_ms, member, life=1):
        self.row("ended", at_ms, member, life, asked_ms=None, owned=[])

    def offsets(self, kind, at_ms, offset, error=None):
        self.row(kind, at_ms, "a", offsets={"t-0": offset}, error=error)

    def read(self, at_ms=END_MS, **offsets):
        there = {name.replace("_", "-"): offset for name, offset in offsets.items()}
        self.rows.append(
            HistoryRow("fetched", at_ms, asked_ms=at_ms - 5, group_id=self.name, offsets=there)
        )

    def mark(self, kind, at_ms, cause):
        self.rows.append(HistoryRow(kind, at_ms, group_id=self.name, cause=cause))

    def alone(self, *parts):
        """Let one member own these partitions, or all, from the begin to the end."""
        self.up(1_000, "a", 1, *(parts or (0, 1)))
        self.beats(4_000, END_MS - 1_000, "a", 1)
        self.end("a", 1, 0, 1)


def written(*finds, protocol="classic"):
    """Register a history; ``finds`` are the checks that must find something in it."""

    def register(write):
        name = write.__name__.strip("_").replace("_", "-")
        WRITTEN[name] = (write, protocol, finds)
        return write

    return register


@written("lost-commit")
def _all_offsets_gone(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.read()


@written("never-read")
def _offsets_never_read(group):
    group.alone()
    group.offsets("committed", 150_000, 100)


@written("uncommitted")
def _refused_commit_applied(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.offsets("commit-failed", 160_000, 777, "illegal_generation")
    group.read(t_0=777)


@written()
def _unanswered_commit_applied(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.offsets("commit-failed", 160_000, 777, "disconnected")
    group.read(t_0=777)


@written()
def _open_commit_applied(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.offsets("committing", END_MS - 10, 777)
    group.read(t_0=777)


@written()
def _committed_after_the_rows_end(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.read(t_0=END_MS - 5)


@written()
def _committed_before_the_run(group):
    group.alone()
    group.read(t_0=777)


@written("lost-commit")
def _lost_and_committed_over(group):
    group.alone()
    group.offsets("committed", 100_000, 50)
    group.offsets("committed", 150_000, 100)
    group.read(160_000, t_0=50)
    group.offsets("committed", 170_000, 200)
    group.read(t_0=200)


@written("lost-commit")
def _gone_and_committed_again(group):
    group.alone()
    group.offsets("committed", 150_000, 100)
    group.read(160_000)
    group.offsets("committed", 170_000, 200)
    group.read(t_0=200)


@written()
def _read_before_the_commit_was_answered(group):
    group.alone()
    group.read(100_004)
    group.offsets("committed", 100_000, 50)
    group.read(150_004, t_0=50)
    group.offsets("committed", 150_000, 100)
    group.read(t_0=100)


@written("rolled-back")
def _unanswered_commit_read_and_lost(group):
    group.alone()
    group.offsets("committed", 100_000, 50)
    group.offsets("commit-failed", 150_000, 100, "disconnected")
    group.read(160_000, t_0=100)
    group.read(170_000, t_0=50)
    group.offsets("committed", 180_000, 200)
    group.read(t_0=200)


@written("incomplete")
def _hole_for_100_s(group):
    group.up(1_000, "a", 1, 0, 1)
    group.again(52_000, "a", 2, 0)
    group.again(152_000, "a", 3, 0, 1)
    group.end("a", 3, 0, 1)


@written("incomplete", protocol="consumer")
def _hole_of_a_consumer_group(group):
    group.up(1_000, "a", 1, 0)
    group.up(2_000, "b", 1, 1)
    group.assigned(52_000, "a", 2, 0)
    group.assigned(52_000, "b", 2)
    group.assigned(152_000, "b", 3, 1)
    group.beats(153_000, 156_000, "a", 3)
    group.end("a", 3, 0)
    group.end("b", 3, 1)


def _kept_out(group):
    """Let t-1 be nobody's from 52 s on, and tell both members another epoch every 20 s."""
    group.up(1_000, "a", 1, 0)
    group.up(2_000, "b", 1, 1)
    for epoch, at_ms in enumerate(range(52_000, 172_000, 20_000), 2):
        yield at_ms
        group.assigned(at_ms, "a", epoch, 0)
        group.assigned(at_ms, "b", epoch)
    group.assigned(173_000, "b", 7, 1)
    group.end("a", 7, 0)
    group.end("b", 7, 1)


@written("incomplete", protocol="consumer")
def _hole_with_churn_beside_it(group):
    for at_ms in _kept_out(group):
        group.mark("change", at_ms, "churn")


@written(protocol="consumer")
def _hole_while_the_coordinator_is_in_trouble(group):
    for at_ms in _kept_out(group):
        for late_ms in (0, 10_000):
            group.row("retried", at_ms + late_ms, "b", error="coordinator_not_available")


@written("incomplete")
def _a_short_bad_generation(group):
    group.up(1_000, "a", 1, 0, 1)
    group.again(52_000, "a", 2, 0)
    group.again(54_000, "a", 3, 0, 1)
    group.end("a", 3, 0, 1)


def _two(group, *parts, **more):
    """Let b join in generation 2, in which t-1 is nobody's, and get it in generation 3."""
    group.up(1_000, "a", 1, 0, 1)
    group.row("started", 51_000, "b", session_timeout_ms=SESSION_MS)
    group.row("rebalancing", 51_500, "a", generation=1, **({} if parts else {"owned": []}))
    group.row("joined", 52_000, "a", generation=2)
    group.row("joined", 52_000, "b", generation=2)
    group.row("assigned", 52_100, "a", generation=2, assigned=["t-0"], **{"owned": ["t-0"], **more})
    group.assigned(52_100, "b", 2)
    group.again(54_000, "b", 3, 1)
    group.row("joined", 53_500, "a", generation=3)
    group.assigned(54_000, "a", 3, 0)
    group.end("a", 3, 0)
    group.end("b", 3, 1)


@written("incomplete")
def _nobody_gets_it_when_another_one_joins(group):
    _two(group)


@written()
def _a_cooperative_member_gives_it_up_first(group):
    _two(group, 0, 1, revoked=["t-1"])


@written()
def _a_cooperative_member_takes_time_to_give_it_up(group):
    _two(group, 0, 1, owned=["t-0", "t-1"])


@written()
def _an_answer_was_lost_and_a_ghost_may_have_it(group):
    group.row("disconnected", 51_200, "b")
    _two(group)


@written()
def _a_member_subscribes_to_less(group):
    group.mark("change", 51_000, "flap")
    _two(group)


@written()
def _a_generation_that_was_not_completed(group):
    group.up(1_000, "a", 1, 0, 1)
    group.row("started", 51_000, "b", session_timeout_ms=SESSION_MS)
    group.row("joined", 52_000, "b", generation=2)
    group.again(52_000, "a", 2, 0)
    group.gone(53_000, "b")
    group.again(99_000, "a", 3, 0, 1)
    group.end("a", 3, 0, 1)


@written()
def _killed_before_its_join_was_answered(group):
    group.up(1_000, "a", 1, 0, 1)
    group.row("started", 51_000, "b", session_timeout_ms=SESSION_MS)
    group.gone(51_500, "b")
    group.again(52_000, "a", 2, 0)
    group.again(99_000, "a", 3, 0, 1)
    group.end("a", 3, 0, 1)


@written()
def _a_topic_grows(group):
    group.up(1_000, "a", 1, 0)
    group.again(150_000, "a", 2, 0)
    group.again(152_000, "a", 3, 0, 1)
    group.end("a", 3, 0, 1)


@written(protocol="consumer")
def _a_member_takes_100_s_to_revoke(group):
    group.up(1_000, "a", 1, 1)
    group.up(2_000, "b", 1, 0)
    group.assigned(52_000, "b", 2)
    group.beats(53_000, 150_000, "a", 1)
    group.assigned(152_000, "a", 2, 0)
    group.assigned(153_000, "b", 2, 1)
    group.end("a", 2, 0)
    group.end("b", 2, 1)


@written()
def _a_rebalance_waits_for_100_s(group):
    group.up(1_000, "a", 1, 0)
    group.up(1_000, "b", 1, 1)
    group.row("rebalancing", 51_000, "a", generation=1, owned=[])
    group.again(152_000, "b", 2, 1)
    group.row("joined", 151_500, "a", generation=2)
    group.assigned(152_000, "a", 2, 0)
    group.end("a", 2, 0)
    group.end("b", 2, 1)


@written("foreign-partition")
def _foreign_partition(group):
    group.alone(0, 1, "x-9")


@written()
def _other_topic_for_a_time(group):
    group.rows[0] = group.rows[0]._replace(assigned=["x-9"])
    group.alone(0, 1, "x-9")


@written("ended-early")
def _killed_before_the_end(group):
    group.up(1_000, "a", 1, 0)
    group.up(1_000, "b", 1, 1)
    group.beats(4_000, END_MS - 11_000, "b", 1)
    group.gone(END_MS - 10_000, "b")
    group.end("a", 1, 0)


@written("no-owner")
def _killed_long_before_the_end(group):
    group.up(1_000, "a", 1, 0)
    group.up(1_000, "b", 1, 1)
    group.gone(100_000, "b")
    group.end("a", 1, 0)


def _restart(group, *before):
    """Let a be gone and join again within its session, in a new generation."""
    group.beats(4_000, 60_000, "static a", 1)
    for row in before:
        group.row(*row)
    group.gone(60_000, "static a")
    group.row("started", 62_000, "static a", 2, session_timeout_ms=SESSION_MS)
    group.row("joined", 63_500, "static a", 2, generation=2)


def _bounced(group, *before):
    """Restart a within its session; a and b change places in a new generation."""
    group.up(1_000, "static a", 1, 0)
    group.up(1_000, "static b", 1, 1)
    _restart(group, *before)
    group.again(64_000, "static b", 2, 0)
    group.assigned(64_000, "static a", 2, 1, life=2)
    group.end("static a", 2, 1, life=2)
    group.end("static b", 2, 0)


@written("static-moved")
def _bounce_that_moves(group):
    _bounced(group)


@written()
def _bounce_after_another_member_left(group):
    group.row("started", 500, "c", session_timeout_ms=SESSION_MS)
    _bounced(group, ("left", 50_000, "c"))


@written()
def _offline_migration(group):
    group.up(1_000, "static a", 1, 0, 1)
    group.row("left", 60_000, "static a", owned=[])
    group.up(70_000, "static a", 1, 0, life=2)
    group.rows[-3:] = [each._replace(protocol="consumer") for each in group.rows[-3:]]
    group.up(70_000, "static b", 1, 1)
    group.end("static a", 1, 0, life=2)
    group.end("static b", 1, 1)


@written()
def _bounce_with_a_fault(group):
    group.rows.append(HistoryRow("fault", 61_000, group_id=group.name, cause="kill"))
    _bounced(group)


@written()
def _bounce_in_a_deploy(group):
    group.rows.append(HistoryRow("change", 59_000, group_id=group.name, cause="rolling-deploy"))
    _bounced(group)


@written("static-moved")
def _bounce_that_the_run_made(group):
    group.rows.append(HistoryRow("change", 59_000, group_id=group.name, cause="restart"))
    _bounced(group)


def _bystanders(group, *others):
    """Restart a, which keeps t-0; b and c, which live on, change places in a new generation."""
    group.rows[0] = group.rows[0]._replace(owned=["t-0", "t-1", "t-2"])
    for member, part in (("static a", 0), ("b", 1), ("c", 2)):
        group.up(1_000, member, 1, part)
    _restart(group, *others)
    group.assigned(64_000, "static a", 2, 0, life=2)
    for member, part in (("b", 2), ("c", 1)):
        if group.protocol == "classic":
            group.again(64_000, member, 2, part)
        else:
            group.assigned(63_800, member, 1)
            group.assigned(64_000, member, 2)
            group.assigned(65_000, member, 2, part)
        group.end(member, 2, part)
    group.end("static a", 2, 0, life=2)


@written("static-moved")
def _bounce_that_moves_others(group):
    _bystanders(group)


@written("static-moved", protocol="consumer")
def _bounce_that_moves_others_of_a_consumer_group(group):
    _bystanders(group)


@written()
def _others_move_as_another_member_left(group):
    group.row("started", 500, "d", session_timeout_ms=SESSION_MS)
    _bystanders(group, ("left", 50_000, "d"))


@written()
def _others_move_without_a_bounce(group):
    group.up(1_000, "a", 1, 0)
    group.up(1_000, "b", 1, 1)
    group.again(64_000, "a", 2, 1)
    group.again(64_000, "b", 2, 0)
    group.end("a", 2, 1)
    group.end("b", 2, 0)


@pytest.fixture(scope="module")
def found(session):
    rows = []
    for name, (write, protocol, _) in WRITTEN.items():
        group = Group(name, protocol)
        write(group)
        rows += group.rows
    facts = RunFacts(run_id="a", what="a run", changed_ms=50_000, ended_ms=END_MS)
    kept = session.createDataFrame(rows, SCHEMA).coalesce(1).localCheckpoint()
    told = {name: set() for name in WRITTEN}
    for row in violations(PreparedHistory(kept, facts)).collect():
        if row["check"] in LOOKED_AT:
            told[row["group_id"]].add(row["check"])
    return told


def test_what_is_looked_at_are_checks():
    assert {*LOOKED_AT} <= {*CHECKS}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_history_has_just_its_own_findings(found, name):
    assert found[name] == {*WRITTEN[name][2]}
