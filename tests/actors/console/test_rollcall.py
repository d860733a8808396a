"""The console's answers about a cluster of ours: a real host, without sockets and Ray."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from actors.cli.client import AdminClient, UnreachableError
from actors.cluster.ray_peers import CONTROLLER
from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.console import wire_questions
from actors.console.hub import Hub
from actors.console.kept_groups import KEPT_MS
from actors.console.rollcall import PLACES_PACE_MS, RollcallSource
from actors.console.source import GroupDetail, SourceError
from actors.console.views import cluster_sections, group_sections
from actors.console.wire_questions import WireQuestions
from actors.deployment.status import cluster_status
from failover.apis import looks
from failover.apis.stories import STORIES
from protocol.stories import json_form
from protocol.stories.history import StoryEntry
from protocol.wire import messages as m
from protocol.wire.embedded import encode_assignment
from protocol.wire.errors import ErrorCode
from tests.actors.console.sources import story
from tests.failover.apis import asks
from tests.failover.working import SUBSCRIPTION, Working, beat, working_driver

METADATA, OFFSET_FETCH, DESCRIBE_CLASSIC, STORIES_ASKED, DESCRIBE_CONSUMER = 3, 9, 15, 32, 69
SPEC = ClusterSpec(
    cluster_id="in-memory",
    places=on_one_host("localhost", (9092,)),
    console=Address(host="localhost", port=0),
    data_dir="/nonexistent",
    overrides={},
    workers=0,
)


class InMemory(AdminClient):
    """An administrator's client whose broker is a host in memory."""

    def __init__(self, driver: Working) -> None:
        super().__init__([("localhost", 9092)])
        self._driver = driver
        self.asked: Counter[int] = Counter()
        """Requests by API key; looks are counted apart."""
        self.looks = 0
        self.silent: set[int] = set()
        """The ports at which nobody answers."""
        self.closed: set[Any] = set()
        """Where the broker has closed an idle connection."""
        self.port = 9092
        self.older: Any = None
        """What a broker of another version answers to a look or a list."""

    def ask_at(self, address: Any, message: Any) -> Any:
        """Give a request to the host."""
        if address in self.closed:
            self.closed.remove(address)
            raise UnreachableError("closed the connection")
        if address[1] in self.silent:
            raise UnreachableError(f"{address} cannot be reached")
        assert address[1] == self.port
        if message.__api_key__ == STORIES_ASKED and STORIES not in str(message):
            self.looks += 1
            if self.older is not None:
                return self.older
        else:
            self.asked[message.__api_key__] += 1
        return self._driver.ask(message.__api_key__, message.__version__, message)


class Here:
    """Calls to actors as calls to a host of this process."""

    def __init__(self, driver: Working) -> None:
        self.driver = driver
        self.is_silent = False
        self.spec = SPEC
        """The cluster's definition as the controller has it."""
        self.rebalances = 0
        driver.host.led.rebalances = lambda _: (self.rebalances, 2)
        self.asked: list[str] = []
        """What the controller was asked."""
        self.client = InMemory(driver)

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        """Answer as the controller does."""
        assert wait_s > 0
        assert name == CONTROLLER
        if self.is_silent:
            raise TimeoutError
        if method == "spec":
            return self.spec
        host = self.driver.host
        self.asked.append(method)
        rows = [asdict(each) for each in host.status(self.driver.now)]
        said = {
            "pid": 7, "state": "Running", "failure": "", "connections": 3, "linked": [],
            "sync_ms": {"p50": 1.5, "max": 230.0}, "partitions": rows,
        }  # fmt: skip
        return cluster_status(SPEC, [7], {0: said}, [])


@pytest.fixture
def here() -> Here:
    return Here(working_driver())


@pytest.fixture
def source(here: Here) -> Iterator[RollcallSource]:
    source = source_of(SPEC, here)
    yield source
    source.close()


def source_of(spec: ClusterSpec, here: Here) -> RollcallSource:
    source = RollcallSource(spec, here, lambda: here.driver.now, may_act=True)
    make = source._questions

    def questions() -> WireQuestions:
        found = make()
        found._client = here.client
        return found

    source._questions = questions  # type: ignore[method-assign]
    return source


def look(source: RollcallSource, group: str) -> GroupDetail:
    found = asyncio.run(source.group(group))
    assert found is not None
    return found


