"""What the histories of a crowd tell, on small crowds written by hand."""

import shutil
import signal

import pytest

from bench.load.driver import FINAL
from failover.drills import verdict
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def session():
    from bench.load.spark import local_session

    session = local_session()
    yield session
    session.stop()


def row(name, kind, time_ms, generation=1, owned=(), **other):
    """A row of group g; a name with an "s" is a static member's."""
    return (
        "g", name, "s" in name, time_ms, str(kind), other.get("member_id", name), generation,
        list(owned), other.get("error"), other.get("offsets", {}),
    )  # fmt: skip


def frame(session, *rows):
    from bench.load.history import SCHEMA

    return session.createDataFrame(list(rows), SCHEMA)


def test_a_member_has_kept_what_it_holds_again_in_the_end(session):
    from bench.load.history import kept

    history = frame(
        session,
        row("s1", MemberHistoryKind.ASSIGNED, 10, owned=["t-0"]),
        row("s1", FINAL, 100, owned=["t-0"]),
        row("d1", MemberHistoryKind.ASSIGNED, 10, owned=["t-1"]),
        row("d1", MemberHistoryKind.ASSIGNED, 60, 2, owned=["t-1"], member_id="other"),
        row("d1", FINAL, 100, 2, owned=["t-1"], member_id="other"),
        row("d2", MemberHistoryKind.ASSIGNED, 60, 2, owned=["t-2"]),
        row("d2", FINAL, 100, 2, owned=["t-2"]),
    )
    found = {each["name"]: tuple(each)[2:] for each in kept(history, 50).collect()}
    assert found == {
        "s1": (True, True, True, True),
        "d1": (False, False, False, True),
        "d2": (False, False, False, False),
    }


def test_each_generation_after_the_moment_is_one_rebalance(session):
    from bench.load.history import rebalances

    history = frame(
        session,
        row("s1", MemberHistoryKind.ASSIGNED, 10, 1),
        row("s1", MemberHistoryKind.ASSIGNED, 60, 2),
        row("d1", MemberHistoryKind.ASSIGNED, 61, 2),
        row("d1", MemberHistoryKind.ASSIGNED, 70, 3),
    )
    assert [tuple(each) for each in rebalances(history, 50).collect()] == [("g", 2)]
    assert [tuple(each) for each in rebalances(history).collect()] == [("g", 3)]


def test_the_longest_gap_reaches_from_sign_to_sign_and_to_the_end(session):
    from bench.load.history import heartbeat_gaps

    history = frame(
        session,
        row("s1", MemberHistoryKind.ASSIGNED, 0),
        row("s1", MemberHistoryKind.HEARTBEAT, 30),
        row("s1", MemberHistoryKind.DISCONNECTED, 40),
        row("s1", MemberHistoryKind.HEARTBEAT, 90),
        row("s1", FINAL, 100),
        row("d1", MemberHistoryKind.ASSIGNED, 0),
        row("d1", FINAL, 100),
    )
    gaps = {each["name"]: each["longest_gap_ms"] for each in heartbeat_gaps(history).collect()}
    assert gaps == {"s1": 60, "d1": 100}


def test_a_partition_with_two_owners_in_one_generation_is_found(session):
    from bench.load.history import owned_twice

    history = frame(
        session,
        row("s1", MemberHistoryKind.ASSIGNED, 10, 1, ["t-0", "t-1"]),
        row("s2", MemberHistoryKind.ASSIGNED, 11, 1, ["t-1"]),
        row("s2", MemberHistoryKind.ASSIGNED, 20, 2, ["t-0"]),
        row("s1", MemberHistoryKind.ASSIGNED, 21, 2, ["t-1"]),
        row("s1", MemberHistoryKind.ASSIGNED, 22, 2, ["t-1"]),
    )
    (found,) = owned_twice(history).collect()
    assert tuple(found) == ("g", 1, "t-1", ["s1", "s2"])


PLANTED = (
    # name, kind, time, generation, partitions, offsets; the moment of the fault is 50
    ("s1", MemberHistoryKind.ASSIGNED, 10, 1, (0, 1), ()),
    ("d2", MemberHistoryKind.ASSIGNED, 11, 1, (1,), ()),
    ("s3", MemberHistoryKind.ASSIGNED, 12, 1, (2,), ()),
    ("s1", MemberHistoryKind.COMMITTED, 20, 1, (), ((0, 5), (1, 5))),
    ("d2", MemberHistoryKind.COMMIT_FAILED, 30, 1, (), ((1, 9),)),
    ("s3", MemberHistoryKind.COMMITTED, 40, 1, (), ((2, 4),)),
    ("s1", MemberHistoryKind.ASSIGNED, 50, 1, (0, 1), ()),  # an assignment given again
    ("s3", MemberHistoryKind.JOINED, 55, 2, (), ()),
    ("s1", MemberHistoryKind.ASSIGNED, 60, 2, (0,), ()),
    ("s3", MemberHistoryKind.ASSIGNED, 61, 2, (0, 2), ()),
    ("s3", MemberHistoryKind.ASSIGNED, 62, 2, (0, 2), ()),
    ("s1", MemberHistoryKind.COMMITTED, 70, 2, (), ((0, 7),)),
    ("d2", MemberHistoryKind.ASSIGNED, 80, 4, (1,), ()),
)
THERE = {("g", "t", 0): 6, ("g", "t", 1): 5}


