import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.workers.fair_queue import FairQueue
from tests.effort import examples


def served(queue: FairQueue[str], cost_ms: dict[str, float], turns: int) -> list[str]:
    order = []
    for _ in range(turns):
        found = queue.pop()
        if found is None:
            break
        coordinator, group_id, item = found
        queue.charge(coordinator, group_id, cost_ms[item])
        order.append(item)
    return order


def test_items_of_one_group_are_served_in_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "abc":
        queue.push("c-0", "g", item)
    assert served(queue, dict.fromkeys("abc", 1.0), 9) == ["a", "b", "c"]
    assert queue.pop() is None


def test_a_group_with_long_runs_waits_behind_one_that_asks_for_little() -> None:
    queue: FairQueue[str] = FairQueue()
    cost = {"huge": 500.0, "small": 1.0}
    for _ in range(3):
        queue.push("c-0", "huge", "huge")
    for _ in range(5):
        queue.push("c-0", "small", "small")
    assert served(queue, cost, 7) == ["huge", *["small"] * 5, "huge"]


def test_one_coordinators_groups_do_not_crowd_out_anothers() -> None:
    queue: FairQueue[str] = FairQueue()
    cost = {"many": 10.0, "one": 10.0}
    for number in range(100):
        queue.push("busy", f"g-{number}", "many")
    queue.push("quiet", "g", "one")
    assert "one" in served(queue, cost, 2)


def test_credit_is_not_saved_up_by_staying_away() -> None:
    queue: FairQueue[str] = FairQueue()
    cost = {"steady": 10.0, "late": 10.0}
    for _ in range(50):
        queue.push("c-0", "steady", "steady")
    served(queue, cost, 20)
    for _ in range(50):
        queue.push("c-1", "late", "late")
    order = served(queue, cost, 20)
    assert 8 <= order.count("late") <= 12


def test_what_waits_for_a_cancelled_group_is_taken_out() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("c-0", "g", "a")
    queue.push("c-0", "h", "b")
    assert queue.discard("c-0", "g") == ["a"]
    assert queue.discard("c-1", "g") == []
    assert len(queue) == 1
    assert queue.pop() == ("c-0", "h", "b")


TYPES = ("consumer", "share", "streams")


@pytest.mark.parametrize("innocent", TYPES)
@pytest.mark.parametrize("heavy", TYPES)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_no_type_of_group_starves_another(innocent: str, heavy: str, data: st.DataObject) -> None:
    """KIP-1263: runs of heavy groups follow each other for ever, on one or two coordinators.

    An innocent group asks now and then. Before its run, at most one run of each other group of its
    coordinator is done, as much for the other coordinator, and a run of each that is under way;
    however much work there has been before.
    """
    costs = data.draw(st.lists(st.integers(20, 500), min_size=1, max_size=6))
    crowd = {f"{heavy}-{number}": float(cost) for number, cost in enumerate(costs)}
    homes = {name: f"c-{data.draw(st.integers(0, 1))}" for name in crowd}
    gaps = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))
    queue: FairQueue[str] = FairQueue()
    for name in crowd:
        queue.push(homes[name], name, name)

    def serve() -> str:
        found = queue.pop()
        assert found is not None
        coordinator, group_id, item = found
        queue.charge(coordinator, group_id, crowd.get(item, 1.0))
        if item in crowd:
            queue.push(coordinator, group_id, item)
        return item

    for gap in gaps:
        for _ in range(gap):
            serve()
        queue.push("c-0", innocent, "innocent")
        waited = 0.0
        while (item := serve()) != "innocent":
            waited += crowd[item]
        assert waited <= 2 * (sum(crowd.values()) + max(crowd.values()))


@pytest.mark.parametrize("heavy", TYPES)
def test_heavy_groups_of_all_types_share_the_work_evenly(heavy: str) -> None:
    queue: FairQueue[str] = FairQueue()
    crowd = {name: 300.0 if name == heavy else 10.0 for name in TYPES}
    done = dict.fromkeys(TYPES, 0.0)
    for name in TYPES:
        queue.push("c-0", name, name)
    for _ in range(500):
        found = queue.pop()
        assert found is not None
        coordinator, name, _ = found
        queue.charge(coordinator, name, crowd[name])
        done[name] += crowd[name]
        queue.push(coordinator, name, name)
    assert max(done.values()) - min(done.values()) <= 2 * max(crowd.values())
