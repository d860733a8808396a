"""``rollcall groups`` resets and deletes offsets, and deletes groups, of every type."""

from __future__ import annotations

import argparse
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from actors.cli import admin
from actors.cli import groups as cli_groups
from actors.cli.client import ClientError
from actors.cli.internal_topics import is_internal
from actors.cli.offsets.kinds import OFFSET_KINDS
from actors.errors import BadInputError
from protocol.groups.group_types import TABLES
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DeleteTopicsRequest, OffsetCommitRequest
from tests.actors.cli.test_descriptions import Talking
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.cli.client import AdminClient
    from tests.protocol.groups.conversation import Conversation

CHANGELOG = f"{GROUP}-store-changelog"


class Client(Talking):
    """An administrator's client of one shard, whose topics have two partitions."""

    def __init__(self, talk: Conversation[Any]) -> None:
        super().__init__(talk)
        self.deleted: list[str] = []

    def metadata(self, topics: Sequence[str]) -> Any:
        """Return topics."""
        partitions = [SimpleNamespace(partition_index=index) for index in range(2)]
        return SimpleNamespace(
            topics=[
                SimpleNamespace(name=name, error_code=ErrorCode.none, partitions=partitions)
                for name in topics
            ]
        )

    def ask_coordinator(self, _group_id: str, request: Any, _codes: object) -> Any:
        """Ask the shard; commits name topics, as brokers before version 10 want them."""
        is_commit = isinstance(request, OffsetCommitRequest)
        return self._talk.ask(request, 9 if is_commit else request.__version__)

    def ask_every(self, request: Any, _codes: object) -> list[Any]:
        """Ask the shard."""
        return [self.ask_coordinator("", request, _codes)]

    def ask(self, request: Any) -> Any:
        """Delete topics: those called "gone" do not exist."""
        assert isinstance(request, DeleteTopicsRequest)
        responses = []
        for each in request.topics:
            missing = "gone" in str(each.name)
            code = ErrorCode.unknown_topic_or_partition if missing else ErrorCode.none
            responses.append(SimpleNamespace(name=each.name, error_code=code))
            self.deleted += [] if missing else [str(each.name)]
        return SimpleNamespace(responses=responses)


@pytest.fixture(autouse=True)
def _ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(_client: object, partitions: Any, timestamp: int) -> dict[tuple[str, int], int]:
        return dict.fromkeys(sorted(partitions), 3 if timestamp == admin.EARLIEST else 10)

    monkeypatch.setattr(admin, "offsets_at", ends)


def run(client: Client, *words: str, group: str | None = GROUP) -> tuple[int, list[Any]]:
    """Run ``rollcall groups`` with JSON output: return the exit code and the rows."""
    parser = argparse.ArgumentParser()
    cli_groups.add_parser(parser.add_subparsers())
    which = ["--all-groups"] if group is None else ["--group", group]
    args = parser.parse_args(["groups", "--json", *which, *words])
    args.documents = []
    code = cli_groups.groups(cast("AdminClient", client), args)
    return code, json.loads(json.dumps(args.documents))


def empty_share_group() -> ShareTalk:
    talk = ShareTalk()
    talk.join("A", ("b",))
    talk.beat("A")
    talk.heartbeat("A", member_epoch=-1)
    return talk


def starts(client: Client) -> dict[tuple[str, int], int | None]:
    found = admin.share_offsets(cast("AdminClient", client), GROUP)
    return {partition: start.offset for partition, start in found.items()}


def test_every_type_of_group_has_offsets() -> None:
    assert set(OFFSET_KINDS) == set(TABLES.types)


def test_a_share_groups_start_offsets_are_reset_and_deleted() -> None:
    client = Client(empty_share_group())
    words = ("--reset-offsets", "--all-topics", "--to-earliest")
    code, rows = run(client, *words)
    assert code == 0
    assert rows == [
        {"group": GROUP, "topic": "b", "partition": index, "new_offset": 3} for index in range(2)
    ]
    assert set(starts(client).values()) == {None}, "a dry run changes nothing"
    run(client, *words, "--execute")
    assert starts(client) == {("b", 0): 3, ("b", 1): 3}
    run(client, "--reset-offsets", "--topic", "b:1", "--to-latest", "--execute")
    assert starts(client) == {("b", 0): 3, ("b", 1): 10}
    code, rows = run(client, "--delete-offsets", "--topic", "b", "--topic", "a")
    assert code == 1
    said = {row["topic"]: row["status"] for row in rows}
    assert said["b"] == "Successful"
    assert "There is no offset information" in said["a"]
    assert starts(client) == {}


def test_a_share_group_is_reset_as_its_tool_does() -> None:
    client = Client(empty_share_group())
    for target in (("--to-offset", "4"), ("--shift-by", "1"), ("--to-current",)):
        with pytest.raises(ClientError, match="is a share group: give --to-datetime or --to-ear"):
            run(client, "--reset-offsets", "--topic", "b", *target)
    with pytest.raises(BadInputError, match="by topic"):
        run(client, "--delete-offsets", "--topic", "b:0")


