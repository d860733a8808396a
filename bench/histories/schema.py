"""The rows of a history: one schema for all protocols (docs/history.md).

A row is something that happened to one life of a member, or a fact about the run. A member's
*life* lasts from a start of its process to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 3
"""The version of the schema: it grows with a change of columns, or of a run's rows."""


class HistoryRow(NamedTuple):
    """One row, in the order of :data:`COLUMNS`."""

    kind: str
    time_ms: int
    asked_ms: int | None = None
    group_id: str | None = None
    protocol: str | None = None
    member: str | None = None
    life: int | None = None
    sequence: int | None = None
    instance_id: str | None = None
    member_id: str | None = None
    session_timeout_ms: int | None = None
    generation: int | None = None
    assigned: list[str] | None = None
    owned: list[str] | None = None
    revoked: list[str] | None = None
    offsets: dict[str, int] | None = None
    error: str | None = None
    cause: str | None = None


class HistoryColumn(NamedTuple):
    """The type of a column in Spark's words, and what it says."""

    type: str
    says: str


COLUMNS: Final[Mapping[str, HistoryColumn]] = {
    "kind": HistoryColumn("string", "what happened; the rows of each kind are in a folder"),
    "time_ms": HistoryColumn("bigint", "when, on the clock of the member's driver (Unix time)"),
    "asked_ms": HistoryColumn(
        "bigint", "when the request was sent that was answered; null: there was none"
    ),
    "group_id": HistoryColumn("string", "the group; null: about the whole cluster"),
    "protocol": HistoryColumn("string", "classic, consumer, share or streams"),
    "member": HistoryColumn(
        "string", "the lasting name of the member: its instance id, or its client id"
    ),
    "life": HistoryColumn("int", "counts the starts of the member's process, from 1"),
    "sequence": HistoryColumn("bigint", "orders the rows of one life"),
    "instance_id": HistoryColumn("string", "its instance id; null: a dynamic member"),
    "member_id": HistoryColumn("string", "the id that the coordinator knows it by"),
    "session_timeout_ms": HistoryColumn(
        "bigint",
        "of started: after so long without a heartbeat it may be expelled; null: not known",
    ),
    "generation": HistoryColumn("int", "the generation; of other than classic groups the epoch"),
    "assigned": HistoryColumn(
        "array<string>",
        "of assigned: the partitions that the coordinator assigned, as topic-index. Of group: other"
        " partitions that some of its members subscribe to for a time; null: none",
    ),
    "owned": HistoryColumn(
        "array<string>",
        "the partitions that the member owns from now on; null: as before. Of group: all"
        " partitions that its members subscribe to",
    ),
    "revoked": HistoryColumn("array<string>", "the partitions that it no longer owns; null: none"),
    "offsets": HistoryColumn("map<string,bigint>", "the offsets that were committed or read"),
    "error": HistoryColumn("string", "the error, by Kafka's name in lower case"),
    "cause": HistoryColumn("string", "of change and fault: what was done"),
}
"""The columns in order. ``run_id`` is not among them: each run has its own folder."""

SCHEMA: Final = ", ".join(f"{name} {column.type}" for name, column in COLUMNS.items())

STARTED: Final = "started"
ENDED: Final = "ended"
FINAL: Final = "final"
COMMITTING: Final = "committing"
FETCHED: Final = "fetched"
GROUP: Final = "group"
CHANGE: Final = "change"
FAULT: Final = "fault"

KINDS: Final[Mapping[str, str]] = {
    GROUP: "a group of the run: its protocol, and the partitions of its topics",
    STARTED: "a life began: the process of the member started",
    MemberHistoryKind.JOINED: "the member joined: it has a member id and a generation",
    MemberHistoryKind.ASSIGNED: "the member was told its partitions",
    MemberHistoryKind.HEARTBEAT: "a heartbeat was answered without error",
    MemberHistoryKind.REBALANCING: "the coordinator asked the member to join again",
    MemberHistoryKind.LOST: "the coordinator no longer knows the member id or the generation",
    MemberHistoryKind.RETRIED: "the coordinator could not answer now",
    MemberHistoryKind.DISCONNECTED: "a connection broke, or an answer never came",
    MemberHistoryKind.COMMITTED: "every offset of a commit was acknowledged",
    MemberHistoryKind.COMMIT_FAILED: "an offset was refused, or the answer never came",
    MemberHistoryKind.FAILED: "an error ended the member, such as FENCED_INSTANCE_ID",
    MemberHistoryKind.LEFT: "the member left; a static one of a classic group just stopped",
    ENDED: "the run ended the life: its process was told to stop, or was killed",
    FINAL: "what the member held when the run ended; lives that ended before have none",
    COMMITTING: "a commit had no answer yet when the life, or the record of it, ended",
    FETCHED: "committed offsets as the coordinator returned them, during the run and in the end",
    CHANGE: "the run changed a group: a deploy, a restart, more members; also its end",
    FAULT: "the run did something to the cluster, or ended that",
}
"""What each kind of row says."""
