"""Members of groups that are not classic: settings, and whether they have converged."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from failover.simulation.clients.share_members import draw_topics, share_config, unshared
from failover.simulation.clients.streams_members import idle_tasks, streams_config
from failover.simulation.kinds import CONSUMER, MIXED, SHARE, STREAMS, is_modern
from protocol.members.classic import MemberConfig
from protocol.members.client import State
from protocol.members.consumer import ConsumerMemberConfig
from protocol.members.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from failover.simulation.clients.seats import AnyMemberSpec
    from failover.simulation.settings import Settings
    from protocol.members.kinds import AnyConfig
    from protocol.members.streams import StreamsMemberConfig

MORE_PARTITIONS: Final = 3
"""The partitions of a group's second topic; the first one, named like the group, has more."""


def first_topics(group_id: str) -> tuple[str, ...]:
    """Return the names of the topics that a group starts with."""
    return (group_id, f"{group_id}.more") if is_modern(group_id) else (group_id,)


Pair: TypeAlias = "tuple[AnyConfig, AnyConfig | None]"
"""A member's settings, and those under the other protocol if it may change protocols."""


def member_configs(settings: Settings) -> list[Pair]:
    """Return the members of all groups that are not classic."""
    kinds = (
        (CONSUMER, settings.consumer_groups),
        (MIXED, settings.mixed_groups),
        (SHARE, settings.share_groups),
        (STREAMS, settings.streams_groups),
    )
    ids = [f"{kind}{number}" for kind, count in kinds for number in range(count)]
    each = settings.members // (settings.groups + len(ids))
    return [
        _pair(settings, group_id, place, is_static=(place + number) % 2 == 0)
        for number, group_id in enumerate(ids)
        for place in range(each)
    ]


def _pair(settings: Settings, group_id: str, place: int, *, is_static: bool) -> Pair:
    topics = first_topics(group_id)
    if group_id.startswith(SHARE):
        drawn = draw_topics(random.Random(f"{group_id} {place}"), topics)
        return share_config(settings, group_id, place, drawn), None
    if group_id.startswith(STREAMS):
        streams = streams_config(settings, group_id, place, topics, is_static=is_static)
        return streams, _classic(settings, streams)
    config = _config(settings, group_id, place, is_static)
    if group_id.startswith(CONSUMER):
        return config, None
    pair = (config, _classic(settings, config))
    return pair[::-1] if place % 3 else pair


def _config(settings: Settings, group_id: str, place: int, is_static: bool) -> ConsumerMemberConfig:
    topics, regex = draw_subscription(random.Random(f"{group_id} {place}"), group_id)
    if group_id.startswith(MIXED):
        regex, topics = None, topics or first_topics(group_id)
    return ConsumerMemberConfig(
        group_id=group_id,
        topics=topics,
        topic_regex=regex,
        client_id=f"{group_id}/{place}",
        instance_id=f"{group_id}/{place}" if is_static else None,
        server_assignor=("uniform", "range")[int(group_id[-1]) % 2],
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        request_timeout_ms=settings.request_timeout_ms,
    )


def _classic(
    settings: Settings, config: ConsumerMemberConfig | StreamsMemberConfig
) -> MemberConfig:
    return MemberConfig(
        group_id=config.group_id,
        topics=config.topics,
        client_id=config.client_id,
        instance_id=config.instance_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        request_timeout_ms=settings.request_timeout_ms,
    )


def draw_subscription(rng: random.Random, group_id: str) -> tuple[tuple[str, ...], str | None]:
    """Return random topics and a random regular expression; one of them may be missing."""
    first, more = first_topics(group_id)
    regex = f"{re.escape(group_id)}.*"
    return rng.choice(
        (
            ((first,), None),
            ((first, more), None),
            ((first, more), None),
            ((more,), None),
            ((), regex),
            ((first,), f"{re.escape(more)}|{re.escape(group_id)}.new.*"),
        )
    )


