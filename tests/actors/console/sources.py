"""Clusters as a test needs them, for the console."""

from collections.abc import Mapping
from dataclasses import replace

from actors.clock import wall_ms
from actors.console.source import (
    ActionRefusedError,
    Cluster,
    GroupDetail,
    GroupList,
    ListedGroup,
    Member,
    Offset,
    ShownNode,
    ShownPartition,
    SourceError,
    Worker,
)
from protocol.stories.causes import Cause
from protocol.stories.story import (
    Happened,
    Move,
    RebalanceStory,
    StoryOutcome,
    Unserved,
    Wait,
    Waited,
    Who,
)

NOW_MS = 1_790_000_000_000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&-->\u202e\u2028\0"


def group(group_id: str, members: int = 2, **more: object) -> ListedGroup:
    """Return a row."""
    known = {"group_type": "classic", "state": "Stable", "rebalances": 3, "lately": 1, "lag": 7}
    return ListedGroup(group_id=group_id, members=members, **{**known, **more})  # type: ignore[arg-type]


def story(group_id: str = "orders", number: int = 1, **more: object) -> RebalanceStory:
    """Return a rebalance of a member that left, in which one partition moved."""
    web, other = (
        Who(name="web-3", member_id="web-3-id", client_id="web-3", host="/10.0.0.4"),
        "web-9",
    )
    known = {
        "group_id": group_id, "node_id": 0, "number": number, "cause": Cause.LEFT,
        "outcome": StoryOutcome.STABLE, "started_ms": NOW_MS - 60_000 + number,
        "ended_ms": NOW_MS - 45_000 + number, "group_type": "classic", "before": 7, "after": 8,
        "who": web, "reason": "the poll timeout was exceeded", "members": 2, "total": 4, "moved": 1,
        "added": 0, "waits": (
            Waited(what=Wait.JOIN, wait_ms=12_100, who=(Who(name=other, member_id="web-9-id"),)),
            Waited(what=Wait.ASSIGNMENT, wait_ms=400),
        ),
        "moves": (Move(unit="orders-3", before="web-3", after=other),),
        "unserved": (Unserved(who=web, count=1, units=("orders-3",), unserved_ms=30_000),),
        "events": (Happened(time_ms=NOW_MS - 59_000, what="left", who=web, reason="bye"),),
    }  # fmt: skip
    return RebalanceStory(**{**known, **more})  # type: ignore[arg-type]


def member(name: str, *owned: str, **more: object) -> Member:
    """Return a member."""
    known = {
        "client_id": name, "host": "/10.0.0.4", "epoch": 8, "owned": owned,
        "session_ms": 45_000, "session_left_ms": 31_000,
    }  # fmt: skip
    return Member(member_id=f"{name}-id", **{**known, **more})  # type: ignore[arg-type]


def detail(group_id: str = "orders", **more: object) -> GroupDetail:
    """Return a group of two members with four partitions, of which nobody has one."""
    known = {
        "coordinator": "node 0", "assignor": "range", "epoch": 8,
        "members": (member("web-1", "orders-0", "orders-1"), member("web-9", "orders-3")),
        "units": tuple(f"orders-{number}" for number in range(4)),
        "offsets": (Offset(unit="orders-0", committed=5, end=12),),
        "stories": (story(group_id),), "since_ms": NOW_MS - 3_600_000,
    }  # fmt: skip
    return GroupDetail(summary=group(group_id), **{**known, **more})  # type: ignore[arg-type]


def cluster(leader: int | None = 0, epoch: int = 4, **more: object) -> Cluster:
    """Return three nodes with one partition."""
    known = {
        "nodes": tuple(
            ShownNode(node_id=n, address=f"h:{n}", state="Running", facts={"Process": f"{n}"})
            for n in range(3)
        ),
        "partitions": (
            ShownPartition(
                title="partition 0", number=0, leader=leader, epoch=epoch, replicas=(0, 1, 2),
                in_sync=(0, 1), remark="lease for 900 ms",
            ),
        ),
        "workers": (Worker(name="assignor 0", state="Running", runs=5, waiting=1),),
    }  # fmt: skip
    return Cluster(**{"cluster_id": "c-1", "bootstrap": "h:0,h:1", **known, **more})  # type: ignore[arg-type]


