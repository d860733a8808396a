"""Check what several settings of a scenario say together; one sentence for each mistake."""

from __future__ import annotations

from itertools import islice, product
from re import fullmatch
from typing import TYPE_CHECKING, Final

from bench.scenarios.behaviours import (
    POLL_TIMEOUT,
    Autoscale,
    Churn,
    Crash,
    Drain,
    Duplicate,
    Flap,
    Pause,
    PollTimeout,
    Restart,
    RollingDeploy,
    Scale,
)
from bench.scenarios.faults import NODES, CutCoordinator, FreezeCoordinator
from bench.scenarios.members import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from bench.scenarios.scenario import BASE, NAME, REBALANCE_TIMEOUT_MS, WorkloadKind
from bench.scenarios.values import Protocol
from bench.scenarios.verdicts.measures import MEASURES
from failover.catalogue.topic_names import INTERNAL, why_invalid
from failover.drills.checked import MISTAKES_MAX, DrillError
from protocol.config import ConfigError, Configs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.scenarios.behaviours import Behaviour
    from bench.scenarios.faults import Fault
    from bench.scenarios.scenario import Group, Scenario
    from bench.scenarios.values import Amount

MEMBERS_MAX: Final = 100_000
EVERY_MS_MIN: Final = 1_000
HAS_STATIC: Final = frozenset({Protocol.CLASSIC, Protocol.CONSUMER, Protocol.STREAMS})
MIGRATES: Final = frozenset({Protocol.CLASSIC, Protocol.CONSUMER})
"""Groups of these types migrate to each other while their members live (KIP-848)."""
CHANGES_TOPICS: Final = frozenset({Protocol.CLASSIC, Protocol.CONSUMER, Protocol.SHARE})
NOTHING: Final = "nothing would happen"

Place = tuple[str | int, ...]
Mistake = tuple[Place, str]


def check(
    scenario: Scenario, what: str, line_of: Callable[[Sequence[str | int]], int | None]
) -> None:
    """Raise DrillError with a sentence for each mistake, at most :data:`MISTAKES_MAX`."""
    tell(_mistakes(scenario), what, line_of)


def check_variants(
    scenario: Scenario, what: str, line_of: Callable[[Sequence[str | int]], int | None]
) -> None:
    """Do the same for what a scenario's variants are called, and which groups they change."""
    tell(_mistaken_variants(scenario), what, line_of)


def tell(
    mistakes: Iterator[Mistake], what: str, line_of: Callable[[Sequence[str | int]], int | None]
) -> None:
    """Raise DrillError with these mistakes, each with the line of its place."""
    sentences = []
    for place, sentence in islice(mistakes, MISTAKES_MAX):
        line = line_of(place)
        at = what if line is None else f"{what}, line {line}"
        sentences.append(f"{at}: {sentence}")
    if sentences:
        raise DrillError(" ".join(sentences))


def _mistaken_variants(scenario: Scenario) -> Iterator[Mistake]:
    groups = {group.application for group in scenario.groups}
    named = {BASE}
    for number, variant in enumerate(scenario.variants):
        place = ("variants", number)
        if variant.name == BASE:
            yield (*place, "name"), f"the scenario itself is {BASE}: name the variant otherwise."
        elif variant.name in named:
            yield (*place, "name"), f"there are two variants {variant.name}."
        named.add(variant.name)
        for name, settings in variant.groups.items():
            at = (*place, "groups", name)
            if name not in groups:
                yield at, f"variant {variant.name}: there is no group {name}."
            if "name" in settings:
                yield (*at, "name"), f"variant {variant.name}: a group keeps its name."


def _mistakes(scenario: Scenario) -> Iterator[Mistake]:
    yield from _times(scenario)
    most = sum(_pods_max(scenario, group) * group.copies for group in scenario.groups)
    if most > MEMBERS_MAX:
        why = f"the groups may have {most} members together: {MEMBERS_MAX} are the most."
        yield ("groups",), why
    yield from _topics(scenario)
    yield from _configs(scenario)
    first: dict[str, int] = {}
    copied: dict[str, int] = {}
    for number, group in enumerate(scenario.groups):
        place = ("groups", number)
        first.setdefault(group.name, number)
        for name in group.copied():
            if copied.setdefault(name, number) != number:
                yield (*place, "name"), f"there are two groups {name}."
        yield from _group(scenario, group, place)
    for number, fault in enumerate(scenario.faults):
        place, about = ("faults", number), f"fault {number + 1}"
        yield from _moment(scenario, fault, place, about)
        if fault.group is not None and fault.group not in first:
            yield (*place, "group"), f"{about}: there is no group {fault.group}."
        nodes = scenario.nodes or NODES
        if fault.node is not None and fault.node >= nodes:
            why = f"there is no node {fault.node}: the cluster has the nodes 0 to {nodes - 1}."
            yield (*place, "node"), f"{about}: {why}"


