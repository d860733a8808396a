from actors.workers.fair_queue import FairQueue


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
