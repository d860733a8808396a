"""A load that runs elsewhere: who watches it, what it is told, and who notices that one is gone."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from actors.waiting import poll
from bench.load import watching
from bench.load.stability import GroupShare
from bench.load.watching import STRANGERS_MAX, LoadWatcher, Watched, WatchError
from tests.waiting import WITHIN_S, until

HALF = GroupShare(members=2, ready=2, generations=[1], owned=3)
FAULT_MS = 1_234


@pytest.fixture
def watcher() -> Iterator[LoadWatcher]:
    with LoadWatcher("127.0.0.1", 2) as watcher:
        yield watcher


def unstable(watcher: LoadWatcher) -> list[str]:
    return watcher.unstable_groups(members=4, partitions=6)


def test_groups_are_stable_once_the_shares_of_all_tasks_add_up(watcher: LoadWatcher) -> None:
    with Watched(watcher.address, 0) as one:
        one.tell({"g": HALF})
        until(lambda: unstable(watcher) == ["1 of 2 tasks of the load run."], WITHIN_S, "one runs")
        with Watched(watcher.address, 1) as two:
            until(
                lambda: unstable(watcher) == ["2 of 4 members have started."], WITHIN_S, "two run"
            )
            two.tell({"g": GroupShare(members=2, ready=1, generations=[2], owned=2)})
            (why,) = until(
                lambda: [each for each in unstable(watcher) if "g: " in each], WITHIN_S, "all began"
            )
            assert why == (
                "g: 3 of 4 members are Stable, in generations [1, 2], with 5 of 6 partitions."
            )
            two.tell({"g": HALF})
            until(lambda: not unstable(watcher), WITHIN_S, "the group is Stable")
            assert watcher.hosts == [socket.gethostname()] * 2


def test_a_task_may_have_more_groups_than_one_line_can_tell(watcher: LoadWatcher) -> None:
    many = {f"rehearsal-of-many-groups-{number}": HALF for number in range(20_000)}
    with Watched(watcher.address, 0) as one:
        one.tell(many, {"heartbeats": 1})
        until(watcher.counts, WITHIN_S, "all is told")
        assert watcher.shares() == many
        one.tell({"g": HALF}, {"heartbeats": 2})
        until(lambda: watcher.counts()["heartbeats"] == 2, WITHIN_S, "it tells again")
        assert watcher.shares() == {"g": HALF}
        assert watcher.lost() == []


def test_what_a_task_tells_is_seen_when_it_is_whole(watcher: LoadWatcher) -> None:
    with Watched(watcher.address, 0) as one:
        one.tell({"a": HALF, "b": HALF}, {"heartbeats": 1})
        until(watcher.counts, WITHIN_S, "it tells")
        one._say({"shares": watching._named({"a": HALF}), "more": True})
        one.tell({"b": HALF}, {"heartbeats": 2})
        until(lambda: watcher.counts()["heartbeats"] == 2, WITHIN_S, "it tells the rest")
        assert watcher.shares() == {"a": HALF, "b": HALF}


def test_the_load_ends_for_all_at_once_when_all_have_their_histories(watcher: LoadWatcher) -> None:
    order: list[str] = []

    def run(number: int) -> None:
        with Watched(watcher.address, number) as watched:
            watched.tell({})
            assert until(lambda: watched.ends(0.1), WITHIN_S, "it ends") == FAULT_MS
            order.append("taken")
            watched.has_taken()
            order.append("left")

    with ThreadPoolExecutor() as pool:
        tasks = [pool.submit(run, number) for number in range(2)]
        until(lambda: len(watcher.hosts) == 2, WITHIN_S, "both run")
        watcher.end(FAULT_MS, WITHIN_S)
        for task in tasks:
            task.result(WITHIN_S)
    assert order == ["taken", "taken", "left", "left"]


def test_a_task_that_ends_early_is_named_and_the_others_do_not_wait_for_it(
    watcher: LoadWatcher,
) -> None:
    with Watched(watcher.address, 0) as one:
        with Watched(watcher.address, 1):
            until(lambda: len(watcher.hosts) == 2, WITHIN_S, "both run")
        (said,) = until(watcher.lost, WITHIN_S, "one is lost")
        assert said == f"Task 1 of the load, on {socket.gethostname()}, has ended."
        with ThreadPoolExecutor() as pool:
            ended = pool.submit(watcher.end, FAULT_MS, WITHIN_S)
            assert until(lambda: one.ends(0.1), WITHIN_S, "it ends") == FAULT_MS
            one.has_taken()
            ended.result(WITHIN_S)


def test_a_task_says_why_it_ends(watcher: LoadWatcher) -> None:
    with Watched(watcher.address, 0) as watched:
        watched.fails("OSError: no more files")
    (said,) = until(watcher.lost, WITHIN_S, "it is lost")
    assert (
        said == f"Task 0 of the load, on {socket.gethostname()}, has ended: OSError: no more files."
    )
    assert watcher.lost_tasks() == [0]
    assert watcher.sentence(1) == "Task 1 of the load has ended."


def test_clocks_of_several_hosts_are_compared_by_their_quickest_messages(
    watcher: LoadWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter((5_000, 5_020, 5_200, 5_010))
    monkeypatch.setattr(watching, "wall_ms", lambda: next(now))
    near, far = socket.socketpair()
    with near, far:
        for number, host in enumerate(("one", "two")):
            assert watcher.joined(near, {"task": number, "host": host}) == number
        watcher.told(0, {"clock_ms": 4_999})  # read at 5,000
        watcher.told(0, {"clock_ms": 4_990})  # at 5,020: it took longer
        assert watcher.clock_error_ms() == 0, "nothing is known of the other one"
        watcher.told(1, {"clock_ms": 5_100})  # at 5,200
        watcher.told(1, {"clock_ms": 5_060})  # at 5,010: it is 50 ms ahead
        assert watcher.clock_error_ms() == 51
    for number in range(2):
        watcher.left(number)


def test_a_task_that_is_not_wanted_is_sent_away(watcher: LoadWatcher) -> None:
    with Watched(watcher.address, 0):
        until(lambda: len(watcher.hosts) == 1, WITHIN_S, "it runs")
        for number in (0, 2, -1):  # known already, and no task
            with (
                Watched(watcher.address, number) as other,
                pytest.raises(WatchError, match="any more"),
            ):
                until(lambda other=other: other.ends(0.1), WITHIN_S, "it is sent away")
        assert len(watcher.hosts) == 1


def test_a_task_that_nobody_watches_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoadWatcher("127.0.0.1", 1) as watcher:
        watched = Watched(watcher.address, 0)
        until(lambda: watcher.hosts, WITHIN_S, "it runs")
    with watched, pytest.raises(WatchError, match="Nobody watches the load any more"):
        until(lambda: watched.ends(0.1), WITHIN_S, "it notices")
    monkeypatch.setattr(watching, "CONNECT_S", 1.0)
    with pytest.raises(WatchError, match=r"Nobody watches the load at 127\.0\.0\.1:"):
        Watched(watcher.address, 0)


@pytest.mark.parametrize("line", [b"", b"GET / HTTP/1.1\r\n", b"[]\n", b"{}\n", b'{"task": "a"}\n'])
def test_what_is_no_task_is_sent_away(watcher: LoadWatcher, line: bytes) -> None:
    with socket.create_connection(watcher.address, WITHIN_S) as stranger:
        stranger.sendall(line)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(1) == b""
    assert watcher.hosts == []


def test_a_line_that_is_too_long_ends_the_connection(
    watcher: LoadWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LINE_BYTES_MAX", 100)
    with Watched(watcher.address, 0) as watched:
        watched.tell({f"g{number}": HALF for number in range(10)})
        until(watcher.lost, WITHIN_S, "it is lost")


def test_more_connections_than_there_can_be_are_refused(watcher: LoadWatcher) -> None:
    strangers = [
        socket.create_connection(watcher.address, WITHIN_S) for _ in range(2 + STRANGERS_MAX)
    ]
    with socket.create_connection(watcher.address, WITHIN_S) as one_more:
        assert one_more.recv(1) == b""
    for stranger in strangers:
        stranger.close()

    def is_let_in() -> bool:
        with suppress(WatchError), Watched(watcher.address, 0):
            return bool(poll(lambda: watcher.hosts, within_s=1))
        return False

    until(is_let_in, WITHIN_S, "there is room again")