def _topics(scenario: Scenario) -> Iterator[Mistake]:
    """Refuse names that Kafka refuses, or that are too long for those of a rehearsal."""
    alike: dict[str, str] = {}
    for name in scenario.topics:
        if not fullmatch(NAME, name) or why_invalid(name) is not None or name in INTERNAL:
            yield ("topics", name), f"a topic cannot be named {name!r}."
        other = alike.setdefault(name.replace(".", "_"), name)
        if other != name:
            why = "their names differ only in `.` and `_`"
            yield ("topics", name), f"Kafka cannot have both {other} and {name}: {why}."


def _times(scenario: Scenario) -> Iterator[Mistake]:
    if not scenario.duration:
        yield ("duration",), "duration is 0."
    if scenario.joins_over > scenario.duration:
        yield ("joins_over",), "joins_over is longer than duration."


def _configs(scenario: Scenario) -> Iterator[Mistake]:
    try:
        Configs(scenario.configs)
    except ConfigError as error:
        named = [name for name in scenario.configs if name in str(error)]
        yield ("configs", *named[:1]), f"configs: {str(error).rstrip('.')}."


def _group(scenario: Scenario, group: Group, place: Place) -> Iterator[Mistake]:
    yield from _unknown_topics(scenario, group.topics, (*place, "topics"), f"group {group.name}")
    if group.static and group.protocol not in HAS_STATIC:
        yield (*place, "static"), f"members of {group.protocol} groups are not static here."
    if group.workload is WorkloadKind.STATEFUL_SET and group.max_surge is not None:
        yield (*place, "maxSurge"), f"group {group.name}: a StatefulSet has no maxSurge."
    none_away = group.max_unavailable is not None and not group.max_unavailable.number
    if group.workload is WorkloadKind.STATEFUL_SET and none_away:
        why = "maxUnavailable is 0: no pod of a StatefulSet could be replaced."
        yield (*place, "maxUnavailable"), f"group {group.name}: {why}"
    if group.max_surge is not None and group.max_unavailable is not None:
        both = group.max_surge.number, group.max_unavailable.number
        if both == (0, 0):
            why = "maxSurge and maxUnavailable are both 0: no pod could be replaced."
            yield (*place, "maxUnavailable"), f"group {group.name}: {why}"
    yield from _starts(scenario, group, place)
    yield from _revokes(group, place)
    if group.commit_interval_ms is not None and group.protocol is Protocol.SHARE:
        why = "members of share groups commit no offsets."
        yield (*place, "commit_interval_ms"), f"group {group.name}: {why}"
    yield from _assignor(group, place)
    yield from _timeouts(scenario, group, place)
    yield from _limits(group, place)
    for number, behaviour in enumerate(group.behaviours):
        at = (*place, "behaviours", number)
        about = f"group {group.name}, behaviour {number + 1}"
        yield from _behaviour(scenario, group, behaviour, at, about)


def _limits(group: Group, place: Place) -> Iterator[Mistake]:
    limits = {"expect": group.expect, "expect_kafka": group.expect_kafka}
    for setting, name in product(limits, MEASURES):
        told = limits[setting]
        least, most = (getattr(told, f"{name}_{end}", None) for end in ("min", "max"))
        if least is not None and most is not None and least > most:
            why = f"{name}_min is more than {name}_max, {most:g}."
            yield (*place, setting, f"{name}_min"), f"group {group.name}: {why}"


def _starts(scenario: Scenario, group: Group, place: Place) -> Iterator[Mistake]:
    """Refuse a time to start that no new pod survives: there would be no new member."""
    for number, told in enumerate(group.behaviours):
        creates = isinstance(told, RollingDeploy | Drain | Churn)
        creates = creates or (isinstance(told, Scale) and told.replicas > group.replicas)
        left_ms = scenario.duration - told.at
        if creates and group.start_time >= left_ms > 0:
            why = f"no pod that behaviour {number + 1} creates would start before the end."
            said = f"start_time is {group.start_time / 1000:g} s: {why}"
            yield (*place, "start_time"), f"group {group.name}: {said}"


def _revokes(group: Group, place: Place) -> Iterator[Mistake]:
    if group.revoke_time and group.protocol is Protocol.SHARE:
        why = "members of share groups revoke nothing."
        yield (*place, "revoke_time"), f"group {group.name}: {why}"
    if group.slow_pods is not None and not group.revoke_time:
        why = "slow_pods says which pods need the revoke_time, and there is none."
        yield (*place, "slow_pods"), f"group {group.name}: {why}"
    if group.slow_pods is not None:
        at, about = (*place, "slow_pods"), f"group {group.name}: slow_pods is {group.slow_pods}"
        if not group.slow_pods.number:
            yield at, f"{about}: {NOTHING}."
        if group.slow_pods.of(group.replicas, rounds_up=True) > group.replicas:
            yield at, f"{about}, and the group has {group.replicas} pods."


