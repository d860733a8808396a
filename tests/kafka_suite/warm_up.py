"""Members of every type join a server that has just started, before Kafka's tests are timed there.

The first assignment of each type loads its assignor, and the first regular expression what resolves
it. On a slow machine that takes longer than Kafka's tests wait. All that was created is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tests.clients.confluent import ADMIN_S, admin, create_topics
from tests.clients.modern_members import ConsumerMember, Member, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, until

TOPIC = "warm-up"
PARTITIONS = 3


class ExpressionMember(ConsumerMember):
    """A member of a consumer group that subscribes by a regular expression."""

    def heartbeat(self, m: Any, epoch: int) -> Any:
        request = super().heartbeat(m, epoch)
        if epoch:
            return request
        return replace(request, subscribed_topic_names=None, subscribed_topic_regex=f"{TOPIC}.*")


def members_for(tests: Iterable[str], settings: Mapping[str, str]) -> list[type[Member]]:
    """Choose members of the types of groups that these tests are about, as far as they are served.

    Members of very short sessions are left out, and those that would wait for an interval's end.
    """
    types = {re.match(r"Share|Streams|", test)[0].lower() or "consumer" for test in tests}  # type: ignore[index]
    served = [
        kind
        for kind in ("consumer", "share", "streams")
        if kind in types
        and f"group.{kind}.session.timeout.ms" not in settings
        and settings.get("group.coordinator.rebalance.protocols") != "classic"
        and not (kind == "share" and settings.get("share.version") == "0")
    ]
    chosen = [MEMBERS[kind] for kind in served]
    if "consumer" in served and "group.consumer.max.assignment.interval.ms" not in settings:
        chosen.append(ExpressionMember)
    return chosen


MEMBERS: Mapping[str, type[Member]] = {
    "consumer": ConsumerMember,
    "share": ShareMember,
    "streams": StreamsMember,
}


def warm_up(bootstrap: str, members: Sequence[type[Member]]) -> None:
    """Let each of these members have an assignment in a group of its own; delete the groups."""
    if not members:
        return
    create_topics(bootstrap, [TOPIC], PARTITIONS)
    client = admin(bootstrap)
    for member_class in members:
        group_id = f"{TOPIC}-{member_class.__name__}"
        member = member_class(bootstrap, group_id, "member", TOPIC)
        until(partial(is_served, member), WITHIN_S, f"{group_id} is served")
        member.leave()
        client.delete_consumer_groups([group_id])[group_id].result(ADMIN_S)
    topics = [each for each in client.list_topics(timeout=ADMIN_S).topics if TOPIC in each]
    for future in client.delete_topics(topics).values():
        future.result(ADMIN_S)


def is_served(member: Member) -> bool:
    """Heartbeat; say whether the member has an assignment."""
    member.beat()
    return bool(member.assigned)
