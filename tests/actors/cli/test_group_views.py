"""``rollcall groups --describe`` for share and streams groups: the columns of Kafka's tools."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from actors.cli import admin
from actors.cli.group_views import VIEWS, show_group
from protocol.groups.group_types import TABLES
from tests.actors.cli.test_descriptions import Talking
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk

if TYPE_CHECKING:
    from actors.cli.client import AdminClient
    from tests.protocol.groups.conversation import Conversation


class Client(Talking):
    """An administrator's client that also knows where the coordinator is."""

    def coordinator(self, _group_id: str) -> tuple[int, tuple[str, int]]:
        """Return node and address."""
        return 1, ("host", 9092)


def shown(talk: Conversation[Any], view: str, *, verbose: bool = False) -> list[dict[str, Any]]:
    """Return the rows of a view."""
    args = Namespace(json=True, documents=[], verbose=verbose)
    show_group(cast("AdminClient", Client(talk)), GROUP, view, args)
    rows: list[dict[str, Any]] = json.loads(json.dumps(args.documents))
    return rows


def share_group() -> ShareTalk:
    talk = ShareTalk()
    talk.join("A", ("b",))
    talk.beat("A")
    return talk


def test_every_type_of_group_has_every_view() -> None:
    assert set(VIEWS) == set(TABLES.types)
    assert {tuple(views) for views in VIEWS.values()} == {("offsets", "members", "state")}


def test_a_share_group() -> None:
    talk = share_group()
    epoch = talk.client("A").epoch
    (member,) = shown(talk, "members", verbose=True)
    assert member == {
        "group": GROUP,
        "consumer_id": "m-A",
        "host": "/127.0.0.1",
        "client_id": "A",
        "partitions": 2,
        "member_epoch": epoch,
        "assignment": "b:0,1",
    }
    (state,) = shown(talk, "state", verbose=True)
    assert state == {
        "group": GROUP,
        "coordinator_id": "host:9092 (1)",
        "state": "Stable",
        "group_epoch": epoch,
        "assignment_epoch": epoch,
        "members": 1,
    }
    first, second = shown(talk, "offsets", verbose=True)
    assert (first["topic"], first["partition"], second["partition"]) == ("b", 0, 1)
    assert first.keys() == {"group", "topic", "partition", "leader_epoch", "start_offset", "lag"}


def test_a_streams_group(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = StreamsTalk({"group.streams.num.standby.replicas": "1"})
    talk.join("A")
    (member,) = shown(talk, "members", verbose=True)
    assert member == {
        "group": GROUP,
        "target_assignment_epoch": 2,
        "topology_epoch": 1,
        "member": "A",
        "member_protocol": "streams",
        "member_epoch": 2,
        "process": "p-A",
        "client_id": "A",
        "assignments": "ACTIVE: 0:[0,1,2]; TARGET-ACTIVE: 0:[0,1,2];",
    }
    (state,) = shown(talk, "state")
    assert (state["state"], state["members"]) == ("Stable", 1)

    def ends(_client: object, partitions: Any, timestamp: int) -> dict[tuple[str, int], int]:
        return dict.fromkeys(partitions, 3 if timestamp == admin.EARLIEST else 10)

    monkeypatch.setattr(admin, "offsets_at", ends)
    monkeypatch.setattr(
        admin, "committed_offsets", lambda *_: {("in", 1): admin.CommittedOffset(6, -1)}
    )
    rows = shown(talk, "offsets", verbose=True)
    assert [(row["topic"], row["partition"]) for row in rows] == [("in", 0), ("in", 1), ("in", 2)]
    assert [row["current_offset"] for row in rows] == [None, 6, None]
    assert [row["offset_lag"] for row in rows] == [7, 4, 7]
    assert {row["log_end_offset"] for row in rows} == {10}
