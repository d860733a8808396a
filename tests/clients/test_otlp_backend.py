"""A rebalance is found in a real OTLP backend, with who caused it and why."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from actors.telemetry.observer import Telemetry
from actors.telemetry.root_names import CAME_BACK, ROOT_NAMES
from actors.telemetry.transports import TRANSPORTS
from bench.drills import main as drill
from bench.rehearse import BAD_INPUT
from bench.rehearse import main as rehearse
from failover.drills.drill import named
from protocol.groups.facts import GroupDeleted
from protocol.stories.causes import Cause
from protocol.watching.watch import ClusterWatch
from tests.actors.telemetry.causes.never import NEVER
from tests.actors.telemetry.causes.test_causes import TYPES, span_paths
from tests.actors.telemetry.causes.told import replicated
from tests.actors.telemetry.facts import NOW, consumer_rebalance, member_event, rebalance
from tests.actors.watching.test_kafka_records import concluded
from tests.clients import servers
from tests.clients.confluent import (
    QUIET,
    Member,
    Partition,
    create_topics,
    is_shared_out,
    partitions_of,
    poll_until,
)
from tests.clients.modern_members import ShareMember, StreamsMember
from tests.otlp_backend import (
    FOUND_S,
    Jaeger,
    find,
    installed,
    parents,
    paths,
    root,
    variables,
)
from tests.protocol.groups.conversation import GROUP
from tests.waiting import patient, until

BUILD_S = 1200
CLOSE_S = patient(10)
JOINED = ROOT_NAMES[Cause.JOINED]


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("jaeger")) as backend:
        yield backend


@pytest.mark.timeout(BUILD_S)
def test_the_backend_can_be_built_from_the_registry() -> None:
    assert installed().exists()


@pytest.mark.parametrize("protocol", TRANSPORTS)
def test_a_rebalance_told_by_facts_is_a_trace_in_the_backend(
    protocol: str, jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = f"from-facts-by-{protocol}"
    for name, value in variables(jaeger, service, protocol).items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry({"service.instance.id": 0})
    telemetry.observe(member_event())
    telemetry.observe(rebalance())
    telemetry.close(CLOSE_S)
    assert telemetry.drops.spans == 0
    trace = find(jaeger, service, member__instance_id="a")
    names = {span["operationName"] for span in trace}
    assert names == {"rebalance: member left", "trigger", "join", "sync"}
    found = root(trace)
    assert found["tags"]["rollcall.rebalance.reason"] == "closing"
    assert found["tags"]["rollcall.generation.after"] == 5
    assert found["tags"]["rollcall.partitions.moved"] == 2
    assert len(found["logs"]) == 1


def test_a_consumer_groups_rebalance_is_a_trace_in_the_backend(
    jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(jaeger, "from-consumer-facts").items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry({"service.instance.id": 0})
    for fact in (member_event(), *consumer_rebalance()):
        telemetry.observe(fact)
    telemetry.close(CLOSE_S)
    assert telemetry.drops.spans == 0
    trace = find(jaeger, "from-consumer-facts", group__type="consumer")
    spans = {span["operationName"]: span["tags"] for span in trace}
    phases = {"trigger", "wait", "assign", "write", "reconcile"}
    assert set(spans) == {"rebalance: member left", *phases, "queue", "compute", "append"}
    assert spans["assign"]["rollcall.assignor.queue_ms"] == 1.5
    found = root(trace)
    assert found["tags"]["rollcall.rebalance.trigger"] == "member-left"
    assert found["tags"]["rollcall.rebalance.reason"] == "closing"
    assert found["tags"]["rollcall.epoch.after"] == 5
    assert len(found["logs"]) == 1


@pytest.mark.parametrize("group_type", TYPES)
def test_every_cause_is_found_in_the_backend(
    group_type: str, jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real groups are led to each; who looks for a cause finds its rebalance, and no other.

    Its spans are those of the transcript that has the sentence, too.
    """
    service = f"causes-of-{group_type}"
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100000")
    for name, value in variables(jaeger, service).items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry({"service.instance.id": 0})
    for situation in TYPES[group_type].values():
        for fact in replicated(situation().facts):
            telemetry.observe(fact)
        telemetry.observe(GroupDeleted(group_id=GROUP, time_ms=NOW))  # the next one is another
    telemetry.close(patient(30))
    assert (telemetry.drops.spans, telemetry.drops.facts) == (0, 0)
    for cause in TYPES[group_type]:
        if cause is Cause.STATIC_REPLACED:
            continue  # the next test
        found = find(jaeger, service, group__type=group_type, rebalance__cause=cause)
        assert root(found)["tags"]["messaging.consumer.group.name"] == GROUP
        assert root(found)["operationName"] == ROOT_NAMES[cause]
        has_spans(jaeger, service, cause, span_paths(group_type, cause))
    after = root(find(jaeger, service, group__type=group_type, rebalance__cause=Cause.FAILOVER))
    (link,) = (each["traceID"] for each in after["references"])
    failover = until(partial(trace_with, jaeger, service, link), FOUND_S, "the failover's trace")
    assert [span["operationName"] for span in failover] == ["failover"]


