"""Small histories, written row by row: for tests of what checks find, and of what they must not."""

from bench.histories.prepared import PreparedHistory
from bench.histories.schema import ENDED, FINAL, GROUP, SCHEMA, STARTED, HistoryRow
from bench.histories.store import RunFacts
from protocol.members.history import MemberHistoryKind as Kind

SESSION_MS = 45_000
CHANGED_MS, ENDED_MS = 50_000, 400_000
BEAT_MS = 3_000
PARTITIONS = ("t-0", "t-1")
NOT_ASKED = (STARTED, ENDED, FINAL)


class WrittenGroup:
    """The rows of a group: a member named ``s...`` is static, and ``s:2`` is its second life."""

    def __init__(self, name, protocol="classic"):
        self.name, self.protocol = name, protocol
        self.rows = [HistoryRow(GROUP, 0, group_id=name, protocol=protocol, owned=[*PARTITIONS])]

    def row(self, kind, at_ms, who, **more):
        member, _, life = who.partition(":")
        told = {
            "asked_ms": None if kind in NOT_ASKED else at_ms - 1,
            "protocol": self.protocol,
            "member_id": f"{member}-{life or 1}",
            **more,
        }
        self.rows.append(
            HistoryRow(
                str(kind), at_ms, group_id=self.name, member=member, life=int(life or 1),
                sequence=len(self.rows), instance_id=member if member[0] == "s" else None,
            )._replace(**told)  # type: ignore[arg-type]
        )  # fmt: skip

    def starts(self, at_ms, who, **more):
        self.row(STARTED, at_ms, who, session_timeout_ms=SESSION_MS, **more)

    def joins(self, at_ms, who, generation, owned=PARTITIONS, **more):
        """Answer a join at once, and an assignment 100 ms later."""
        self.row(Kind.JOINED, at_ms, who, generation=generation, **more)
        more.pop("asked_ms", None)
        self.row(Kind.ASSIGNED, at_ms + 100, who, generation=generation, assigned=[*owned],
                 owned=[*owned], **more)  # fmt: skip

    def comes(self, at_ms, who, generation, owned=PARTITIONS, **more):
        self.starts(at_ms, who)
        self.joins(at_ms + 100, who, generation, owned, **more)

    def beats(self, since_ms, until_ms, who, generation, **more):
        for at_ms in range(since_ms, until_ms, BEAT_MS):
            self.row(Kind.HEARTBEAT, at_ms, who, generation=generation, **more)

    def told(self, kind, at_ms, who, error, **more):
        self.row(kind, at_ms, who, error=error, **{"owned": [], "generation": -1, **more})

    def ends(self, at_ms, who, kind=ENDED):
        self.row(kind, at_ms, who, owned=[])

    def stays(self, who, generation, owned=PARTITIONS):
        self.row(FINAL, ENDED_MS - 10, who, generation=generation, owned=[*owned])


def history_of(session, groups, marks=(), clock_error_ms=0):
    """Return the history of written groups, with rows of changes and faults."""
    rows = [*marks, *(row for group in groups for row in group.rows)]
    facts = RunFacts(
        run_id="a", what="a run", changed_ms=CHANGED_MS, ended_ms=ENDED_MS,
        clock_error_ms=clock_error_ms,
    )  # fmt: skip
    return PreparedHistory(session.createDataFrame(rows, SCHEMA).localCheckpoint(), facts)
