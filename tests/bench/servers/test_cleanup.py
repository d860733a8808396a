"""What a load leaves in a cluster that keeps running is deleted, within one deadline."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from actors.cli.client import ClientError
from actors.cli.descriptions import GroupDescription, MemberDescription
from bench.servers import cleanup
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DeleteTopicsRequest

BOOTSTRAP = (("127.0.0.1", 1),)


class Cluster:
    """Groups with members that can be removed, or not; a clock that only waiting moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, groups: dict[str, list[MemberDescription]]):
        self.groups = groups
        self.asked: list[str] = []
        self.removed: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
        self.stays = False
        self.now_s = 0.0
        self.refuses: str = ""
        monkeypatch.setattr(cleanup, "AdminClient", lambda *_args, **_options: self)
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        monkeypatch.setattr(cleanup, "time", clock)
        monkeypatch.setattr(cleanup, "describe_group", self.describe)
        for name in ("delete_group", "remove_members"):
            monkeypatch.setattr(cleanup.admin, name, getattr(self, name))

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_error: object) -> None:
        """Close nothing."""

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def ask(self, request: DeleteTopicsRequest) -> SimpleNamespace:
        self.asked.append("topics")
        if self.refuses:
            raise ClientError(self.refuses)
        codes = [
            SimpleNamespace(name=each.name, error_code=ErrorCode.none) for each in request.topics
        ]
        return SimpleNamespace(responses=codes)

    def describe(self, _client: object, group_id: str) -> GroupDescription:
        return GroupDescription(
            group_id=group_id, group_type="classic", state="Stable", assignor="",
            members=tuple(self.groups[group_id]),
        )  # fmt: skip

    def delete_group(self, _client: object, group_id: str) -> int:
        self.asked.append(group_id)
        return ErrorCode.non_empty_group if self.groups[group_id] else ErrorCode.none

    def remove_members(self, _client: object, group_id: str, members: list) -> list[int]:
        self.removed[group_id] += [(each.member_id, each.group_instance_id) for each in members]
        if not self.stays:
            self.groups[group_id] = []
        return [0]


def member(member_id: str, instance_id: str | None = None) -> MemberDescription:
    return MemberDescription(
        member_id=member_id, instance_id=instance_id, client_id="", host="", assigned=()
    )


def test_topics_are_deleted_before_groups_wait_for_their_members(monkeypatch) -> None:
    cluster = Cluster(monkeypatch, {"a": [], "b": []})
    assert cleanup.remove(BOOTSTRAP, ("a", "b"), ("t",)) == []
    assert cluster.asked == ["topics", "a", "b"]


def test_members_that_vanished_are_removed_by_their_instance_ids_or_else_by_their_ids(
    monkeypatch,
) -> None:
    cluster = Cluster(monkeypatch, {"a": [member("m-1", "i-1"), member("m-2")]})
    assert cleanup.remove(BOOTSTRAP, ("a",), ("t",)) == []
    assert cluster.removed == {"a": [("", "i-1"), ("m-2", None)]}
    assert cluster.now_s < 1, "nobody waits for the ends of their sessions"


def test_groups_whose_members_stay_have_one_deadline_together(monkeypatch) -> None:
    cluster = Cluster(monkeypatch, {f"g{n}": [member("m")] for n in range(50)} | {"empty": []})
    cluster.stays = True
    left = cleanup.remove(BOOTSTRAP, (*cluster.groups,), ("t",), 20)
    assert left == [f"g{n}" for n in range(50)]
    assert 20 <= cluster.now_s < 21


def test_groups_are_deleted_though_topics_cannot_be(monkeypatch) -> None:
    cluster = Cluster(monkeypatch, {"a": []})
    cluster.refuses = "the broker is silent"
    with pytest.raises(ClientError, match="is silent"):
        cleanup.remove(BOOTSTRAP, ("a",), ("t",))
    assert cluster.asked == ["topics", "a"]
