"""Parts of a report's document: steps of time, histograms, bands, causes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pages import ownership
from bench.pages.histogram import BUCKETS, StepHistograms, bucket_ends, bucket_of
from bench.pages.ownership import OwnershipTimes
from bench.pages.rebalances import NOBODY, rebalances
from bench.pages.steps import edges, mean_count, step_ms
from bench.scenarios.record import Owned
from failover.percentiles import percentiles
from tests.bench.pages.histories import T0, A, F, H, J, K, L, R, event, handed_over, life, run


def test_steps_are_round_and_few():
    assert step_ms(300_000, 240) == 2_000
    assert step_ms(24 * 3_600_000, 240) == 600_000
    assert edges(2_500, 1_000).tolist() == [0, 1_000, 2_000, 2_500]


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 5_000)), max_size=20))
def test_the_mean_of_spans_is_their_sum(spans):
    at = edges(5_000, 700)
    total = float((mean_count(spans, at) * np.diff(at)).sum())
    assert total == pytest.approx(sum(max(0, ended - began) for began, ended in spans))


@given(st.integers(0, 2**31))
def test_a_bucket_is_narrow(value):
    bucket = int(bucket_of(np.array([value]))[0])
    end = int(bucket_ends()[bucket])
    assert 0 <= bucket < BUCKETS
    assert value <= end <= value * (1 + 1 / 32)
    assert bucket == 0 or bucket_ends()[bucket - 1] < value


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_percentiles_are_exact_to_a_bucket(values, share):
    histograms = StepHistograms(edges(1_000, 1_000))
    histograms.add(np.full(len(values), 500), np.array(values))
    (found,) = histograms.percentile(share)
    ordered = sorted(values)
    exact = ordered[max(0, -(-int(len(values) * share * 100) // 100) - 1)]
    near = {exact, *percentiles(values, (share,))}
    assert min(near) <= found <= max(near) * (1 + 1 / 32) + 1
    assert histograms.largest() == [max(values)]


def test_a_step_without_values_has_no_percentile():
    histograms = StepHistograms(edges(2_000, 1_000))
    histograms.add(np.array([1_500, 9_999]), np.array([70, 80]))
    assert histograms.percentile(0.99) == [None, 70]


def owned(*stretches):
    return [Owned(began, ended, name) for began, ended, name in stretches]


def test_what_is_too_fine_is_drawn_in_bands(monkeypatch):
    monkeypatch.setattr(ownership, "ROWS_MAX", 3)
    monkeypatch.setattr(ownership, "BANDS_MAX", 2)
    partitions = [("t", index) for index in range(4)]
    times = OwnershipTimes(
        partitions,
        {
            ("t", 0): owned((0, 1_000, "x"), (1_000, 10_000, "y")),
            ("t", 1): owned((0, 10_000, "x")),
            ("t", 2): owned((0, 5_000, "x")),
        },
        0,
        10_000,
    )
    picture = times.picture(is_exclusive=True)
    assert (picture.form, picture.band, picture.step_ms) == ("bands", 2, 100)
    assert picture.rows[0] == [10, 0, 0, 0, 1, 0, 0, 1, 89, 0, 0, 0]
    assert picture.rows[1] == [50, 500, 0, 0, 50, 500, 500, 0]


def test_a_picture_of_many_partitions_stays_small():
    partitions = [("t", index) for index in range(50_000)]
    owners = {
        each: owned(*((at, at + 90, f"m{(each[1] + at) % 977}") for at in range(0, 1_000, 100)))
        for each in partitions
    }
    picture = OwnershipTimes(partitions, owners, 0, 1_000).picture(is_exclusive=True)
    assert picture.form == "bands"
    assert len(picture.rows) <= ownership.BANDS_MAX
    assert sum(map(len, picture.rows)) <= 4 * ownership.STRETCHES_MAX


def causes(reported):
    spans = rebalances(reported.record, reported.record.of_group("a"), [])
    return [(each.generation, each.began_ms, each.ended_ms, each.cause) for each in spans]


def told(*lives, **settings):
    """Return the causes of the generations of a group with these lives."""
    return [cause for *_, cause in causes(run(*lives, **settings))]


def test_a_rebalance_begins_with_its_cause():
    assert causes(handed_over()) == [(1, 0, 100, "x, y joined"), (2, 2_000, 3_500, "x left")]


NOT_HEARD = "was not heard for a session timeout"


def test_a_silent_member_is_missed_a_session_after_it_was_heard():
    """Up to a heartbeat interval before a session after its end: it counts from its last answer."""
    after = (event(4_000, R, 1), event(4_100, J, 2), event(4_200, A, 2, T0))
    found = causes(
        run(
            life("x", 1, event(10, J), event(20, A, 1, T0), event(1_800, H), ended_ms=3_700),
            life("y", 2, event(10, J), event(20, A, 1), event(2_000, H), *after),
            session_ms=2_000,
        )
    )
    assert found[1] == (2, 3_800, 4_200, f"x {NOT_HEARD}")


def test_a_member_that_lives_on_in_silence_is_missed_too():
    silent = life("x", 1, event(20, A, 1, T0), event(1_000, H), seen_ms=10_000)
    others = life("y", 2, event(20, A, 1), event(3_010, R, 1), event(3_100, A, 2, T0))
    assert told(silent, others, session_ms=2_000)[1] == f"x {NOT_HEARD}"


def test_a_paused_member_is_missed_and_then_joins():
    lost = replace(event(6_000, K, -1), error="unknown_member_id")
    paused = life(
        "x", 1, event(20, A, 1, T0), event(1_000, H), lost, event(6_900, J, 3), event(7_000, A, 3)
    )
    others = life(
        "y", 2, event(20, A, 1), event(3_050, R, 1), event(3_100, A, 2, T0), event(7_000, A, 3)
    )
    assert told(paused, others, session_ms=2_000)[1:] == [f"x {NOT_HEARD}", "x joined"]


def test_of_several_silent_members_those_are_named_whose_sessions_ended():
    """A member of which a rebalance that others began had dealt before is not named once more."""
    found = told(
        life("x", 1, event(20, A, 1), ended_ms=500),
        life("y", 2, event(20, A, 1), event(4_900, H), ended_ms=5_000),
        life("z", 3, event(20, A, 1), event(2_500, R), event(2_600, A, 2), event(7_050, A, 3)),
        life(
            "new", 4, event(2_580, J, 2), event(2_600, A, 2), event(7_050, A, 3), started_ms=2_400
        ),
        session_ms=2_000,
    )
    assert found[1:] == [f"new joined; x {NOT_HEARD}", f"y {NOT_HEARD}"]


def test_a_member_that_was_replaced_is_not_missed():
    fenced = replace(event(2_900, F, -1), error="fenced_instance_id")
    found = told(
        life("x", 1, event(20, A, 1, T0), fenced, static=True),
        life("y", 2, event(20, A, 1), event(9_000, A, 2, T0), static=True),
        session_ms=2_000,
    )
    assert found[1] == NOBODY


def test_a_static_member_that_comes_back_in_time_is_no_cause():
    found = causes(
        run(
            life("x", 1, event(20, A, 1, T0), event(2_000, L, -1), static=True, ended_ms=2_000),
            life("x", 2, event(3_000, A, 1, T0), static=True, started_ms=2_500),
            life("y", 3, event(20, A, 1), event(7_000, R, 1), event(7_100, A, 2)),
        )
    )
    assert found == [(1, 0, 20, "x, y joined"), (2, 7_000, 7_100, NOBODY)]


def test_a_changed_subscription_is_a_cause():
    flaps = replace(life("x", 1, event(20, A, 1), event(3_100, A, 2)), subscribed_ms=(3_000,))
    assert causes(run(flaps))[1] == (2, 3_000, 3_100, "x changed the subscription")


def test_a_cause_is_told_of_one_member_or_of_several():
    gone = [life(name, n, event(20, A, 1), ended_ms=2_000) for n, name in enumerate("xz")]
    others = life("y", 9, event(20, A, 1), event(2_100, A, 2))
    assert told(others, *gone, session_ms=2_000)[1] == "x, z were not heard for a session timeout"


def test_a_cause_names_a_few_members_and_counts_the_others():
    gone = [
        life(f"z{each}", each, event(20, A, 1), event(5_000, L, -1), ended_ms=5_000)
        for each in range(2, 6)
    ]
    found = told(life("y", 1, event(20, A, 1), event(5_100, A, 2)), *gone)
    assert found[1] == "z2, z3 and 2 more left"