def _assignor(group: Group, place: Place) -> Iterator[Mistake]:
    if group.assignor is None:
        return
    if Protocol.CLASSIC not in protocols_of(group):
        why = f"the coordinator assigns to members of {group.protocol} groups"
        yield (*place, "assignor"), f"group {group.name}: assignor is for classic members: {why}."


def _timeouts(scenario: Scenario, group: Group, place: Place) -> Iterator[Mistake]:
    if Protocol.CLASSIC not in protocols_of(group):
        for name in ("session_timeout_ms", "heartbeat_interval_ms"):
            if getattr(group, name) is not None:
                config = f"group.{group.protocol}.{name.replace('_', '.')}"
                yield (
                    (*place, name),
                    f"group {group.name}: {name} is for classic members: set {config} in configs.",
                )
        if group.protocol is Protocol.SHARE and group.rebalance_timeout_ms != REBALANCE_TIMEOUT_MS:
            why = "members of share groups have no rebalance timeout."
            yield (*place, "rebalance_timeout_ms"), f"group {group.name}: {why}"
        return
    yield from _session(scenario, group, place)
    session_ms = group.session_timeout_ms or SESSION_TIMEOUT_MS
    interval_ms = group.heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS
    if interval_ms >= session_ms:  # Kafka's client refuses it
        given = group.heartbeat_interval_ms is not None
        yield (
            (*place, "heartbeat_interval_ms" if given else "session_timeout_ms"),
            f"group {group.name}: heartbeat_interval_ms is {interval_ms}, and must be lower than"
            f" the session timeout, {session_ms}.",
        )


def _session(scenario: Scenario, group: Group, place: Place) -> Iterator[Mistake]:
    if group.session_timeout_ms is None:
        return
    try:
        configs = Configs(scenario.configs)
    except ConfigError:
        return  # told already
    low = configs.integer("group.min.session.timeout.ms")
    high = configs.integer("group.max.session.timeout.ms")
    if not low <= group.session_timeout_ms <= high:
        yield (
            (*place, "session_timeout_ms"),
            f"group {group.name}: session_timeout_ms is {group.session_timeout_ms}, and the"
            f" coordinator takes {low} to {high}.",
        )


def _behaviour(
    scenario: Scenario, group: Group, behaviour: Behaviour, place: Place, about: str
) -> Iterator[Mistake]:
    yield from _moment(scenario, behaviour, place, about)
    if isinstance(behaviour, RollingDeploy | Crash):
        yield from _pods(group, behaviour, place, about)
    if isinstance(behaviour, Crash | Restart | Flap | Duplicate | PollTimeout | Pause):
        yield from _amount(scenario, group, behaviour.pods, (place, about))
    if isinstance(behaviour, Autoscale | Churn | Flap):
        yield from _repeats(behaviour, place, about)
    if isinstance(behaviour, PollTimeout):
        yield from _reason(group, behaviour, place, about)
    if isinstance(behaviour, Flap):
        yield from _flap(scenario, group, behaviour, (place, about))
    if isinstance(behaviour, Duplicate) and not group.static:
        yield place, f"{about}: only a static member can have a duplicate: set static = true."
    if isinstance(behaviour, Drain):
        yield from _drain(behaviour, place, about)
    if isinstance(behaviour, Autoscale):
        yield from _autoscale(scenario, behaviour, place, about)


def _moment(
    scenario: Scenario, told: Behaviour | Fault, place: Place, about: str
) -> Iterator[Mistake]:
    if told.at >= scenario.duration:
        yield (*place, "at"), f"{about} begins after the end of the scenario."
    if told.at < scenario.joins_over:
        yield (*place, "at"), f"{about} begins before all members have joined."
    lasting = Duplicate | Pause | FreezeCoordinator | CutCoordinator
    if isinstance(told, lasting) and not told.lasts:
        yield (*place, "for"), f"{about}: for is 0: {NOTHING}."


def _repeats(told: Autoscale | Churn | Flap, place: Place, about: str) -> Iterator[Mistake]:
    if told.every < EVERY_MS_MIN:
        yield (*place, "every"), f"{about}: every is less than {EVERY_MS_MIN // 1000} s."
    if told.until is not None and told.until <= told.at:
        yield (*place, "until"), f"{about}: until is not after at."


