"""Kafka's own assignors on the same groups: never less balanced, never more moved."""

from collections.abc import Iterator

import numpy as np
import pytest

from bench.cases import assignor_share, assignor_streams
from bench.cases.assignor_cases import SHAPES, ask_kafka, group, owning, without_last
from bench.cases.assignor_peer import AssignorPeer
from bench.cases.assignors import MODES, case_of
from bench.report.rounds import Figures
from bench.servers.kafka_jars import NoJavaError
from protocol.assignors.range import RangeAssignor
from protocol.assignors.spec import NOBODY, GroupSpec
from protocol.assignors.uniform import UniformAssignor
from tests.protocol.assignors.groups import array, loads, moved, spec_of, squares

GROUPS = 150
SIZES = [(7, 5, 4), (30, 40, 6), (100, 100, 10)]


pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def kafka() -> Iterator[AssignorPeer]:
    try:
        with AssignorPeer() as peer:
            yield peer
    except NoJavaError as error:
        pytest.skip(str(error))


def random_group(seed: int) -> GroupSpec:
    """A group with static members, and owners that may have unsubscribed or never have owned."""
    rng = np.random.default_rng(seed)
    topics, members = int(rng.integers(1, 9)), int(rng.integers(1, 13))
    classes = {
        tuple(np.flatnonzero(rng.random(topics) < rng.choice([0.3, 0.6, 1.0])).tolist())
        for _ in range(int(rng.integers(1, 6)))
    }
    sizes = rng.integers(1, rng.choice([3, 9, 30]), topics).tolist()
    owner = rng.integers(NOBODY, members, sum(sizes)) if rng.random() < 0.7 else None
    spec = spec_of(
        sizes,
        [list(each) for each in sorted(classes)],
        rng.integers(0, len(classes), members).tolist(),
        None if owner is None else owner.tolist(),
    )
    ranks = np.where(rng.random(members) < 0.5, rng.permutation(members), NOBODY)
    spec.instance_rank.resize(members, refcheck=False)
    spec.instance_rank[:] = ranks
    return spec


def check_no_worse(spec: GroupSpec, kafka: AssignorPeer) -> None:
    ours, theirs = UniformAssignor().assign(spec).owner, ask_kafka(kafka, "uniform", spec)
    assert squares(spec, ours) <= squares(spec, theirs)
    assert moved(spec, ours) <= moved(spec, theirs)
    for each in np.unique(spec.member_class):
        same = spec.member_class == each
        assert np.ptp(loads(spec, ours)[same]) <= np.ptp(loads(spec, theirs)[same])
    if len(np.unique(spec.member_class)) > 1:
        assert ours.tolist() == theirs.tolist(), "decisions are Kafka's, ties included"


def test_uniform_is_no_less_balanced_and_moves_no_more_on_random_groups(
    kafka: AssignorPeer,
) -> None:
    for seed in range(GROUPS):
        check_no_worse(random_group(seed), kafka)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_uniform_is_no_worse_in_every_shape_and_mode(
    kafka: AssignorPeer, shape: str, mode: str
) -> None:
    for members, topics, partitions in SIZES:
        spec = group(shape, members, topics, partitions)
        if mode == "join":
            spec = owning(spec, ask_kafka(kafka, "uniform", without_last(spec)))
        elif mode != "full":
            spec = owning(spec, ask_kafka(kafka, "uniform", spec))
        check_no_worse(without_last(spec) if mode == "leave" else spec, kafka)


def test_range_decides_as_kafkas_does(kafka: AssignorPeer) -> None:
    for seed in range(GROUPS):
        spec = random_group(seed)
        ours, theirs = RangeAssignor().assign(spec).owner, ask_kafka(kafka, "range", spec)
        assert ours.tolist() == theirs.tolist()


def test_instance_ids_decide_the_order_of_range(kafka: AssignorPeer) -> None:
    spec = spec_of([5], [[0]], [0, 0, 0], None)
    spec.instance_rank.resize(3, refcheck=False)
    spec.instance_rank[:] = array(1, NOBODY, 0)
    assert RangeAssignor().assign(spec).owner.tolist() == [2, 2, 0, 0, 1]
    assert ask_kafka(kafka, "range", spec).tolist() == [2, 2, 0, 0, 1]


def check_no_worse_than_by_chance(ours: Figures, theirs: Figures, *figures: str) -> None:
    """These assignors choose greedily, and Kafka's ties fall in the order of its hash maps."""
    for figure in figures:
        assert ours[figure] <= 1.05 * theirs[figure] + 5, figure


@pytest.mark.parametrize("shape", assignor_share.SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_simple_is_no_worse_in_every_shape_and_mode(
    kafka: AssignorPeer, shape: str, mode: str
) -> None:
    kind = assignor_share.SHARE
    for members, topics, partitions in SIZES:
        spec = case_of(kind, kind.group(shape, members, topics, partitions), mode, "simple", kafka)
        given = kind.from_kafka(kafka.assign("simple", kind.to_kafka(spec)))
        ours, theirs = kind.quality(spec, kind.run("simple", spec)), kind.quality(spec, given)
        check_no_worse_than_by_chance(ours, theirs, "spread", "sum_of_squares", "unowned", "moved")


@pytest.mark.parametrize("shape", assignor_streams.SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_sticky_is_no_worse_in_every_shape_and_mode(
    kafka: AssignorPeer, shape: str, mode: str
) -> None:
    kind = assignor_streams.STREAMS
    for members, subtopologies, tasks in [(7, 3, 5), (30, 5, 24), (100, 7, 90)]:
        made = kind.group(shape, members, subtopologies, tasks)
        spec = case_of(kind, made, mode, "sticky", kafka)
        given = kind.from_kafka(kafka.assign("sticky", kind.to_kafka(spec)))
        ours, theirs = kind.quality(spec, kind.run("sticky", spec)), kind.quality(spec, given)
        assert ours["standbys"] >= theirs["standbys"]
        check_no_worse_than_by_chance(ours, theirs, "spread", "sum_of_squares", "moved", "restored")
        assert ours["active_spread"] <= theirs["active_spread"]