def topics_of(spec: AnyMemberSpec, partitions_of: Mapping[str, int]) -> set[str]:
    """Return the existing topics to which a seat's member subscribes."""
    config = spec.config
    names = {*config.topics}
    if isinstance(config, ConsumerMemberConfig) and config.topic_regex is not None:
        names.update(each for each in partitions_of if re.fullmatch(config.topic_regex, each))
    return names & partitions_of.keys()


def unconverged(
    specs: Iterable[AnyMemberSpec],
    partitions_of: Mapping[str, int],
    group_id: str,
    settings: Settings,
) -> str:
    """Return what keeps a group from being whole; empty when it is.

    Whole: all seats are taken by Stable members of one epoch. They own every partition of their
    subscribed topics exactly once, and no others. The load is balanced. (For share groups see
    ``unshared``, for streams groups ``idle_tasks``.)
    """
    taken = [spec for spec in specs if spec.config.group_id == group_id]
    why = _unsettled(taken)
    if not why and group_id.startswith(SHARE):
        why = unshared(taken, partitions_of)
    elif not why and group_id.startswith(STREAMS) and kind_of(taken[0].config).is_modern:
        why = idle_tasks(taken, partitions_of, settings.standby_tasks)
    elif not why:
        why = _unowned(taken, partitions_of)
    if not why and all(isinstance(spec.config, ConsumerMemberConfig) for spec in taken):
        why = _imbalance(group_id, taken)
    return f"{group_id}: {why}" if why else ""


def _unsettled(taken: Sequence[AnyMemberSpec]) -> str:
    """Return which members are missing, not Stable, or in different epochs."""
    for spec in taken:
        if spec.driver is None or spec.driver.is_gone:
            return f"{spec.config.client_id} is away"
        if type(spec.driver.member.config) is not type(spec.config):
            return f"{spec.config.client_id} has not changed its protocol"
    members = [spec.driver.member for spec in taken if spec.driver is not None]
    states = {member.state for member in members}
    if states != {State.STABLE}:
        return f"its members are {', '.join(sorted(states))}"
    if len({member.generation for member in members}) > 1:
        return "its members are in several epochs"
    return ""


def _unowned(taken: Sequence[AnyMemberSpec], partitions_of: Mapping[str, int]) -> str:
    """Return the partitions that are owned but should not be, or the reverse."""
    wanted: set[str] = set()
    owned: list[tuple[str, int]] = []
    for spec in taken:
        assert spec.driver is not None
        topics, partitions = topics_of(spec, partitions_of), spec.driver.member.partitions
        wanted |= topics
        owned += partitions
        if not {topic for topic, _ in partitions} <= topics:
            return f"{spec.config.client_id} owns what it does not subscribe to"
    every = sorted((name, index) for name in wanted for index in range(partitions_of[name]))
    return "" if sorted(owned) == every else f"{len(owned)} of {len(every)} partitions are owned"


def _imbalance(group_id: str, taken: Sequence[AnyMemberSpec]) -> str:
    """Return the members of one subscription whose shares differ by more than one partition.

    The range assignor balances each topic separately.
    """
    shares: dict[tuple[tuple[str, ...], str | None, str], list[int]] = {}
    for spec in taken:
        config = spec.config
        assert spec.driver is not None
        assert isinstance(config, ConsumerMemberConfig)
        partitions = spec.driver.member.partitions
        names, regex = config.topics, config.topic_regex
        if config.server_assignor == "range":
            counts = Counter(topic for topic, _ in partitions)
            for topic in first_topics(group_id):
                shares.setdefault((names, regex, topic), []).append(counts[topic])
        else:
            shares.setdefault((names, regex, ""), []).append(len(partitions))
    for same, sizes in shares.items():
        if max(sizes) - min(sizes) > 1:
            return f"members that subscribe to {same} have {sizes} partitions"
    return ""
