"""Write the scenario of a group that runs, on Rollcall or on Apache Kafka: a file to start from.

Describe tells the type of the group, its members, their instance ids, racks and assignments;
the cluster tells how many partitions their topics have. It does not tell timeouts, nor how the pods
are managed; what was guessed is a comment in the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.descriptions import describe_group
from actors.client.security import read_security
from actors.errors import BadInputError
from bench.scenarios.checks import HAS_STATIC
from bench.scenarios.files import parse
from bench.scenarios.scenario import NAME, WorkloadKind
from bench.scenarios.values import DURATION_MS_MAX, Protocol
from failover.drills.checked import DrillError
from protocol.members.assignors import ClassicAssignor
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.cli.descriptions import GroupDescription, MemberDescription
    from bench.rehearsals.guest import GuestCluster

TIMEOUT_S: Final = 15.0
DEPLOY_AT_S: Final = 30
SETTLE_S: Final = 120
SHORTEST_S: Final = 300
POD_S: Final = 10
"""About how long a StatefulSet takes to replace a pod, with the usual times."""

UNSEEN_MAX: Final = 20
RACKS_MAX: Final = 1_000
NAME_LENGTH: Final = 100
"""The most that the name of a topic may have in a scenario; of Kafka's it is 249."""

_ORDINAL: Final = re.compile(r".*-\d+$")


def imported(cluster: GuestCluster, group_id: str) -> str:
    """Return a scenario file for a group of a cluster: raises CommandError or DrillError."""
    security = read_security(cluster.command_config)
    try:
        addresses = parse_bootstrap(cluster.bootstrap)
    except ValueError as error:
        raise BadInputError(f"{error}.") from None
    with AdminClient(addresses, TIMEOUT_S, security=security) as client:
        group = describe_group(client, group_id)
        topics = _topics(client, group)
        found = client.metadata(topics).topics
        partitions = {
            str(each.name): len(each.partitions)
            for each in found
            if each.error_code is ErrorCode.none and each.partitions
        }
    unseen = [name for name in topics if name not in partitions]
    return written(group, {name: partitions[name] for name in topics if name in partitions}, unseen)


def _topics(client: AdminClient, group: GroupDescription) -> list[str]:
    """Return the topics that a group reads: its members', or else those it has offsets of."""
    names = set(group.input_topics)
    if not group.sources:
        names |= {topic for member in group.members for topic, _ in _held(member)}
    if not names:
        names = {topic for topic, _ in admin.committed_offsets(client, group.group_id)}
    return sorted(names)


def _held(member: MemberDescription) -> Sequence[tuple[str, int]]:
    return (*member.assigned, *(member.target or ()))


def written(
    group: GroupDescription, partitions: Mapping[str, int], unseen: Sequence[str] = ()
) -> str:
    """Return a scenario file for a described group; raises DrillError if there can be none.

    It reads these topics, and those ``unseen``, of which the cluster tells no partitions.
    """
    if not group.members:
        raise DrillError(
            f"Group {group.group_id} has no members now: import it while its application runs."
        )
    if unseen and not partitions:
        names = ", ".join(map(_comment, unseen[:UNSEEN_MAX]))
        raise DrillError(f"The cluster shows no topic that group {group.group_id} reads: {names}.")
    if not partitions:
        raise DrillError(f"Nothing tells which topics group {group.group_id} reads.")
    text = "\n".join(_lines(group, partitions, unseen)) + "\n"
    parse(_plain(group.group_id), text)
    return text