def test_a_share_group_that_does_not_exist_is_created_if_its_type_is_said() -> None:
    client = Client(ShareTalk())
    words = ("--reset-offsets", "--topic", "b", "--to-latest", "--execute", "--type", "share")
    assert run(client, *words)[0] == 0
    assert starts(client) == {("b", 0): 10, ("b", 1): 10}
    with pytest.raises(BadInputError, match="'queue' is not one of"):
        run(client, *words[:-1], "queue", group="other")


def test_a_group_with_members_keeps_its_offsets_and_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    talk = ShareTalk()
    talk.join("A", ("b",))
    client = Client(talk)
    words = ("--reset-offsets", "--all-topics", "--to-earliest", "--execute")
    with pytest.raises(ClientError, match="while it has members"):
        run(client, *words)
    with pytest.raises(ClientError, match="NON_EMPTY_GROUP"):
        run(client, "--delete-offsets", "--topic", "b")
    assert run(client, *words, group=None) == (1, []), "the others are reset"
    code, (row,) = run(client, "--delete", group=None)
    assert (code, row["group"]) == (1, GROUP)
    assert "NON_EMPTY_GROUP" in row["status"]
    assert "while it has members" in capsys.readouterr().err


def test_all_groups_of_every_type_are_deleted() -> None:
    client = Client(empty_share_group())
    assert run(client, "--delete", group=None) == (0, [{"group": GROUP, "status": "deleted"}])
    assert run(client, "--list") == (0, [])


def empty_streams_group(committed: Sequence[tuple[str, int]] = (("in", 0), ("in", 1))) -> Client:
    talk = StreamsTalk()
    talk.join("A")
    talk.leave("A")
    client = Client(talk)
    offsets = dict.fromkeys(committed, 7)
    admin.commit_offsets(cast("AdminClient", client), GROUP, offsets)
    return client


def offsets(client: Client) -> dict[tuple[str, int], int]:
    found = admin.committed_offsets(cast("AdminClient", client), GROUP)
    return {partition: each.offset for partition, each in found.items()}


def test_a_streams_groups_input_topics_are_reset() -> None:
    client = empty_streams_group((("in", 0), ("in", 1), ("store-changelog", 0)))
    code, rows = run(client, "--reset-offsets", "--all-topics", "--shift-by", "1", "--execute")
    assert code == 0
    assert [(row["topic"], row["partition"], row["new_offset"]) for row in rows] == [
        ("in", 0, 8),
        ("in", 1, 8),
    ]
    assert offsets(client) == {("in", 0): 8, ("in", 1): 8, ("store-changelog", 0): 7}
    with pytest.raises(ClientError, match="not part of the group"):
        run(client, "--reset-offsets", "--topic", "other", "--to-latest")
    code, rows = run(client, "--delete-offsets", "--all-topics")
    assert (code, [row["status"] for row in rows]) == (0, ["Successful", "Successful"])
    assert offsets(client) == {("store-changelog", 0): 7}


def test_a_streams_groups_internal_topics_go_with_its_offsets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = empty_streams_group()
    internal = frozenset({CHANGELOG, "somebody-elses-changelog", f"{GROUP}-gone-repartition"})
    described = SimpleNamespace(internal_topics=internal)
    monkeypatch.setattr("actors.cli.internal_topics.describe_group", lambda *_: described)
    words = ("--reset-offsets", "--topic", "in:0", "--to-latest")
    run(client, *words, "--delete-all-internal-topics")
    assert client.deleted == [], "a dry run"
    run(client, *words, "--execute", "--delete-internal-topic", f"{GROUP}-x-repartition")
    assert client.deleted == [f"{GROUP}-x-repartition"]
    code, _ = run(client, *words, "--execute", "--delete-all-internal-topics")
    assert code == 0, "one that does not exist is no failure"
    assert client.deleted[1:] == [CHANGELOG]
    said = capsys.readouterr().err
    assert "somebody-elses-changelog is not an internal topic" in said
    with pytest.raises(BadInputError, match="goes with --reset-offsets"):
        run(client, "--delete", "--delete-internal-topic", CHANGELOG)
    assert run(client, "--delete", "--delete-all-internal-topics")[0] == 0
    assert client.deleted[2:] == [CHANGELOG]


def test_the_names_of_internal_topics_are_those_of_kafka_streams() -> None:
    for name in (
        "app-store-changelog",
        "app-KSTREAM-1-repartition",
        "app-x-subscription-registration-topic",
        "app-x-subscription-response-topic",
        "app-x-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic",
        "app-x-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-12-topic",
    ):
        assert is_internal(name, "app"), name
        assert not is_internal(name, "ap"), name
    assert not is_internal("app-orders", "app")
