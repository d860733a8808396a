"""Who had an instance id, who was fenced, refused or expelled, and which generations were told."""

from functools import reduce

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.checks import CHECKS
from bench.histories.costs import COSTS
from bench.histories.instances import zombie_served
from bench.histories.prepared import FENCED, UNRELEASED
from bench.histories.schema import CHANGE, FAULT, HistoryRow
from protocol.members.history import MemberHistoryKind as Kind
from tests.bench.histories.written import CHANGED_MS, ENDED_MS, WrittenGroup, history_of

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

LOOKED_AT = ("zombie-served", "fenced-wrongly", "refused-wrongly", "backward", "expelled-early")
UNKNOWN = "unknown_member_id"
FAULT_MS = 200_000

FOUND = {}
"""What writes a group, by its name, and the checks that must find something in it."""


def finds(*checks, protocol="classic"):
    def note(write):
        FOUND[write.__name__] = (write, protocol, {*checks})
        return write

    return note


# --- an instance id has one member


@finds("zombie-served")
def zombie_that_is_never_fenced(group):
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 1)
    group.beats(62_000, 160_000, "s", 1)
    group.beats(62_000, 390_000, "s:2", 1)
    group.stays("s", 1)
    group.stays("s:2", 1)


@finds("zombie-served", protocol="consumer")
def modern_zombie_after_a_leave(group):
    group.comes(1_000, "s", 1)
    group.ends(60_000, "s", Kind.LEFT)
    group.comes(61_000, "s:2", 1)
    group.row(Kind.HEARTBEAT, 70_000, "s", generation=1)
    group.ends(71_000, "s")
    group.stays("s:2", 1)


@finds("zombie-served")
def zombie_that_joins_again_under_its_old_id(group):
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 1)
    group.joins(70_000, "s", 2)
    group.ends(71_000, "s")
    group.stays("s:2", 1)


@finds()
def zombie_whose_request_was_on_its_way(group):
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 1, asked_ms=60_010)
    group.row(Kind.HEARTBEAT, 60_400, "s", generation=1, asked_ms=60_050)
    group.told(Kind.FAILED, 64_000, "s", FENCED)
    group.stays("s:2", 1)


@finds()
def two_that_take_it_from_each_other(group):
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 1)
    group.told(Kind.LOST, 120_000, "s", UNKNOWN)
    group.joins(121_000, "s", 1, member_id="s-3")
    group.beats(123_000, 150_000, "s", 1, member_id="s-3")
    group.told(Kind.FAILED, 124_000, "s:2", FENCED)
    group.stays("s", 1)


@finds()
def take_over_that_a_failover_forgot(group):
    """The newcomer's member id is written with the assignments, which never came."""
    group.comes(1_000, "s", 1)
    group.starts(60_000, "s:2")
    group.row(Kind.JOINED, 61_000, "s:2", generation=2)
    group.ends(62_000, "s:2")
    group.beats(63_000, 390_000, "s", 1)
    group.stays("s", 1)


@finds(protocol="consumer")
def late_revocation_is_no_answer(group):
    """Its session ended while it gave up its partitions, and another life joined."""
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 2)
    group.row(Kind.ASSIGNED, 63_000, "s", generation=1, asked_ms=None, assigned=[], owned=[])
    group.told(Kind.LOST, 64_000, "s", "fenced_member_epoch")
    group.ends(65_000, "s")
    group.stays("s:2", 2)


# --- only the right one is fenced


@finds("fenced-wrongly", "zombie-served")
def newer_life_is_fenced(group):
    group.comes(1_000, "s", 1)
    group.comes(60_000, "s:2", 1)
    group.told(Kind.FAILED, 64_000, "s:2", FENCED)
    group.beats(62_000, 120_000, "s", 1)
    group.row(Kind.REBALANCING, 121_000, "s", generation=1, owned=[])
    group.joins(121_500, "s", 2)
    group.stays("s", 2)


@finds("fenced-wrongly")
def fenced_before_the_newer_life_asks(group):
    group.comes(1_000, "s", 1)
    group.starts(60_000, "s:2")
    group.told(Kind.FAILED, 61_000, "s", FENCED)
    group.joins(90_000, "s:2", 1)
    group.stays("s:2", 1)