def _lines(
    group: GroupDescription, partitions: Mapping[str, int], unseen: Sequence[str]
) -> Iterator[str]:
    ids = [each.instance_id for each in group.members if each.instance_id is not None]
    protocol = Protocol(group.group_type)
    is_static = len(ids) == len(group.members) and protocol in HAS_STATIC
    is_ordered = is_static and all(_ORDINAL.fullmatch(each) for each in ids)
    workload = WorkloadKind.STATEFUL_SET if is_ordered else WorkloadKind.DEPLOYMENT
    members = len(group.members)
    name = _plain(group.group_id)
    about = f"A rolling deploy of {group.group_id}, as it was found: {members} members"
    yield f"about = {_text(about)}"
    yield f'duration = "{_duration_s(members if is_ordered else 0)}s"'
    for topic in unseen[:UNSEEN_MAX]:
        yield f"# The cluster does not show the topic {_comment(topic)}, so it is left out."
    if len(unseen) > UNSEEN_MAX:
        yield f"# So are {len(unseen) - UNSEEN_MAX} others."
    topics = _short(partitions)
    for topic, short in topics.items():
        yield f"\n[topics.{_text(short)}]{'' if short == topic else f'  # {topic}'}"
        yield f"partitions = {partitions[topic]}"
    yield "\n[[groups]]"
    yield f"name = {_text(name)}"
    yield f"topics = [{', '.join(map(_text, topics.values()))}]"
    yield f"protocol = {_text(protocol)}{_about_protocol(group)}"
    yield from _assignor(group)
    yield f"static = {str(is_static).lower()}{_about_ids(group, len(ids), is_static=is_static)}"
    yield f"workload = {_text(workload)}  # guessed from the instance ids"
    yield f"replicas = {members}"
    yield from _racks(group, is_ordered=is_ordered)
    yield "# Describe does not tell these: set them as the application has them."
    yield '# start_time = "5s"'
    if protocol is Protocol.CLASSIC:
        yield "# session_timeout_ms = 45000\n# heartbeat_interval_ms = 3000"
    if protocol is not Protocol.SHARE:
        yield "# rebalance_timeout_ms = 300000"
    yield f'\n[[groups.behaviours]]\ndo = "rolling-deploy"\nat = "{DEPLOY_AT_S}s"'


def _duration_s(one_by_one: int) -> int:
    """Return how long to rehearse when so many pods are replaced one after the other."""
    deploy_s = DEPLOY_AT_S + one_by_one * POD_S + SETTLE_S
    return min(max(deploy_s, SHORTEST_S), DURATION_MS_MAX // 1000)


def _about_protocol(group: GroupDescription) -> str:
    if group.is_mixed:
        return "  # some of its members still have the classic protocol"
    return ""


def _assignor(group: GroupDescription) -> Iterator[str]:
    """Tell the assignor of a classic group, or what stands for one that is not rehearsed."""
    if group.group_type != Protocol.CLASSIC or not group.assignor:
        return
    if group.assignor in list(ClassicAssignor):
        yield f"assignor = {_text(group.assignor)}"
    else:
        used = ClassicAssignor.RANGE
        yield f"assignor = {_text(used)}  # they use {_comment(group.assignor)}"


def _racks(group: GroupDescription, *, is_ordered: bool) -> Iterator[str]:
    """Tell the racks of the members, those of a StatefulSet by their ordinals."""
    members = list(group.members)
    if is_ordered:
        members.sort(key=lambda each: int((each.instance_id or "").rpartition("-")[2]))
    racks = [_plain(each.rack_id) for each in members if each.rack_id]
    if not racks:
        return
    if len(racks) < len(members):
        yield f"# {len(racks)} of {len(members)} members tell a rack."
        return
    if len(racks) > RACKS_MAX:
        counts = ", ".join(f"{count} on {rack}" for rack, count in sorted(Counter(racks).items()))
        yield f"# The racks of so many members cannot be told: {_comment(counts)}."
        return
    yield f"racks = [{', '.join(map(_text, _in_turn(racks)))}]"
    yield "# Those of the nodes, `racks` above the topics, are not told: set them, too."


def _in_turn(racks: Sequence[str]) -> Sequence[str]:
    """Return the shortest list of which these are the racks in turn."""
    for count in range(1, len(racks)):
        if all(rack == racks[place % count] for place, rack in enumerate(racks)):
            return racks[:count]
    return racks


def _short(topics: Iterable[str]) -> dict[str, str]:
    """Return the names of topics in a scenario: different ones, also of those that are too long."""
    found: dict[str, str] = {}
    for topic in topics:
        if re.fullmatch(NAME, topic):
            found[topic] = topic
        else:
            number = f"-{len(found)}"
            found[topic] = f"{topic[: NAME_LENGTH - len(number)]}{number}"
    return found


def _about_ids(group: GroupDescription, ids: int, *, is_static: bool) -> str:
    if not ids or is_static:
        return ""
    return f"  # {ids} of {len(group.members)} members have an instance id"


def _plain(name: str) -> str:
    """Return a name that a scenario may have."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", name)[:100] or "group"


def _comment(text: str) -> str:
    """Return what a client sent as a part of a comment: one line of bounded length."""
    return re.sub(r"[^ -~]", "?", text)[:100]


def _text(text: str) -> str:
    """Return a TOML string: what JSON escapes, TOML escapes alike."""
    return json.dumps(text[:900]).replace("\x7f", "\\u007f")