def has_spans(jaeger: Jaeger, service: str, cause: Cause, wanted: list[str]) -> None:
    """Wait until a rebalance with this cause has these spans, each below the one it belongs to."""
    seen: list[list[str]] = []

    def is_there() -> bool:
        seen[:] = map(paths, jaeger.traces(service, **{"rollcall.rebalance.cause": cause}))
        return wanted in seen

    try:
        until(is_there, FOUND_S, f"the spans of {cause} are there")
    except AssertionError as error:
        error.add_note(f"Wanted {wanted}, there are {seen}")
        raise


@pytest.mark.parametrize("group_type", TYPES)
def test_a_static_member_that_came_back_is_found_in_the_backend(
    group_type: str, jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a stable group nothing but the member's id changes; a classic group may rebalance."""
    service = f"came-back-in-{group_type}"
    situation = TYPES[group_type].get(Cause.STATIC_REPLACED)
    if situation is None:
        assert NEVER[group_type][Cause.STATIC_REPLACED]
        return
    for name, value in variables(jaeger, service).items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry({"service.instance.id": 0})
    for fact in replicated(situation().facts):
        telemetry.observe(fact)
    telemetry.close(CLOSE_S)
    found = find(jaeger, service, rebalance__cause=Cause.STATIC_REPLACED)
    wanted = span_paths(group_type, Cause.STATIC_REPLACED)
    has_spans(jaeger, service, Cause.STATIC_REPLACED, wanted)
    tags = root(found)["tags"]
    if tags["rollcall.rebalance.outcome"] == "unchanged":
        assert root(found)["operationName"] == CAME_BACK
        assert wanted == ["trigger"]
    else:
        assert root(found)["operationName"] == ROOT_NAMES[Cause.STATIC_REPLACED]
        assert tags["rollcall.group.type"] == "classic"
    assert tags["rollcall.member.instance_id"]


@pytest.mark.parametrize(
    ("group_type", "cause", "inferred"),
    [
        ("classic", Cause.JOINED, "it and 1 more are new in generation 1"),
        ("consumer", Cause.JOINED, None),
        ("share", Cause.SHARE_STATE, None),
        ("streams", Cause.JOINED, None),
    ],
)
def test_what_is_concluded_from_the_log_of_a_kafka_is_found_in_the_backend(
    watched: None, jaeger: Jaeger, group_type: str, cause: Cause, inferred: str | None
) -> None:
    """The logs are those that a Kafka 4.3.1 wrote; what is inferred is marked."""
    found = root(find(jaeger, "watched", group__type=group_type, rebalance__cause=cause))
    tags = found["tags"]
    assert found["operationName"] == ROOT_NAMES[cause]
    assert tags["messaging.consumer.group.name"] == f"a-{group_type}"
    assert tags.get("rollcall.rebalance.inferred") == inferred


@pytest.fixture(scope="module")
def watched(jaeger: Jaeger) -> None:
    """Export what a watch concludes from the logs of a Kafka."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables(jaeger, "watched").items():
            environment.setenv(name, value)
        telemetry = Telemetry({"service.instance.id": 0})
        for fact in concluded(ClusterWatch()):
            telemetry.observe(fact)
        telemetry.close(CLOSE_S)
    assert telemetry.drops.spans == 0


def trace_with(jaeger: Jaeger, service: str, trace_id: str) -> list[dict[str, Any]]:
    """Ask for one trace; it is empty while there is none."""
    found = jaeger.traces(service)
    return next((each for each in found if each[0]["traceID"] == trace_id), [])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exporting") / "data"


@pytest.fixture(scope="module")
def exporting(jaeger: Jaeger, data_dir: Path) -> Iterator[str]:
    """Start a cluster that exports to the backend, as a user does; give its bootstrap servers."""
    if servers.is_kafka():
        pytest.skip("Kafka does not trace its rebalances")
    server = servers.RollcallServer(data_dir.parent, servers.COMMON, coordinators=1)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables(jaeger, "cluster").items():
            environment.setenv(name, value)
        try:
            server.start()
            yield server.bootstrap
        finally:
            server.close()


def test_a_restarted_member_is_found_in_the_backend_with_the_partitions_it_moved(
    exporting: str, jaeger: Jaeger
) -> None:
    create_topics(exporting, ["walks"], 4)
    everything = partitions_of(["walks"], 4)
    stays = Member(exporting, "walkers", ["walks"], client_id="stays")
    shared_by([stays], everything)
    goes = Member(exporting, "walkers", ["walks"], client_id="goes")
    shared_by([stays, goes], everything)
    goes.close()
    shared_by([stays], everything)
    again = Member(exporting, "walkers", ["walks"], client_id="goes")
    shared_by([stays, again], everything)
    again.close()
    stays.close()

    left = root(find(jaeger, "cluster", rebalance__trigger="member-left", members="1"))
    assert left["operationName"] == "rebalance: member left"
    tags = left["tags"]
    assert tags["messaging.consumer.group.name"] == "walkers"
    assert tags["messaging.client.id"] == "goes"
    assert tags["rollcall.member.id"].startswith("goes-")
    assert tags["rollcall.member.host"] == "/127.0.0.1"
    assert tags["rollcall.generation.after"] == tags["rollcall.generation.before"] + 1
    assert tags["rollcall.leader.id"].startswith("stays-")
    assert (tags["rollcall.partitions.moved"], tags["rollcall.partitions.assigned"]) == (2, 4)
    assert tags["rollcall.rebalance.outcome"] == "stable"


def test_a_consumer_group_that_grows_is_found_in_the_backend(
    exporting: str, jaeger: Jaeger
) -> None:
    create_topics(exporting, ["rides"], 4)
    with ExitStack() as stack:
        consumers = []
        for client_id in ("first", "second"):
            settings = {"bootstrap.servers": exporting, "group.id": "riders", **QUIET}
            modern = {"group.protocol": "consumer", "client.id": client_id}
            consumers.append(Consumer({**settings, **modern}))
            stack.callback(consumers[-1].close)
            consumers[-1].subscribe(["rides"])
            share = 4 // len(consumers)

            def is_shared_out(share: int = share) -> bool:
                for consumer in consumers:
                    consumer.poll(0.05)
                return all(len(consumer.assignment()) == share for consumer in consumers)

            until(is_shared_out, patient(60), f"{client_id} has its share")
        found = find(jaeger, "cluster", group__type="consumer", members="2", partitions__moved="2")
    tags = root(found)["tags"]
    assert tags["messaging.consumer.group.name"] == "riders"
    assert tags["messaging.client.id"] == "second"
    assert tags["rollcall.rebalance.trigger"] == "member-joined"
    assert tags["rollcall.rebalance.outcome"] == "stable"
    (run,) = (span["tags"] for span in found if span["operationName"] == "assign")
    assert run["rollcall.assignor.where"] == "worker"
    whole = until(partial(with_run, jaeger, found), FOUND_S, "the worker has told of its run")
    (computed,) = (span for span in whole if span["operationName"] == "compute")
    (above,) = parents(computed)
    assert above in {span["spanID"] for span in whole if span["operationName"] == "assign"}
    assert computed["tags"]["process.pid"] > 0
    assert "replicate" in {span["operationName"] for span in whole}


@pytest.mark.parametrize(("kind", "make"), [("share", ShareMember), ("streams", StreamsMember)])
def test_a_share_and_a_streams_group_are_found_in_the_backend(
    exporting: str, jaeger: Jaeger, kind: str, make: type[ShareMember | StreamsMember]
) -> None:
    create_topics(exporting, [f"{kind}-rides"], 4)
    member = make(exporting, f"{kind}-riders", f"{kind}-rider", f"{kind}-rides")
    whole = {"trigger", "wait", "assign", "assign/compute", "write/append", "replicate"}

    def found() -> list[dict[str, Any]]:
        member.beat()
        tags = {"messaging.consumer.group.name": f"{kind}-riders"}
        told = jaeger.traces("cluster", **tags, **{"rollcall.rebalance.cause": Cause.JOINED})
        return [root(each) for each in told if whole <= {*paths(each)}]

    (tags,) = (each["tags"] for each in until(found, FOUND_S, "the trace of its join is whole"))
    assert (tags["rollcall.group.type"], tags["rollcall.member.id"]) == (kind, f"{kind}-rider")
    member.leave()


def with_run(jaeger: Jaeger, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask for a trace again; it is empty until it has the span of the worker."""
    same = jaeger.traces("cluster", **{"messaging.consumer.group.name": "riders"})
    whole = next(each for each in same if each[0]["traceID"] == found[0]["traceID"])
    return whole if any(each["operationName"] == "compute" for each in whole) else []


def test_a_removal_by_an_operator_is_found_with_its_reason(
    exporting: str, jaeger: Jaeger, data_dir: Path
) -> None:
    """KIP-800: the reason is in the trace, and shown by ``rollcall groups --describe --events``."""
    create_topics(exporting, ["visits"], 2)
    member = Member(exporting, "visitors", ["visits"], group_instance_id="a")
    shared_by([member], partitions_of(["visits"], 2))
    which = ("--data-dir", str(data_dir), "--group", "visitors")
    words = ("--instance-id", "a", "--reason", "moved house")
    said = rollcall("members", "--remove", *which, *words)
    assert said == "instance a is removed from group visitors\n"
    tags = root(find(jaeger, "cluster", rebalance__reason="moved house"))["tags"]
    assert tags["rollcall.member.instance_id"] == "a"
    assert tags["rollcall.rebalance.trigger"] == "member-left"
    assert tags["rollcall.rebalance.outcome"] == "empty"
    events = rollcall("groups", "--describe", "--events", *which)
    assert any(" left " in line and "moved house" in line for line in events.splitlines())
    member.close()


def shared_by(members: list[Member], everything: set[Partition]) -> None:
    poll_until(members, lambda: is_shared_out(members, everything), 30, "all is shared out")


def rollcall(*words: str) -> str:
    """Run a command about the cluster of this machine's Ray."""
    done = subprocess.run(
        [servers._rollcall(), *words],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REHEARSAL = """
about = "a member comes"
duration = "4s"
topics.rehearsed.partitions = 4
[[groups]]
name = "rehearsed"
start_time = "1s"
topics = ["rehearsed"]
heartbeat_interval_ms = 500
behaviours = [{ do = "scale", at = "2s", replicas = 4 }]
"""


def test_a_rehearsal_is_found_in_the_backend_beside_the_rebalances_that_it_caused(
    exporting: str, jaeger: Jaeger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "backend.toml"
    path.write_text(REHEARSAL)
    for name, value in variables(jaeger, "cluster").items():
        monkeypatch.setenv(name, value)
    assert rehearse([str(path), "--bootstrap", exporting]) != BAD_INPUT
    run = find(jaeger, "cluster", run__kind="rehearsal", run__name="backend")
    top = root(run)
    assert top["operationName"] == "rehearsal backend"
    assert top["tags"]["rollcall.run.verdict"] in ("clean", "not-clean"), "by the machine's speed"
    (scale,) = (span for span in run if parents(span))
    assert (scale["operationName"], parents(scale)) == ("scale", [top["spanID"]])
    assert scale["tags"]["rollcall.run.text"] == "rehearsed: scale"
    until(partial(caused, jaeger, top), FOUND_S, "a rebalance is beside the run")
    assert all(each["traceID"] != top["traceID"] for each in caused(jaeger, top))


@pytest.mark.timeout(300)
def test_a_drill_is_found_in_the_backend_beside_the_failover_that_it_caused(
    jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    if servers.is_kafka():
        pytest.skip("a drill starts its own cluster")
    for name, value in variables(jaeger, "drilled").items():
        monkeypatch.setenv(name, value)
    assert drill(["kill-leader", "--members", "20"]) != BAD_INPUT
    run = find(jaeger, "drilled", run__kind="drill", run__name="kill-leader")
    top = root(run)
    assert top["operationName"] == "drill kill-leader"
    assert top["tags"]["rollcall.run.verdict"] in ("clean", "not-clean"), "by the machine's speed"
    steps = sorted((span for span in run if parents(span)), key=lambda span: span["startTime"])
    assert [span["operationName"] for span in steps] == [
        step.do for step in named("kill-leader").steps
    ]
    kill = next(span for span in steps if span["operationName"] == "kill")
    assert [
        span
        for trace in jaeger.traces("drilled", **{"rollcall.failover.reason": "unreachable"})
        for span in trace
        if span["operationName"] == "failover" and span["startTime"] >= kill["startTime"]
    ], "the failover is beside the run"


def caused(jaeger: Jaeger, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask for the rebalances of joining members that began in the time of a run."""
    found = jaeger.traces("cluster", **{"rollcall.rebalance.cause": Cause.JOINED})
    roots = [span for trace in found for span in trace if span["operationName"] == JOINED]
    end = run["startTime"] + run["duration"]
    return [each for each in roots if run["startTime"] <= each["startTime"] <= end]