def test_spark_and_the_verdict_of_drills_find_the_same_in_the_same_histories(session):
    from bench.load.history import COMMITTED_SCHEMA, lost_commits, owned_twice, rebalances

    history = frame(
        session,
        *(
            row(
                name, kind, time_ms, generation, [f"t-{index}" for index in partitions],
                offsets={f"t-{index}": offset for index, offset in offsets},
            )
            for name, kind, time_ms, generation, partitions, offsets in PLANTED
        ),
    )  # fmt: skip
    there = [(group, f"{topic}-{index}", offset) for (group, topic, index), offset in THERE.items()]
    committed = session.createDataFrame(there, COMMITTED_SCHEMA)
    record = verdict.DrillRecord(
        stories=[story(name) for name in ("s1", "d2", "s3")],
        committed=THERE,
        fault_ms=50,
        replicated_ms=None,
    )
    assert {
        f"{each.partition} of g had {len(each.owners)} owners in generation {each.generation}:"
        f" {', '.join(each.owners)}"
        for each in owned_twice(history).collect()
    } == {*verdict.owned_twice(record)}
    assert len(verdict.owned_twice(record)) == 2
    assert {
        f"{each.partition} of g: {each.acknowledged} was acknowledged, {each.offset} is there"
        for each in lost_commits(history, committed).collect()
    } == {*verdict.lost_commits(record)}
    assert len(verdict.lost_commits(record)) == 2
    counted = {each.group_id: each.rebalances for each in rebalances(history, 50).collect()}
    assert counted == verdict.rebalances(record) == {"g": 2}


def story(planted):
    events = tuple(
        MemberHistoryEvent(
            time_ms=time_ms,
            kind=kind,
            member_id=name,
            instance_id=None,
            generation=generation,
            partitions=tuple(("t", index) for index in partitions),
            offsets=tuple(("t", *each) for each in offsets),
        )
        for name, kind, time_ms, generation, partitions, offsets in PLANTED
        if name == planted
    )
    return verdict.MemberTimeline(
        group_id="g", name=planted, is_static="s" in planted, events=events
    )


def test_an_acknowledged_offset_that_is_gone_or_went_back_is_found(session):
    from bench.load.history import COMMITTED_SCHEMA, lost_commits

    history = frame(
        session,
        row("s1", MemberHistoryKind.COMMITTED, 10, offsets={"t-0": 5, "t-1": 5, "t-2": 5}),
        row("s1", MemberHistoryKind.COMMITTED, 20, offsets={"t-0": 9}),
        row("s1", MemberHistoryKind.COMMIT_FAILED, 30, offsets={"t-2": 7}),
    )
    there = [("g", "t-0", 8), ("g", "t-2", 5)]
    committed = session.createDataFrame(there, COMMITTED_SCHEMA)
    lost = {each["partition"]: each["acknowledged"] for each in
            lost_commits(history, committed).collect()}  # fmt: skip
    assert lost == {"t-0": 9, "t-1": 5}


def test_the_summary_is_flawless_only_if_nobody_lost_anything_and_no_group_rebalanced(session):
    from bench.load.history import COMMITTED_SCHEMA
    from bench.report.summary import summarize

    nothing = session.createDataFrame([], COMMITTED_SCHEMA)
    fine = [
        row("s1", MemberHistoryKind.ASSIGNED, 10, owned=["t-0"]),
        row("s1", FINAL, 100, owned=["t-0"]),
    ]
    summary = summarize(frame(session, *fine), nothing, 50, ["g"])
    assert summary.is_flawless
    assert "100.0 %" in summary.text()
    moved = [fine[0], row("s1", FINAL, 100, 2, owned=["t-1"])]
    assert not summarize(frame(session, *moved), nothing, 50, ["g"]).is_flawless
    again = [fine[0], row("s1", MemberHistoryKind.ASSIGNED, 60, 2, ["t-0"]), fine[1]]
    summary = summarize(frame(session, *again), nothing, 50, ["g"])
    assert summary.rebalances == 1
    assert not summary.is_flawless


def test_spark_leaves_the_handling_of_an_interrupt_alone(session):
    assert signal.getsignal(signal.SIGINT).__module__ != "pyspark.core.context"