class FakeSource:
    """A source whose answers a test changes; it counts what it is asked."""

    def __init__(self) -> None:
        self.title = "cluster c-1"
        self.may_act = self.may_drill = False
        self.refusal = ""
        self.drilled: list[tuple[object, ...]] = []
        self.list = GroupList(groups=(group("orders"), group("payments", 40)))
        self.details = {"orders": detail()}
        self.shown = cluster()
        self.problem = ""
        self.asked: list[str] = []
        self.removed: list[tuple[str, str, str]] = []

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.problem:
            raise SourceError(self.problem)

    async def groups(self) -> GroupList:
        self._note("groups")
        return self.list

    async def group(self, group_id: str) -> GroupDetail | None:
        self._note("group")
        return self.details.get(group_id)

    async def cluster(self) -> Cluster:
        self._note("cluster")
        return self.shown

    async def remove(self, group_id: str, removed: Member, reason: str) -> None:
        self._note("remove")
        self.removed.append((group_id, removed.member_id, reason))

    async def drill(self, name: str, *arguments: int) -> str:
        self._note("drill")
        if self.refusal:
            raise ActionRefusedError(self.refusal)
        self.drilled.append((name, *arguments))
        return f"{name} is done."

    async def metrics(self) -> str | None:
        self._note("metrics")
        return "# HELP x y\n# TYPE x gauge\nx 1\n"

    async def status(self) -> Mapping[str, object] | None:
        self._note("status")
        return {"cluster_id": "c-1"}

    def name_everything(self, name: str) -> None:
        """Let a hostile client name whatever a client can name."""
        who = Who(name=name, member_id=name, instance_id=name, client_id=name, host=name)
        bad = Member(
            member_id=name,
            instance_id=name,
            client_id=name,
            host=name,
            software=name,
            owned=(f"{name}-0",),
            target=(f"{name}-1",),
        )
        told = story(
            name,
            who=who,
            reason=name,
            assignor=name,
            units=name,
            leader=name,
            waits=(Waited(what=Wait.JOIN, wait_ms=900, who=(who,), ended=name),),
            moves=(Move(unit=f"{name}-0", before=name, after=name),),
            unserved=(Unserved(who=who, count=1, units=(name,), unserved_ms=9_000),),
            events=(Happened(time_ms=NOW_MS, what=name, who=who, reason=name),),
        )
        shown = detail(
            name,
            members=(bad,),
            units=(f"{name}-0", f"{name}-2"),
            assignor=name,
            coordinator=name,
            offsets=(Offset(unit=name, committed=1),),
            stories=(told,) * 9,
            now=name,
            notes=(name,),
        )
        summary = group(name, group_type=name, state=name)
        self.list = GroupList(groups=(summary,), notes=(name,))
        self.details = {name: replace(shown, summary=summary)}
        self.shown = cluster(
            problems=(name,),
            notes=(name,),
            workers=(Worker(name=name, state=name),),
            nodes=(ShownNode(node_id=0, address=name, state=name, facts={"A": name}),),
            partitions=(ShownPartition(title=name, leader=None, remark=name),),
        )
        self.title = name


def storm() -> FakeSource:
    """Return a group whose member web-3 exceeds its poll timeout again and again."""
    now, source = wall_ms(), FakeSource()
    source.title = "cluster orders-production"
    web = Who(name="web-3", member_id="web-3-5f0c", client_id="web-3", host="/10.0.0.4")
    slow = Who(name="web-9", member_id="web-9-77ab", client_id="web-9", host="/10.0.0.9")
    stories = []
    for number in range(12):
        has_left = number % 2 == 0
        began = now - 40_000 * (12 - number)
        stories.append(
            story(
                number=number,
                cause=Cause.POLL_TIMEOUT if has_left else Cause.JOINED,
                reason="consumer poll timeout has expired" if has_left else "",
                started_ms=began,
                ended_ms=began + (12_900 if has_left else 3_300),
                before=number + 7,
                after=number + 8,
                total=24,
                moved=6 if has_left else 4,
                who=web,
                waits=(
                    Waited(what=Wait.JOIN, wait_ms=12_100 if has_left else 2_900, who=(slow,)),
                    Waited(what=Wait.ASSIGNMENT, wait_ms=600 if has_left else 300),
                ),
                moves=tuple(
                    Move(unit=f"orders-{n}", before="web-9" if n < 21 else "web-1", after="web-3")
                    for n in range(18, 24)
                ),
                unserved=(Unserved(who=web, count=6, unserved_ms=17_400),) if has_left else (),
            )
        )
    members = [
        replace(member(f"web-{n}"), owned=tuple(f"orders-{p}" for p in owned), epoch=None)
        for n, owned in ((1, range(6)), (2, range(6, 12)), (9, range(12, 18)), (3, range(18, 24)))
    ]
    source.details["orders"] = detail(
        members=members, units=[f"orders-{n}" for n in range(24)], stories=stories, epoch=19
    )
    return source