def _reason(group: Group, told: PollTimeout, place: Place, about: str) -> Iterator[Mistake]:
    """Refuse a reason that nobody tells: static members do not leave (KIP-345, KIP-800)."""
    tells = Protocol.CLASSIC in protocols_of(group) and not group.static
    if told.reason != POLL_TIMEOUT and not tells:
        why = "only dynamic classic members tell a reason when they leave."
        yield (*place, "reason"), f"{about}: {why}"


def _amount(
    scenario: Scenario, group: Group, pods: Amount, at: tuple[Place, str]
) -> Iterator[Mistake]:
    place, about = at
    if not pods.number:
        yield (*place, "pods"), f"{about}: pods is {pods}: {NOTHING}."
    most = _pods_max(scenario, group)
    if pods.of(most, rounds_up=True) > most:
        yield (*place, "pods"), f"{about}: pods is {pods}, and the group has at most {most}."


def _pods_max(scenario: Scenario, group: Group) -> int:
    """Return how many pods a group has at most, whatever happens to it."""
    told = group.behaviours
    read = {name: scenario.topics[name] for name in group.topics if name in scenario.topics}
    partitions = sum(topic.partitions for topic in read.values())
    counts = [group.replicas]
    counts += [each.replicas for each in told if isinstance(each, Scale)]
    for each in told:
        if isinstance(each, Autoscale):
            counts.append(max(min(each.max_replicas, partitions), each.min_replicas))
    most = max(counts)
    is_deployed = any(isinstance(each, RollingDeploy) for each in told)
    return most + group.surge(most) if is_deployed else most


def protocols_of(group: Group) -> set[Protocol | None]:
    """Return the protocols of all revisions of a group."""
    deploys = (each for each in group.behaviours if isinstance(each, RollingDeploy))
    return {group.protocol, *(each.protocol for each in deploys)}


def _pods(group: Group, told: RollingDeploy | Crash, place: Place, about: str) -> Iterator[Mistake]:
    if isinstance(told, Crash):
        if told.renamed and not group.static:
            why = "only a static member has an instance id that changes: set static = true."
            yield (*place, "renamed"), f"{about}: {why}"
        if told.rack is not None and told.rack not in group.racks:
            yield (*place, "rack"), f"{about}: the group has no pods on a rack {told.rack}."
        return
    changes = told.protocol not in (None, group.protocol)
    if changes and not MIGRATES.issuperset((told.protocol, group.protocol)):
        why = f"a {group.protocol} group does not become a {told.protocol} group in a deploy."
        yield (*place, "protocol"), f"{about}: {why}"


def _flap(scenario: Scenario, group: Group, told: Flap, at: tuple[Place, str]) -> Iterator[Mistake]:
    place, about = at
    yield from _unknown_topics(scenario, told.topics, (*place, "topics"), about)
    if set(told.topics) == set(group.topics):
        yield (*place, "topics"), f"{about}: the topics are those of the group: {NOTHING}."
    if group.protocol not in CHANGES_TOPICS:
        yield place, f"{about}: members of {group.protocol} groups cannot change their topics."


def _drain(told: Drain, place: Place, about: str) -> Iterator[Mistake]:
    if told.drained > told.nodes:
        why = f"drained is {told.drained}, and there are {told.nodes} nodes."
        yield (*place, "drained"), f"{about}: {why}"
    if not told.max_unavailable.number:
        yield (*place, "maxUnavailable"), f"{about}: maxUnavailable is 0: no pod could be evicted."


def _autoscale(scenario: Scenario, told: Autoscale, place: Place, about: str) -> Iterator[Mistake]:
    if told.min_replicas > told.max_replicas:
        why = f"minReplicaCount is more than maxReplicaCount, {told.max_replicas}."
        yield (*place, "minReplicaCount"), f"{about}: {why}"
    times = [each.at for each in told.arrivals]
    if times != sorted(set(times)):
        yield (*place, "arrivals"), f"{about}: each of arrivals must begin after the one before."
    ends = min(scenario.duration, told.until or scenario.duration)
    left_ms = ends - told.at
    if told.every >= left_ms > 0:
        lasts = f"every is {told.every / 1000:g} s, and it ends {left_ms / 1000:g} s after it began"
        yield (*place, "every"), f"{about}: {lasts}: it never looks."
    for number, arrivals in enumerate(told.arrivals):
        if arrivals.at >= ends:
            at = (*place, "arrivals", number)
            yield at, f"{about}: arrival {number + 1} is after its end: {NOTHING}."


def _unknown_topics(
    scenario: Scenario, topics: Sequence[str], place: Place, about: str
) -> Iterator[Mistake]:
    for topic in topics:
        if topic not in scenario.topics:
            yield place, f"{about} reads the topic {topic}, which is not among the topics."
