"""Planted bugs for promises and checkers that few other planted bugs are about."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from failover.partitions.replies import Replies
from failover.requests import fanout
from failover.simulation.clients.share_state_client import PARTITIONS
from failover.simulation.patches import Patch
from failover.simulation.settings import GroupMix
from protocol.groups.effects import AssignmentComputed, TopicsDeleted
from protocol.groups.group_types import TABLES
from protocol.groups.modern import target
from protocol.groups.offsets import commit as offsets
from protocol.groups.share_state import shard as share_state
from protocol.groups.share_state import store
from protocol.groups.share_state.shard import ShareStateShard
from protocol.wire.errors import ErrorCode, KafkaError
from storage.replica import Replica
from tests.simulation.planted.group_mutations import stale_assignment_applied
from tests.simulation.planted.mutations import Mutation

# --- answers


def refused_twice() -> list[Patch]:
    original = Replies.refuse_all

    def refuse_all(self: Replies, code: ErrorCode, out: list[Any]) -> None:
        before = len(out)
        original(self, code, out)
        out += out[before:]

    return [(Replies, "refuse_all", refuse_all)]


def answered_twice() -> list[Patch]:
    original = Replies.let_out

    def let_out(self: Replies, leadership: Any, out: list[Any]) -> None:
        before = len(out)
        original(self, leadership, out)
        out += out[before:]

    return [(Replies, "let_out", let_out)]


def last_group_of_an_answer_lost() -> list[Patch]:
    original = fanout._join

    def join(request: Any, answers: Any) -> Any:
        joined = original(request, answers)
        for name in ("groups", "results"):
            if len(getattr(joined, name, ())) > 1:
                return replace(joined, **{name: getattr(joined, name)[:-1]})
        return joined

    return [(fanout, "_join", join)]


def _with_handler(key: int, handle: Callable[[Any, Any, int], None]) -> list[Patch]:
    return [(TABLES, "handlers", MappingProxyType({**TABLES.handlers, key: handle}))]


def description_never_answered() -> list[Patch]:
    return _with_handler(69, lambda ctx, request, now: None)


def summary_never_answered() -> list[Patch]:
    handlers = {**share_state.HANDLERS, 87: lambda ctx, request, now: None}
    return [(share_state, "HANDLERS", MappingProxyType(handlers))]


def description_of_an_unknown_group_raises() -> list[Patch]:
    original = TABLES.handlers[15]

    def describe(ctx: Any, request: Any, now: int) -> None:
        for group_id in request.message.groups:
            ctx.groups[group_id]
        original(ctx, request, now)

    return _with_handler(15, describe)


def deletion_of_an_unknown_offset_raises() -> list[Patch]:
    original = TABLES.handlers[47]

    def delete(ctx: Any, request: Any, now: int) -> None:
        for topic in request.message.topics:
            ctx.offsets[request.message.group_id][topic.name]
        original(ctx, request, now)

    return _with_handler(47, delete)


def _unreadable(is_unreadable: Callable[[Any, str], bool]) -> list[Patch]:
    """Let OffsetFetch refuse some groups for good."""
    original = TABLES.handlers[9]

    def fetch(ctx: Any, request: Any, now: int) -> None:
        original(ctx, request, now)
        reply = ctx.result.replies[-1]
        groups = tuple(
            replace(each, topics=(), error_code=ErrorCode.group_id_not_found)
            if is_unreadable(ctx, each.group_id)
            else each
            for each in reply.message.groups
        )
        told = replace(reply.message, groups=groups)
        ctx.result.replies[-1] = replace(reply, message=told)

    return _with_handler(9, fetch)


def simple_consumers_cannot_read() -> list[Patch]:
    def has_no_members(ctx: Any, group_id: str) -> bool:
        group = ctx.groups.get(group_id)
        return group is not None and not group.has_members

    return _unreadable(has_no_members)


def offsets_of_two_topics_cannot_be_read() -> list[Patch]:
    return _unreadable(lambda ctx, group_id: len(ctx.offsets.get(group_id, ())) > 1)


def answered_as_another_member() -> list[Patch]:
    original = TABLES.handlers[68]

    def heartbeat(ctx: Any, request: Any, now: int) -> None:
        first = len(ctx.result.replies)
        original(ctx, request, now)
        replies = ctx.result.replies
        for at, reply in enumerate(replies[first:], first):
            members = getattr(ctx.groups.get(request.message.group_id), "members", ())
            if reply.message.member_id in members:
                told = replace(reply.message, member_id=next(iter(members)))
                replies[at] = replace(reply, message=told)

    return _with_handler(68, heartbeat)


# --- groups


def one_target_for_all_members() -> list[Patch]:
    def computed(ctx: Any, event: AssignmentComputed, now: int) -> None:
        same = [(member_id, event.members[0][1]) for member_id, _ in event.members]
        target.computed(ctx, replace(event, members=same), now)

    events = {**TABLES.events, AssignmentComputed: computed}
    return [(TABLES, "events", MappingProxyType(events))]


def removed_members_commit() -> list[Patch]:
    original = offsets.check_commit

    def check_commit(ctx: Any, request: Any, now: int) -> Any:
        try:
            return original(ctx, request, now)
        except KafkaError as error:
            if error.code is ErrorCode.unknown_member_id:
                return None
            raise

    return [(offsets, "check_commit", check_commit)]


def streams_stale_assignment_applied() -> list[Patch]:
    return stale_assignment_applied()


def share_state_of_odd_partitions_forgotten() -> list[Patch]:
    original = store.initialize

    def initialize(ctx: Any, share: Any, *arguments: Any) -> None:
        if share.partition % 2 == 0:
            original(ctx, share, *arguments)

    return [(store, "initialize", initialize)]


def share_state_of_later_partitions_forgotten() -> list[Patch]:
    """Forget those that the client with epochs does not use, which would notice sooner."""
    original = store.initialize

    def initialize(ctx: Any, share: Any, *arguments: Any) -> None:
        if share.partition < PARTITIONS:
            original(ctx, share, *arguments)

    return [(store, "initialize", initialize)]


def share_state_of_deleted_topics_kept() -> list[Patch]:
    return [(ShareStateShard, "_look_for_deleted", lambda self, now: None)]


def share_state_kept_until_the_next_election() -> list[Patch]:
    original = ShareStateShard.handle

    def handle(self: ShareStateShard, event: Any, now: int) -> Any:
        doomed, due_ms = self._doomed, self._due_ms
        result = original(self, event, now)
        if isinstance(event, TopicsDeleted):
            self._doomed, self._due_ms = doomed, due_ms
        return result

    return [(ShareStateShard, "handle", handle)]


# --- replicas


def own_epoch_joined_again() -> list[Patch]:
    def admit(self: Replica, epoch: int) -> bool:
        if epoch >= self.epoch:
            self._core.join_epoch(epoch)
            self._election.forget_vote()
            self._settle()
        return epoch == self.epoch

    return [(Replica, "_admit", admit)]


PROMISE_PLANTED: tuple[tuple[Callable[[], list[Patch]], int, GroupMix, str], ...] = (
    (refused_twice, 3, GroupMix.ANY, "who waits is told of a demotion twice"),
    (answered_as_another_member, 0, GroupMix.CONSUMER, "members are told the first one's id"),
    (answered_twice, 0, GroupMix.ANY, "answers that waited for the lease are sent twice"),
    (last_group_of_an_answer_lost, 0, GroupMix.ANY, "an answer about many groups lacks the last"),
    (description_never_answered, 5, GroupMix.CONSUMER, "ConsumerGroupDescribe is never answered"),
    (summary_never_answered, 0, GroupMix.SHARE, "a summary of share state is never answered"),
    (description_of_an_unknown_group_raises, 3, GroupMix.ANY, "a handler raises"),
    (deletion_of_an_unknown_offset_raises, 3, GroupMix.ANY, "another handler raises"),
    (simple_consumers_cannot_read, 3, GroupMix.ANY, "groups without members are not found"),
    (offsets_of_two_topics_cannot_be_read, 0, GroupMix.ANY, "some groups are not found"),
    (one_target_for_all_members, 0, GroupMix.CONSUMER, "all members have one target"),
    (removed_members_commit, 7, GroupMix.MIXED, "a member that is unknown may commit"),
    (streams_stale_assignment_applied, 15, GroupMix.STREAMS, "a late answer is the next run's"),
    (share_state_of_odd_partitions_forgotten, 1, GroupMix.SHARE, "some share state is not created"),
    (share_state_of_later_partitions_forgotten, 0, GroupMix.SHARE, "some share state is missing"),
    (share_state_of_deleted_topics_kept, 2, GroupMix.SHARE, "deleted topics have share state"),
    (share_state_kept_until_the_next_election, 19, GroupMix.SHARE, "share state stays for long"),
    (own_epoch_joined_again, 0, GroupMix.ANY, "a replica enters the epoch that it is in"),
)
PROMISE_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed, groups)
    for function, seed, groups, about in PROMISE_PLANTED
}