def test_a_consumer_group_is_shown_with_members_targets_and_sessions(
    here: Here, source: RollcallSource
) -> None:
    driver = here.driver
    driver.ask(68, 1, beat("g", "m-1"))
    driver.work()
    driver.ask(68, 1, beat("g", "m-1", 2))
    driver.wait(1_000)
    found = look(source, "g")
    (member,) = found.members
    assert found.units == ["t-0", "t-1", "t-2", "t-3"]
    assert (found.summary.group_type, found.coordinator) == ("consumer", "partition 0")
    assert member.target is not None and sorted(member.target) == found.units
    assert member.session_ms == 45_000
    assert member.session_left_ms == 44_000
    assert found.epoch is not None and found.target_epoch is not None


def test_a_classic_group_is_shown_with_its_history_and_offsets(
    here: Here, source: RollcallSource
) -> None:
    driver = here.driver
    ticket = driver.give(11, 9, asks.join("g", instance="i", metadata=SUBSCRIPTION))
    driver.pump()
    driver.wait(10)
    joined = driver.replies[ticket]
    assigned = {joined.member_id: encode_assignment([("t", 1), ("t", 3)])}
    driver.ask(14, 5, asks.sync("g", joined.generation_id, joined.member_id, assigned))
    driver.ask(8, 9, asks.commit("g", 17, generation=1, member_id=joined.member_id, instance="i"))
    told = story("g", after=8)
    driver.host.add_stories([StoryEntry("g", 0, 1, 0, driver.now, json_form.write(told))])
    found = look(source, "g")
    (member,) = found.members
    assert (member.instance_id, member.owned, member.target) == ("i", ("t-1", "t-3"), None)
    assert (member.session_ms, member.session_left_ms) == (30_000, 30_000)
    assert found.epoch == 8
    assert list(found.stories) == [told]
    assert [(each.unit, each.committed) for each in found.offsets] == [("t-0", 17)]
    assert found.notes == ()
    drawn = group_sections(found, driver.now, can_remove=True)
    assert drawn["owners"].count('<rect class="owned"') == 3, "two, and the key"
    asyncio.run(source.remove("g", member, "because"))
    assert list(look(source, "g").members) == []
    with pytest.raises(SourceError, match="UNKNOWN_MEMBER_ID"):
        asyncio.run(source.remove("g", member, "because"))


def join_and_settle(driver: Working, member_id: str = "m-1") -> None:
    epoch = driver.ask(68, 1, beat("g", member_id)).member_epoch
    driver.work()
    driver.ask(68, 1, beat("g", member_id, epoch))