@finds()
def fenced_by_a_join_without_an_answer(group):
    group.comes(1_000, "s", 1)
    group.starts(60_000, "s:2")
    group.row(Kind.DISCONNECTED, 80_000, "s:2", asked_ms=60_100)
    group.told(Kind.FAILED, 61_000, "s", FENCED)
    group.joins(90_000, "s:2", 1)
    group.stays("s:2", 1)


@finds()
def fenced_by_a_life_that_was_killed_as_it_joined(group):
    group.comes(1_000, "s", 1)
    group.starts(60_000, "s:2")
    group.ends(60_500, "s:2")
    group.told(Kind.FAILED, 61_000, "s", FENCED)


# --- an instance id is refused while another one has it


@finds("refused-wrongly", protocol="consumer")
def refused_though_the_other_one_left(group):
    group.comes(1_000, "s", 1)
    group.ends(61_000, "s", Kind.LEFT)
    group.starts(150_000, "s:2")
    group.told(Kind.RETRIED, 150_100, "s:2", UNRELEASED)
    group.joins(151_000, "s:2", 1)
    group.stays("s:2", 1)


@finds("refused-wrongly", protocol="consumer")
def refused_though_nobody_else_was_there(group):
    group.starts(60_000, "s")
    group.told(Kind.RETRIED, 60_100, "s", UNRELEASED)
    group.joins(61_000, "s", 1)
    group.stays("s", 1)


@finds("refused-wrongly", protocol="consumer")
def refused_long_after_the_session_ended(group):
    group.comes(1_000, "s", 1)
    group.ends(20_000, "s")
    group.starts(160_000, "s:2")
    group.told(Kind.RETRIED, 160_100, "s:2", UNRELEASED)
    group.ends(161_000, "s:2")


@finds(protocol="consumer")
def refused_while_the_session_lasts(group):
    group.comes(1_000, "s", 1)
    group.ends(61_000, "s")
    group.starts(62_000, "s:2")
    for at_ms in range(62_100, 106_000, 1_000):
        group.told(Kind.RETRIED, at_ms, "s:2", UNRELEASED)
    group.joins(106_100, "s:2", 2)
    group.stays("s:2", 2)


@finds(protocol="consumer")
def refused_while_the_other_one_goes_on(group):
    group.comes(1_000, "s", 1)
    group.starts(62_000, "s:2")
    group.told(Kind.RETRIED, 380_000, "s:2", UNRELEASED)
    group.stays("s", 1)
    group.stays("s:2", 0, ())


@finds(protocol="consumer")
def refused_as_a_fault_began_the_session_again(group):
    group.comes(1_000, "s", 1)
    group.ends(61_000, "s")
    group.starts(201_000, "s:2")
    group.told(Kind.RETRIED, FAULT_MS + 2_000, "s:2", UNRELEASED)
    group.ends(203_000, "s:2")


@finds(protocol="consumer")
def refused_as_the_leave_was_not_answered(group):
    group.comes(1_000, "s", 1)
    group.row(Kind.DISCONNECTED, 61_000, "s", asked_ms=31_000)
    group.row(Kind.LEFT, 61_000, "s", asked_ms=31_000, owned=[])
    group.starts(62_000, "s:2")
    group.told(Kind.RETRIED, 62_100, "s:2", UNRELEASED)
    group.ends(63_000, "s:2")


# --- generations and epochs only grow


@finds("backward")
def older_over_the_lives_of_a_static_member(group):
    group.comes(1_000, "s", 9)
    group.ends(2_000, "s")
    group.comes(4_000, "s:2", 3)
    group.stays("s:2", 3)


@finds("backward")
def older_for_a_newcomer(group):
    group.comes(1_000, "b", 9)
    group.beats(2_000, 390_000, "b", 9)
    group.comes(60_000, "c", 3, ())
    group.stays("b", 9)
    group.stays("c", 3, ())


@finds("backward", protocol="consumer")
def older_for_one_that_was_expelled(group):
    group.comes(1_000, "b", 1)
    group.comes(1_000, "c", 1, ())
    group.beats(2_000, 390_000, "b", 1)
    group.row(Kind.ASSIGNED, 60_000, "b", generation=3, assigned=["t-0"], owned=["t-0"])
    group.told(Kind.LOST, 61_000, "c", UNKNOWN)
    group.joins(62_000, "c", 2, ())
    group.stays("b", 3)
    group.stays("c", 2, ())


@finds()
def begun_again_by_a_group_without_members(group):
    group.comes(1_000, "b", 9)
    group.ends(60_000, "b", Kind.LEFT)
    group.comes(60_500, "c", 1)
    group.stays("c", 1)


