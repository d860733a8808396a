"""The controller moves a coordinator from a lost host, or says why it does not."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.cluster.spec import Address, ClusterSpec, CoordinatorPlace
from actors.deployment import host_watch
from actors.deployment.copying import CopyCancelledError, CopyLimits
from actors.deployment.host_watch import HostsOverview, HostWatch
from actors.errors import BadInputError, FailureError
from failover.control.replacement import Replacement
from tests.actors.deployment.test_controller import SPEC
from tests.failover.control.test_replacement import AFTER_MS, reports_of
from tests.waiting import WITHIN_S


def place(host: str) -> CoordinatorPlace:
    address = Address(host=host, port=9092)
    return CoordinatorPlace(ray_host=host, listener=address, advertised=address, peer=address)


ON_HOSTS = replace(SPEC, places=tuple(map(place, "abc")))


class Control:
    """Hosts that live, and moves that are recorded; or a Ray that does not answer."""

    def __init__(self, living: str, *, is_silent: bool = False, why: str = "") -> None:
        self._living = dict.fromkeys(living)
        self._is_silent = is_silent
        self._why = why
        self.without: set[int] = set()
        self.is_moving = threading.Event()
        self.may_end = threading.Event()

    def living(self) -> Mapping[str, str | None]:
        if self._is_silent:
            raise TimeoutError
        return self._living

    def start_empty(self, spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
        if self._why:
            raise BadInputError(self._why)
        return spec.with_place(node_id, place(host))

    def move(self, spec: ClusterSpec, node_id: int, host: str, limits: CopyLimits) -> ClusterSpec:
        self.limits = limits
        self.is_moving.set()
        if not self.may_end.wait(WITHIN_S) or limits.is_cancelled():
            raise CopyCancelledError("The cluster stops.")
        return spec.with_place(node_id, place(host))

    def at_home(self, spec: ClusterSpec, node_ids: Sequence[int]) -> ClusterSpec:
        if self._why:
            raise FailureError(self._why)
        return spec.with_place(node_ids[0], place("d"))

    def absent(self, node_ids: Sequence[int]) -> list[int]:
        return [node_id for node_id in node_ids if node_id in self.without]

    def restore(self, spec: ClusterSpec, node_id: int) -> ClusterSpec:
        self.without -= {node_id}
        return spec.with_place(node_id, place("d"))


class Silent(Control):
    """A Ray that does not answer for a while."""

    def __init__(self) -> None:
        super().__init__("abc")
        self.asked = 0
        self.answers = threading.Event()

    def living(self) -> Mapping[str, str | None]:
        self.asked += 1
        self.answers.wait(WITHIN_S)
        return super().living()


def run(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)


def test_a_lost_host_is_left_for_a_spare_one() -> None:
    async def test() -> ClusterSpec:
        watch = HostWatch(ON_HOSTS, Control("acd"))
        assert await watch.look(ON_HOSTS, reports_of(), 0) is None
        lost = await watch.look(ON_HOSTS, reports_of(), AFTER_MS)
        assert lost == Replacement(1, "d")
        return await watch.start_empty(ON_HOSTS, lost)

    moved = run(test())
    assert [one.ray_host for one in moved.places] == ["a", "d", "c"]


def test_a_move_that_failed_is_tried_again_a_minute_later() -> None:
    async def test() -> None:
        watch = HostWatch(ON_HOSTS, Control("acd"))
        await watch.look(ON_HOSTS, reports_of(), 0)
        lost = Replacement(1, "d")
        assert await watch.look(ON_HOSTS, reports_of(), AFTER_MS) == lost
        assert await watch.look(ON_HOSTS, reports_of(), AFTER_MS + 2_000) is None
        assert await watch.look(ON_HOSTS, reports_of(), AFTER_MS + host_watch.AGAIN_MS) == lost

    run(test())


def test_a_coordinator_is_not_moved_to_where_it_is() -> None:
    with pytest.raises(BadInputError, match="Coordinator 1 is on b already"):
        run(HostWatch(ON_HOSTS, Control("abcd")).choose(ON_HOSTS, reports_of(), 1, "b"))


def test_an_operator_need_not_wait() -> None:
    async def test() -> str:
        return await HostWatch(ON_HOSTS, Control("acd")).choose(ON_HOSTS, reports_of(), 1, None)

    assert run(test()) == "d"


@pytest.mark.parametrize(
    ("spec", "control", "reports", "said"),
    [
        (SPEC, Control("acd"), reports_of(), "only between the hosts of a Ray cluster"),
        (ON_HOSTS, Control("", is_silent=True), reports_of(), "only while Ray answers"),
        (ON_HOSTS, Control("acd"), {2: reports_of()[2]}, "may lack records"),
        (ON_HOSTS, Control("ac"), reports_of(), "No host is spare for coordinator 1"),
    ],
)
def test_why_a_coordinator_stays_is_said(
    spec: ClusterSpec, control: Control, reports: Any, said: str
) -> None:
    with pytest.raises(FailureError, match=said):
        run(HostWatch(spec, control).choose(spec, reports, 1, None))


def test_while_ray_is_silent_nothing_is_moved() -> None:
    watch = HostWatch(ON_HOSTS, Control("", is_silent=True))
    for now in (0, AFTER_MS):
        assert run(watch.look(ON_HOSTS, reports_of(), now)) is None


def test_a_ray_that_does_not_answer_holds_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "LIVING_S", 0.01)
    silent = Silent()

    async def test() -> None:
        watch = HostWatch(ON_HOSTS, silent)
        for _ in range(5):
            assert await watch.look(ON_HOSTS, reports_of(), 0) is None
        silent.answers.set()

    run(test())
    assert silent.asked == 1


def test_a_failed_move_is_told_and_can_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    watch = HostWatch(ON_HOSTS, Control("acd", why="There is no host d."))
    with pytest.raises(BadInputError):
        run(watch.start_empty(ON_HOSTS, Replacement(1, "d")))
    assert "coordinator 1 starts empty on d: that failed: There is no host d." in caplog.text
    assert not watch.is_relocating


def test_a_host_that_joins_is_offered_coordinators() -> None:
    two_each = replace(SPEC, places=tuple(map(place, "abcabc")))
    watch = HostWatch(two_each, Control("abcd"))
    assert [(move.node_id, move.host) for move in run(watch.moves(two_each, {}))] == [(0, "d")]
    silent = HostWatch(two_each, Control("", is_silent=True))
    with pytest.raises(FailureError, match="only while Ray answers"):
        run(silent.moves(two_each, {}))


def test_one_coordinator_is_moved_at_a_time() -> None:
    async def test() -> ClusterSpec:
        control = Control("abcd")
        watch = HostWatch(ON_HOSTS, control)
        moving = asyncio.create_task(watch.move(ON_HOSTS, 1, "d", 1_000))
        await asyncio.to_thread(control.is_moving.wait, WITHIN_S)
        with pytest.raises(FailureError, match="Another coordinator is being moved"):
            await watch.move(ON_HOSTS, 0, "d", 1_000)
        with pytest.raises(FailureError, match="Another coordinator is being moved"):
            await watch.start_empty(ON_HOSTS, Replacement(0, "d"))
        control.without = {1}
        assert await watch.restore(ON_HOSTS, [1]) == ON_HOSTS, "it is being moved"
        control.may_end.set()
        assert control.limits.bytes_per_s == 1_000
        return await moving

    assert [one.ray_host for one in run(test()).places] == ["a", "d", "c"]


def test_when_the_cluster_stops_a_move_ends_and_nothing_begins() -> None:
    async def test() -> None:
        control = Control("abcd")
        control.without = {0}
        watch = HostWatch(ON_HOSTS, control)
        moving = asyncio.create_task(watch.move(ON_HOSTS, 1, "d", 1_000))
        await asyncio.to_thread(control.is_moving.wait, WITHIN_S)
        closing = asyncio.create_task(watch.close())
        await asyncio.sleep(0)
        control.may_end.set()
        await closing
        assert moving.done() or not watch.is_relocating
        with pytest.raises(CopyCancelledError):
            await moving
        with pytest.raises(FailureError, match="cannot be moved now"):
            await watch.move(ON_HOSTS, 0, "d", 1_000)
        assert await watch.restore(ON_HOSTS, [0]) == ON_HOSTS
        assert control.without == {0}

    run(test())


def test_a_coordinator_that_does_not_exist_is_created() -> None:
    control = Control("abcd")
    watch = HostWatch(ON_HOSTS, control)
    assert run(watch.restore(ON_HOSTS, [1, 2])) == ON_HOSTS, "both are only away"
    control.without = {2}
    restored = run(watch.restore(ON_HOSTS, [1, 2]))
    assert [one.ray_host for one in restored.places] == ["a", "b", "d"]


def test_an_overview_tells_which_host_holds_what() -> None:
    two_each = replace(SPEC, places=tuple(map(place, "abcabc")))
    found = run(HostWatch(two_each, Control("abd")).overview(two_each, {}))
    assert found.nodes == {"a": [0, 3], "b": [1, 4], "c": [2, 5], "d": []}
    assert [move.host for move in found.moves] == ["d"]
    for silent in (
        HostWatch(SPEC, Control("abc")),
        HostWatch(two_each, Control("", is_silent=True)),
    ):
        assert run(silent.overview(two_each, {})) == HostsOverview()


@pytest.mark.parametrize(
    ("without", "said"),
    [("x", "There is no host x"), ("c", "The host c is away"), ("abd", "No other host")],
)
def test_hosts_that_cannot_be_left_are_refused(without: str, said: str) -> None:
    watch = HostWatch(ON_HOSTS, Control("abd"))
    with pytest.raises(BadInputError, match=said):
        run(watch.departure(ON_HOSTS, reports_of(), without))


def test_no_host_is_left_while_ray_is_silent() -> None:
    silent = HostWatch(ON_HOSTS, Control("", is_silent=True))
    with pytest.raises(FailureError, match="only while Ray answers"):
        run(silent.departure(ON_HOSTS, reports_of(), "a"))


def test_where_coordinators_belong_is_learned_from_the_hosts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = run(HostWatch(ON_HOSTS, Control("abcd")).at_home(ON_HOSTS, [1]))
    assert [one.ray_host for one in found.places] == ["a", "d", "c"]
    assert run(HostWatch(SPEC, Control("abcd")).at_home(SPEC, [1])) == SPEC, "they have no hosts"
    with pytest.raises(FailureError):
        run(HostWatch(ON_HOSTS, Control("", why="No file.")).at_home(ON_HOSTS, [1]))
    assert "No host says where coordinators belong: No file." in caplog.text