def test_a_group_at_rest_is_described_once(here: Here, source: RollcallSource) -> None:
    driver, asked = here.driver, here.client.asked
    join_and_settle(driver)
    look(source, "g")
    look(source, "g")
    before = asked.copy()
    assert before[OFFSET_FETCH] == 1, "they are read every thirty seconds"
    assert before[DESCRIBE_CLASSIC] == 1, "then its type is known"
    driver.wait(1_000)
    looks = here.client.looks
    (member,) = look(source, "g").members
    assert asked == before, "what a look shows is what the description has"
    assert here.client.looks == looks + 1
    assert member.session_left_ms == 44_000, "a look has the sessions"
    for _ in range(KEPT_MS // 10_000):
        driver.wait(10_000)
        driver.ask(68, 1, beat("g", "m-1", 2))
    look(source, "g")
    assert asked[OFFSET_FETCH] == 2


@pytest.mark.parametrize("change", ["joined", "rebalanced", "gone", "deleted"])
def test_a_change_is_shown_at_once(here: Here, source: RollcallSource, change: str) -> None:
    driver = here.driver
    join_and_settle(driver)
    for _ in range(3):
        look(source, "g")
    before = here.client.asked[STORIES_ASKED]
    if change == "joined":
        join_and_settle(driver, "m-2")
        assert len(look(source, "g").members) == 2
    elif change == "rebalanced":
        here.rebalances += 1
        look(source, "g")
        look(source, "g")
        assert here.client.asked[STORIES_ASKED] == before + 2, "its story comes a little later"
    else:
        driver.ask(68, 1, beat("g", "m-1", -1))
        if change == "deleted":
            driver.ask(42, 2, m.DeleteGroupsRequest(groups_names=("g",)))
        found = asyncio.run(source.group("g"))
        assert found is None or list(found.members) == []


def test_a_group_that_changes_is_asked_of_its_coordinator_alone(
    here: Here, source: RollcallSource
) -> None:
    driver = here.driver
    join_and_settle(driver)
    told = [story("g", number=number, ended_ms=number) for number in (1, 2)]
    driver.host.add_stories([StoryEntry("g", 0, 1, 1, 1, json_form.write(told[0]))])
    assert list(look(source, "g").stories) == told[:1]
    for _ in range(3):
        before = here.client.asked.copy()
        here.rebalances += 1
        look(source, "g")
        assert here.client.asked - before == Counter([DESCRIBE_CONSUMER, STORIES_ASKED])
    driver.host.add_stories([StoryEntry("g", 0, 2, 1, 2, json_form.write(told[1]))])
    here.rebalances += 1
    assert list(look(source, "g").stories) == told
    driver.wait(KEPT_MS)
    driver.ask(68, 1, beat("g", "m-1", 2))
    before = here.client.asked.copy()
    look(source, "g")
    read = Counter([DESCRIBE_CONSUMER, METADATA, STORIES_ASKED, OFFSET_FETCH, METADATA])
    assert here.client.asked - before == read, "and all nodes are asked for stories"


def test_what_only_others_know_is_kept(here: Here, source: RollcallSource) -> None:
    join_and_settle(here.driver)
    alone = story("g", number=7, ended_ms=1)
    recent = replace(look(source, "g"), stories=(alone,))
    questions = WireQuestions([("localhost", 9092)], 1.0)
    questions._client = here.client
    found = questions.group("g", "consumer", recent)
    assert found is not None and list(found.stories) == [alone]
    unsure = replace(recent, notes=("Node 1 does not answer.",))
    found = questions.group("g", "consumer", unsure)
    assert found is not None and list(found.stories) == []


def test_a_node_that_leads_no_more_is_not_asked_alone(here: Here, source: RollcallSource) -> None:
    join_and_settle(here.driver)
    look(source, "g")
    state = here.driver.host._state
    state.view = replace(state.view, leaders={})
    here.rebalances += 1
    before = here.client.asked[STORIES_ASKED]
    look(source, "g")
    assert here.client.asked[STORIES_ASKED] == before + 2, "the leader, then all"


def test_sessions_of_a_group_that_nobody_leads_are_not_known(
    here: Here, source: RollcallSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_and_settle(here.driver)
    monkeypatch.setattr(here.driver.host.led, "look", lambda *_: None)
    (member,) = look(source, "g").members
    assert member.session_left_ms is None


def test_a_connection_that_was_closed_is_opened_again(here: Here, source: RollcallSource) -> None:
    """Coordinators close connections that are idle, and pages are looked at now and then."""
    join_and_settle(here.driver)
    here.client.closed = {("localhost", 9092)}
    assert asyncio.run(source.groups()).notes == ()
    here.client.closed = {("localhost", 9092)}
    (member,) = look(source, "g").members
    assert member.session_left_ms == 45_000


def test_a_coordinator_that_moved_is_found_again(here: Here, source: RollcallSource) -> None:
    join_and_settle(here.driver)
    here.client.silent, here.client.port = {9092}, 9999
    here.spec = replace(SPEC, places=on_one_host("localhost", (9999,)))
    with pytest.raises(SourceError, match="No coordinator answers"):
        asyncio.run(source.groups())
    assert len(asyncio.run(source.groups()).groups) == 1
    assert asyncio.run(source._look("g")).sessions.keys() == {"m-1"}


def test_where_coordinators_are_is_not_asked_all_the_time(
    here: Here, source: RollcallSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.client.silent = {9092}
    asked = Counter[str]()
    ask = here.ask

    async def counted(name: str, method: str, *words: Any, wait_s: float = 0) -> Any:
        asked[method] += 1
        return await ask(name, method, *words, wait_s=wait_s)

    monkeypatch.setattr(here, "ask", counted)
    for _ in range(5):
        with pytest.raises(SourceError):
            asyncio.run(source.groups())
    assert asked["spec"] == 1
    here.driver.now += PLACES_PACE_MS
    with pytest.raises(SourceError):
        asyncio.run(source.groups())
    assert asked["spec"] == 2


def answered(
    value: str | None, code: ErrorCode = ErrorCode.none, name: str = "rollcall.groups.0"
) -> m.DescribeConfigsResponse:
    entry = m.DescribeConfigsResourceResult(
        name=name, value=value, read_only=True, config_source=8, is_sensitive=False,
        synonyms=(), config_type=2, documentation=None,
    )  # fmt: skip
    result = m.DescribeConfigsResult(
        error_code=code, error_message=None, resource_type=32, resource_name="g",
        configs=() if value is None else (entry,),
    )  # fmt: skip
    return m.DescribeConfigsResponse(throttle_time=m.NO_THROTTLE, results=(result,))


ROW = ["g", "consumer", "Stable", 1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (answered(None), "Node 0 runs another version."),
        (answered("no JSON"), "Node 0 runs another version."),
        (answered("{}"), "Node 0 runs another version."),
        (answered(json.dumps({"next": -1, "groups": [["g"]]})), "Node 0 runs another version."),
        (answered(None, ErrorCode.invalid_request), "Node 0 does not answer: INVALID_REQUEST."),
        (answered(json.dumps({"next": -1, "groups": [[*ROW, "more"]]})), ["g"]),
    ],
)
def test_a_node_of_another_version_is_read_or_said(
    here: Here, source: RollcallSource, answer: Any, expected: Any
) -> None:
    here.client.older = answer
    questions = source._questions()
    if isinstance(expected, str):
        with pytest.raises(SourceError) as failed:
            questions.rows(0)
        assert str(failed.value) == expected
        join_and_settle(here.driver)
        (member,) = look(source, "g").members
        assert member.session_left_ms is None, "and the rest of the page is there"
    else:
        assert [each.group_id for each in questions.rows(0)] == expected


def test_a_look_of_a_later_version_is_read(here: Here, source: RollcallSource) -> None:
    said = {"state": "Stable", "members": 1, "rebalances": 2, "sessions": {}, "more": 7}
    here.client.older = answered(json.dumps(said), name="rollcall.look")
    found = source._questions().look(0, "g")
    assert found is not None and found.state == "Stable"


def test_a_list_that_takes_too_long_ends(
    here: Here, source: RollcallSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.client.older = answered(json.dumps({"next": 0, "groups": []}))
    monkeypatch.setattr(wire_questions, "LIST_S", 0.05)
    with pytest.raises(SourceError, match="did not list its groups"):
        source._questions().rows(0)


def test_all_groups_are_listed_with_their_counts(here: Here, source: RollcallSource) -> None:
    for number in range(3):
        here.driver.ask(68, 1, beat(f"g-{number}", "m-1"))
    (first, *_), notes = (found := asyncio.run(source.groups())).groups, found.notes
    assert notes == ()
    assert sorted(each.group_id for each in found.groups) == ["g-0", "g-1", "g-2"]
    assert (first.group_type, first.members) == ("consumer", 1)
    assert (first.rebalances, first.lately, first.lag) == (0, 2, None)


def test_many_groups_are_listed_in_several_answers(
    here: Here, source: RollcallSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "ROWS_MAX", 2)
    monkeypatch.setattr(looks, "OVERLAP", 0)
    for number in range(5):
        here.driver.ask(68, 1, beat(f"g-{number}", "m-1"))
    before = here.client.looks
    assert len(asyncio.run(source.groups()).groups) == 5
    assert here.client.looks == before + 3


def test_a_group_that_nobody_knows_is_none(source: RollcallSource) -> None:
    assert asyncio.run(source.group("nobodys")) is None


def test_a_node_without_an_answer_is_noted_or_said(here: Here) -> None:
    spec = ClusterSpec(
        cluster_id="two",
        places=on_one_host("localhost", (9092, 9093)),
        console=SPEC.console,
        data_dir="/nonexistent",
        overrides={},
        workers=0,
    )
    source = source_of(spec, here)
    here.client.silent = {9093}
    (note,) = asyncio.run(source.groups()).notes
    assert note == "Node 1 does not answer: groups that it leads are missing."
    here.client.silent, here.is_silent = {9092, 9093}, True
    for question in (source.groups, source.cluster, source.metrics):
        with pytest.raises(SourceError):
            asyncio.run(question())
    source.close()


def test_the_status_is_a_page_and_metrics(here: Here, source: RollcallSource) -> None:
    shown = asyncio.run(Hub(source).cluster())
    sections = cluster_sections(shown, ())
    assert [each.facts["Disk syncs (median, longest)"] for each in shown.nodes] == [
        "1.5 ms, 230 ms"
    ]
    assert "partition 0" in sections["partitions"]
    assert "localhost:9092" in sections["nodes"]
    assert "rollcall_" in (asyncio.run(source.metrics()) or "")
    assert here.asked == ["overview", "status"], "only metrics need metrics"


def test_offsets_are_never_older_than_they_may_be(here: Here, source: RollcallSource) -> None:
    """Time passes between the question whether they are new and the answer that keeps them."""
    join_and_settle(here.driver)
    look(source, "g")
    here.driver.wait(KEPT_MS - 1)
    asked = source._asked

    def slowly(method: str, words: Any) -> Any:
        found = asked(method, words)
        here.driver.now += 10 if method == "group" else 0
        return found

    source._asked = slowly  # type: ignore[method-assign]
    look(source, "g")
    before = here.client.asked[OFFSET_FETCH]
    look(source, "g")
    assert here.client.asked[OFFSET_FETCH] == before + 1