@finds()
def begun_again_after_the_session_of_the_only_one(group):
    group.comes(1_000, "s", 9)
    group.ends(2_000, "s")
    group.comes(60_000, "s:2", 1)
    group.stays("s:2", 1)


@finds()
def newcomer_that_asked_before_the_others_were_told(group):
    group.comes(1_000, "b", 9)
    group.beats(2_000, 390_000, "b", 9)
    group.starts(50_000, "c")
    group.joins(60_200, "c", 10, (), asked_ms=50_100)
    group.row(Kind.ASSIGNED, 60_150, "b", generation=11, assigned=[], owned=[])
    group.stays("b", 11)
    group.stays("c", 10, ())


@finds(protocol="consumer")
def epoch_that_lags_behind_its_group(group):
    group.comes(1_000, "b", 1, ["t-0"])
    group.comes(2_000, "c", 2, ["t-1"])
    group.comes(60_000, "d", 3, ())
    group.row(Kind.ASSIGNED, 61_000, "b", generation=2, assigned=["t-0"], owned=["t-0"])
    group.beats(62_000, 390_000, "c", 2)
    for who in "bcd":
        group.stays(who, 3)


# --- nobody is expelled early


@finds()
def not_synced_in_the_rebalance_timeout(group):
    group.comes(1_000, "b", 1)
    group.beats(2_000, 390_000, "b", 1)
    group.starts(60_000, "c")
    group.row(Kind.JOINED, 60_500, "c", generation=2, asked_ms=60_100)
    group.told(Kind.LOST, 66_000, "c", UNKNOWN)
    group.ends(67_000, "c")
    group.stays("b", 1)


@finds("expelled-early")
def expelled_after_its_assignment(group):
    group.comes(60_000, "c", 1)
    group.told(Kind.LOST, 66_000, "c", UNKNOWN)
    group.ends(67_000, "c")


def written(name):
    write, protocol, _ = FOUND[name]
    group = WrittenGroup(name, protocol)
    write(group)
    return group


@pytest.fixture(scope="module")
def found(session):
    """Return the checks that found something, by group."""
    fault = HistoryRow(FAULT, FAULT_MS, cause="kill")
    history = history_of(session, map(written, FOUND), [fault])
    each = (CHECKS[name].find(history).withColumn("check", F.lit(name)) for name in LOOKED_AT)
    rows = reduce(lambda one, other: one.unionByName(other), each).collect()
    by_group = {}
    for row in rows:
        by_group.setdefault(row["group_id"], set()).add(row["check"])
    return by_group


@pytest.mark.parametrize("name", FOUND)
def test_what_is_forbidden_is_found_and_nothing_else(found, name):
    assert found.get(name, set()) == FOUND[name][2]


def test_nothing_is_found_within_the_error_of_the_clocks(session):
    group = written("zombie_that_is_never_fenced")
    assert zombie_served(history_of(session, [group], clock_error_ms=99_000)).collect() == []


def test_a_group_that_never_converges_pays_until_the_end(session):
    settled, newcomer, rebalances, failed = (
        WrittenGroup(name) for name in ("settled", "newcomer", "rebalances", "failed")
    )
    for group in (settled, newcomer, rebalances, failed):
        group.comes(1_000, "b", 1)
        group.row(Kind.ASSIGNED, 70_000, "b", generation=2, assigned=[], owned=[])
        group.stays("b", 2)
    newcomer.starts(110_000, "c")
    newcomer.stays("c", 2, ())
    rebalances.rows.pop()
    rebalances.told(Kind.REBALANCING, 111_000, "b", "rebalance_in_progress", generation=2)
    rebalances.stays("b", 2)
    failed.starts(110_000, "c")
    failed.told(Kind.FAILED, 110_100, "c", "group_authorization_failed")
    failed.stays("c", 2, ())
    change = HistoryRow(CHANGE, CHANGED_MS, cause="scale")
    history = history_of(session, (settled, newcomer, rebalances, failed), [change])
    rows = COSTS["converged-ms"].compute(history).collect()
    waits_ms = ENDED_MS - CHANGED_MS
    assert {row["group_id"]: row["value"] for row in rows} == {
        "settled": 20_000, "newcomer": waits_ms, "rebalances": waits_ms, "failed": 20_000,
    }  # fmt: skip
