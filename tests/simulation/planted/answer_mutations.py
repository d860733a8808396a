"""Planted bugs in what answers wait for, in deletion and expiry, in leases, votes and voters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from failover import host
from failover.catalogue.state import CatalogState
from failover.requests.fanout import Fanout, RequestPart
from failover.requests.router import Requests
from failover.simulation.patches import Patch
from protocol.groups import loading
from protocol.groups.classic import leave as classic_leave
from protocol.groups.effects import Reply
from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import GroupType, committing_type
from protocol.groups.group_types import TABLES
from protocol.groups.offsets import commit as offsets
from protocol.groups.offsets import expiry as offset_expiry
from protocol.groups.timers import TimerKind
from storage import snapshot
from storage.core import Role
from storage.election import Election
from storage.leadership import Leadership
from storage.log import SaveVote
from storage.messages import Append, Appended, Vote, Voted
from storage.replica import Replica
from storage.timing import Timing
from tests.simulation.planted.mutations import Mutation

# --- answers that leave before what they rest on is committed


def unwaited(key: int) -> list[Patch]:
    """Let the answers of one API to one group wait for nothing."""
    return [(TABLES, "handlers", answered_unwaited(TABLES.handlers, key))]


def answered_unwaited(handlers: Mapping[int, Any], key: int) -> Mapping[int, Any]:
    """Return a table of handlers in which the answers of one API wait for nothing."""
    original = handlers[key]

    def handle(ctx: Any, request: Any, now: int) -> None:
        first = len(ctx.result.replies)
        original(ctx, request, now)
        replies = ctx.result.replies
        replies[first:] = [replace(reply, group_id=None) for reply in replies[first:]]

    return {**handlers, key: handle}


def offset_delete_unwaited() -> list[Patch]:
    return unwaited(47)


def leave_unwaited() -> list[Patch]:
    return unwaited(13)


def consumer_heartbeat_unwaited() -> list[Patch]:
    return unwaited(68)


def _parts_unwaited(key: int, groups: Sequence[str] = ()) -> list[Patch]:
    """Let the answers of one API about many groups wait for nothing."""
    split, copy = Fanout.split, Fanout.copy

    def without(parts: list[RequestPart], request: Any) -> list[RequestPart]:
        return [replace(part, groups=groups) if request.api_key == key else part for part in parts]

    return [
        (Fanout, "split", lambda self, request, of: without(split(self, request, of), request)),
        (Fanout, "copy", lambda self, request, at: without(copy(self, request, at), request)),
    ]


def delete_groups_unwaited() -> list[Patch]:
    return _parts_unwaited(42)


def describe_groups_unwaited() -> list[Patch]:
    return _parts_unwaited(15)


def list_groups_unwaited() -> list[Patch]:
    original = Requests.ask

    def ask(self: Any, part: RequestPart, now: int) -> None:
        original(self, replace(part, groups=part.groups or ()), now)

    return [(Requests, "ask", ask)]


def offset_fetch_waits_for_another_group() -> list[Patch]:
    return _parts_unwaited(9, ("somebody-else",))


def catalog_answers_unwaited() -> list[Patch]:
    def reply(self: CatalogState, request: Any, message: Any) -> None:
        self._result.replies.append(Reply(request.ticket, message, None))

    return [(CatalogState, "reply", reply)]


def catalog_shown_before_commit() -> list[Patch]:
    from failover.partitions.partition import Partition

    return [(Partition, "settled", property(lambda self: True))]


def parts_of_an_answer_lost() -> list[Patch]:
    original = Fanout.merged

    def merged(self: Fanout, reply: Reply) -> Reply | None:
        merge = self._merges.get(reply.ticket)
        if merge is not None and len(merge.answers) + 1 == merge.missing:
            merge.answers.clear()
            merge.missing = 1
        return original(self, reply)

    return [(Fanout, "merged", merged)]


# --- what is deleted, leaves or expires


def deleted_group_keeps_offsets() -> list[Patch]:
    return [(offsets, "delete_all", lambda ctx, group_id: None)]


def tombstones_not_replayed() -> list[Patch]:
    original = loading.replay_rows

    def replay_rows(ctx: Any, rows: Any) -> tuple[int, int]:
        return original(ctx, [row for row in rows if row[1] is not None])

    return [(loading, "replay_rows", replay_rows)]


def tombstones_not_compacted() -> list[Patch]:
    original = snapshot.Compactor.writes

    def writes(self: Any) -> Any:
        return [
            replace(write, records=[row for row in write.records if row[1] is not None])
            if hasattr(write, "records")
            else write
            for write in original(self)
        ]

    return [(snapshot.Compactor, "writes", writes)]


def who_left_comes_back() -> list[Patch]:
    from protocol.groups.modern import leave as modern_leave

    return [(modern_leave, "remove", lambda *arguments, **named: None)]


def who_leaves_is_away_for_a_while() -> list[Patch]:
    """A member that leaves for good is kept for its session timeout, as a static one is."""
    from protocol.groups.modern import leave as modern_leave

    original = modern_leave.remove

    def remove(ctx: Any, runtime: Any, members: Any, kind: MemberEventKind, now: int) -> None:
        if kind is not MemberEventKind.LEFT:
            original(ctx, runtime, members, kind, now)
            return
        for member_id in members:
            member = runtime.group.members[member_id]
            modern_leave.leave_temporarily(ctx, runtime, member, now)

    return [(modern_leave, "remove", remove)]


def offsets_never_expire() -> list[Patch]:
    return [(offset_expiry, "_is_expired", lambda value, expiry_ms, now: False)]


def offsets_expire_early() -> list[Patch]:
    original = offset_expiry._is_expired

    def is_expired(value: Any, expiry_ms: int, now: int) -> bool:
        return original(value, expiry_ms - 3_000_000, now)

    return [(offset_expiry, "_is_expired", is_expired)]


def offsets_of_members_expire() -> list[Patch]:
    def careless(ctx: Any, group_id: str) -> GroupType:
        kind = committing_type(ctx, group_id)
        policy = replace(
            kind.offsets,
            retention_start=lambda ctx, group_id: offset_expiry.committed_ms,
            subscribed_topics=lambda ctx, group_id: frozenset(),
        )
        return replace(kind, offsets=policy)

    return [(offset_expiry, "committing_type", careless)]


def sessions_never_expire() -> list[Patch]:
    timeouts = {**TABLES.timeouts, TimerKind.SESSION: lambda ctx, key, now: None}
    return [(TABLES, "timeouts", timeouts)]


def sessions_expire_early() -> list[Patch]:
    from protocol.groups.classic import membership

    def touch(ctx: Any, group: Any, member: Any, now: int) -> None:
        membership.arm(ctx, group, member, now + member.session_timeout_ms // 4)

    return [(membership, "touch", touch), (classic_leave.membership, "touch", touch)]


# --- leases and promises


def promise_as_short_as_the_lease() -> list[Patch]:
    return [(Timing, "promise_ms", property(lambda self: self.lease_ms))]


def lease_from_the_answer_on() -> list[Patch]:
    original = Leadership.on_appended

    def on_appended(self: Leadership, message: Appended) -> None:
        original(self, replace(message, sent_ms=self.core.now))

    return [(Leadership, "on_appended", on_appended)]


def lease_of_a_minority() -> list[Patch]:
    def lease_from_ms(self: Leadership) -> int:
        heard = [voter.acked_ms for voter in self._voters if voter is not None]
        return max(heard, default=1 << 60)

    def renew(self: Leadership) -> None:
        if not self.has_handed_over:
            self.core.lease_until_ms = max(self.core.now + self.core.timing.lease_ms, 0)

    return [(Leadership, "lease_from_ms", property(lease_from_ms)), (Leadership, "_renew", renew)]


def lease_twice_as_long() -> list[Patch]:
    original = Leadership._renew

    def renew(self: Leadership) -> None:
        original(self)
        if not self.has_handed_over and 0 < self.core.lease_until_ms < 1 << 60:
            self.core.lease_until_ms += self.core.timing.lease_ms // 4

    return [(Leadership, "_renew", renew)]


def promise_only_by_those_with_the_log() -> list[Patch]:
    original = Replica._from_leader

    def from_leader(self: Replica, message: Any) -> bool:
        before = self._core.promise_until
        taken = original(self, message)
        if isinstance(message, Append) and not message.batches:
            self._core.promise_until = before
        return taken

    return [(Replica, "_from_leader", from_leader)]


# --- votes


def votes_carried_over_an_epoch() -> list[Patch]:
    original = Election._begin_round

    def begin_round(self: Election, voted_key: Any) -> None:
        before = set(self._granted)
        original(self, voted_key)
        self._granted |= before

    return [(Election, "_begin_round", begin_round)]


def pre_votes_count() -> list[Patch]:
    original = Election.on_voted

    def on_voted(self: Election, voted: Voted) -> None:
        if voted.pre_vote and self.core.role is Role.CANDIDATE:
            voted = replace(voted, pre_vote=False, epoch=self.core.epoch)
        original(self, voted)

    return [(Election, "on_voted", on_voted)]


def two_votes_in_an_epoch() -> list[Patch]:
    original = Election.on_vote

    def on_vote(self: Election, vote: Vote) -> None:
        if vote.epoch == self.core.epoch and not vote.pre_vote:
            self._answer(vote, granted=self._is_complete(vote))
        else:
            original(self, vote)

    return [(Election, "on_vote", on_vote)]


def votes_not_synced() -> list[Patch]:
    without = tuple(each for each in host.SYNCED_BY_MAJORITY if each is not SaveVote)
    return [(host, "SYNCED_BY_MAJORITY", without)]


# --- voters


def voters_change_one_upon_another() -> list[Patch]:
    original = Leadership.change_voters

    def change_voters(self: Leadership, voters: Any) -> bool:
        pending, self.core.voters._pending = self.core.voters._pending, []
        changed = original(self, voters)
        self.core.voters._pending = pending + self.core.voters._pending
        return changed

    return [(Leadership, "change_voters", change_voters)]


def two_voters_change_at_once() -> list[Patch]:
    def review_voters(self: Leadership) -> None:
        voters = self.core.voters.current
        for peer in self.peers.values():
            lost = [voter for voter in voters if voter.node_id == peer.key.node_id]
            if peer.key in voters or not self._is_near(peer) or not lost:
                continue
            if self.core.voters.is_settled and self.core.high_watermark > self.epoch_start:
                kept = tuple(voter for voter in voters if voter != lost[0])
                from storage.control import VOTERS_CHANGE_KEY, voters_change

                self._control(VOTERS_CHANGE_KEY, voters_change((*kept, peer.key)))
                self._recount()
            return

    return [(Leadership, "_review_voters", review_voters)]


def incarnation_ignored() -> list[Patch]:
    original = Leadership._peer

    def peer(self: Leadership, key: Any) -> Any:
        known = self.peers.get(key.node_id)
        return known if known is not None else original(self, key)

    return [(Leadership, "_peer", peer)]


# --- followers


def commit_by_one_less() -> list[Patch]:
    from storage import leadership

    def committed_offset(ends: Any) -> int:
        ordered = sorted(ends, reverse=True)
        return int(ordered[max(len(ordered) // 2 - 1, 0)])

    return [(leadership, "committed_offset", committed_offset)]


# --- the end of a term


PLANTED: tuple[tuple[Callable[[], list[Patch]], int, str], ...] = (
    (offset_delete_unwaited, 57, "OffsetDelete is answered before the commit"),
    (leave_unwaited, 10, "LeaveGroup is answered before the commit"),
    (consumer_heartbeat_unwaited, 0, "ConsumerGroupHeartbeat is answered before the commit"),
    (delete_groups_unwaited, 27, "DeleteGroups is answered before the commit"),
    (describe_groups_unwaited, 62, "DescribeGroups shows what is not committed"),
    (list_groups_unwaited, 33, "ListGroups shows what is not committed"),
    (offset_fetch_waits_for_another_group, 13, "OffsetFetch shows what is not committed"),
    (catalog_answers_unwaited, 0, "changes of topics are answered before the commit"),
    (catalog_shown_before_commit, 0, "topics are shown before they are committed"),
    (parts_of_an_answer_lost, 0, "an answer about many groups lacks some"),
    (deleted_group_keeps_offsets, 27, "DeleteGroups deletes nothing"),
    (tombstones_not_replayed, 0, "a standby deletes nothing"),
    (tombstones_not_compacted, 7, "the state on disk keeps what is deleted"),
    (who_left_comes_back, 0, "a member that leaves stays"),
    (who_leaves_is_away_for_a_while, 123, "a member that leaves is kept for its session timeout"),
    (offsets_never_expire, 1, "offsets never expire"),
    (offsets_expire_early, 143, "offsets expire early"),
    (offsets_of_members_expire, 5, "offsets expire though members use them"),
    (sessions_never_expire, 0, "sessions never expire"),
    (sessions_expire_early, 65, "sessions expire early"),
    (promise_as_short_as_the_lease, 0, "the promise has no margin for clocks"),
    (lease_from_the_answer_on, 4, "the lease counts from the answer, not from the question"),
    (lease_of_a_minority, 0, "one peer's answer renews the lease"),
    (lease_twice_as_long, 0, "the lease is a quarter too long"),
    (promise_only_by_those_with_the_log, 0, "a sign of life without records binds nobody"),
    (votes_carried_over_an_epoch, 0, "votes of the epoch before count"),
    (pre_votes_count, 0, "pre-votes count as votes"),
    (two_votes_in_an_epoch, 1, "a voter votes twice in an epoch"),
    (votes_not_synced, 0, "votes are written and not synced"),
    (voters_change_one_upon_another, 6, "voters change before the change before is committed"),
    (two_voters_change_at_once, 6, "two voters change in one record"),
    (incarnation_ignored, 4, "a new disk's answers are taken for the lost one's"),
    (commit_by_one_less, 0, "one voter less than a majority commits"),
)
ANSWER_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed) for function, seed, about in PLANTED
}
