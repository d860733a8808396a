"""Members of consumer groups and of mixed groups: who there is, and when they are at rest."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from failover.simulation.kinds import CONSUMER, MIXED
from protocol.members.classic import MemberConfig, State
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from failover.simulation.clients import Clients, Seat
    from failover.simulation.settings import Settings

AnyConfig: TypeAlias = MemberConfig | ConsumerMemberConfig

MORE_PARTITIONS: Final = 3
"""Of a group's second topic; the first one, called like the group, has more."""


def first_topics(group_id: str) -> tuple[str, ...]:
    """Name the topics that a group begins with."""
    if group_id.startswith((CONSUMER, MIXED)):
        return group_id, f"{group_id}.more"
    return (group_id,)


Pair: TypeAlias = tuple[AnyConfig, AnyConfig | None]
"""A member's settings, and those it would have under the other protocol if it may change."""


def member_configs(settings: Settings) -> list[Pair]:
    """Return the members of all groups that are not classic ones."""
    kinds = [(CONSUMER, settings.consumer_groups), (MIXED, settings.mixed_groups)]
    ids = [f"{kind}{number}" for kind, count in kinds for number in range(count)]
    each = settings.members // (settings.groups + len(ids))
    found: list[Pair] = []
    for number, group_id in enumerate(ids):
        for place in range(each):
            is_static = (place + number) % 2 == 0
            config = _config(settings, group_id, place, is_static)
            if group_id.startswith(CONSUMER):
                found.append((config, None))
                continue
            pair = (config, _classic(settings, config))
            found.append(pair[::-1] if place % 3 else pair)
    return found


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


def _classic(settings: Settings, config: ConsumerMemberConfig) -> MemberConfig:
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
    """Draw topics and a regular expression; one of them may be missing."""
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


def topics_of(seat: Seat, partitions_of: Mapping[str, int]) -> set[str]:
    """Name the topics that exist and that a seat's member subscribes to."""
    config = seat.config
    names = {*config.topics}
    if isinstance(config, ConsumerMemberConfig) and config.topic_regex is not None:
        names.update(each for each in partitions_of if re.fullmatch(config.topic_regex, each))
    return names & partitions_of.keys()


def unrest(clients: Clients, group_id: str) -> str:
    """Say what keeps a group from being whole; empty when it is.

    Whole: all seats are taken by Stable members of one epoch, which own every partition of the
    topics that they subscribe to, each once, and no others; the load is balanced.
    """
    taken = [seat for seat in clients.seats if seat.config.group_id == group_id]
    members = []
    for seat in taken:
        if seat.driver is None or seat.driver.is_gone:
            return f"{group_id}: {seat.config.client_id} is away"
        members.append(seat.driver.member)
    states = {member.state for member in members}
    if states != {State.STABLE}:
        return f"{group_id}: its members are {', '.join(sorted(states))}"
    if len({member.generation for member in members}) > 1:
        return f"{group_id}: its members are in several epochs"
    wanted = sorted(
        (name, index)
        for name in set().union(*(topics_of(seat, clients.partitions_of) for seat in taken))
        for index in range(clients.partitions_of[name])
    )
    owned = sorted(at for member in members for at in member.partitions)
    if owned != wanted:
        return f"{group_id}: {len(owned)} of {len(wanted)} partitions are owned: {owned}, {wanted}"
    for seat, member in zip(taken, members, strict=True):
        own = {topic for topic, _ in member.partitions}
        if not own <= topics_of(seat, clients.partitions_of):
            return f"{group_id}: {seat.config.client_id} owns what it does not subscribe to"
    if all(isinstance(member, ConsumerMember) for member in members):
        return _imbalance(group_id, taken)
    return ""


def _imbalance(group_id: str, taken: Iterable[Seat]) -> str:
    """Say which members of one subscription have shares that differ by more than one partition.

    The range assignor balances each topic for itself.
    """
    shares: dict[tuple[object, ...], list[int]] = {}
    for seat in taken:
        config = seat.config
        assert seat.driver is not None
        assert isinstance(config, ConsumerMemberConfig)
        partitions = seat.driver.member.partitions
        same = (config.topics, config.topic_regex)
        if config.server_assignor == "range":
            counts = Counter(topic for topic, _ in partitions)
            for topic in first_topics(group_id):
                shares.setdefault((*same, topic), []).append(counts[topic])
        else:
            shares.setdefault(same, []).append(len(partitions))
    for same, counts in shares.items():
        if max(counts) - min(counts) > 1:
            return f"{group_id}: members that subscribe to {same} have {counts} partitions"
    return ""
