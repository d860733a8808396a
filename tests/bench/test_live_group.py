"""``rollcall rehearse --from-group``: the scenario of a group that runs."""

from dataclasses import replace

import pytest

from actors.cli.descriptions import GroupDescription, MemberDescription
from bench.live_group import written
from bench.rehearse import main
from bench.scenarios.files import parse
from bench.scenarios.scenario import Group, WorkloadKind
from bench.scenarios.values import Protocol
from failover.drills.checked import DrillError
from protocol.members.assignors import ClassicAssignor
from tests.bench.test_drills import WORKLOAD, stable


def member(instance_id: str | None = None, number: int = 0) -> MemberDescription:
    return MemberDescription(
        member_id=f"m-{number}",
        instance_id=instance_id,
        client_id="c",
        host="/127.0.0.1",
        assigned=(("orders", number),),
        is_upgraded=None,
    )


def described(
    *instance_ids: str | None, group_id: str = "orders", kind: str = "classic", assignor: str = ""
) -> GroupDescription:
    return GroupDescription(
        group_id=group_id,
        group_type=kind,
        state="Stable",
        assignor=assignor,
        members=tuple(member(each, number) for number, each in enumerate(instance_ids)),
    )


def read(group: GroupDescription, **partitions: int) -> tuple[Group, str]:
    text = written(group, partitions or {"orders": 6})
    return parse("s", text).groups[0], text


def test_members_protocol_topics_and_partitions_are_those_of_the_group() -> None:
    text = written(described(None, None, kind="consumer"), {"orders": 6, "audit": 2})
    made = parse("s", text)
    (group,) = made.groups
    assert (group.name, group.protocol, group.replicas) == ("orders", Protocol.CONSUMER, 2)
    assert made.partitions_of() == {"orders": 6, "audit": 2}
    assert group.topics == ("orders", "audit")
    assert "session_timeout_ms" not in text, "it is for classic members"


@pytest.mark.parametrize(
    ("instance_ids", "is_static", "workload"),
    [
        ((None, None), False, WorkloadKind.DEPLOYMENT),
        (("orders-0", "orders-1"), True, WorkloadKind.STATEFUL_SET),
        (("orders-5d9c-x2k4b", "orders-5d9c-pq7vz"), True, WorkloadKind.DEPLOYMENT),
        (("orders-0", None), False, WorkloadKind.DEPLOYMENT),
    ],
)
def test_the_workload_is_guessed_from_the_instance_ids(
    instance_ids: tuple[str | None, ...], is_static: bool, workload: WorkloadKind
) -> None:
    group, text = read(described(*instance_ids))
    assert (group.static, group.workload) == (is_static, workload)
    assert ("1 of 2 members have an instance id" in text) == (instance_ids[-1] is None) * (
        instance_ids[0] is not None
    )


@pytest.mark.parametrize(("members", "duration_s"), [(6, 300), (60, 750), (9_000, 86_400)])
def test_a_stateful_set_has_time_to_replace_its_pods_one_after_the_other(
    members: int, duration_s: int
) -> None:
    text = written(described(*(f"orders-{number}" for number in range(members))), {"orders": 6})
    assert parse("s", text).duration == duration_s * 1_000


@pytest.mark.parametrize("assignor", ClassicAssignor)
def test_members_of_a_classic_group_keep_their_assignor(assignor: ClassicAssignor) -> None:
    group, text = read(described(None, assignor=assignor))
    assert group.assignor is assignor
    assert "they use" not in text


def test_an_assignor_that_is_not_rehearsed_is_said() -> None:
    group, text = read(described(None, assignor="my own"))
    assert group.assignor is ClassicAssignor.RANGE
    assert "# they use my own" in text
    group, text = read(described(None, kind="consumer", assignor="uniform"))
    assert group.assignor is None
    assert "uniform" not in text


def test_names_and_texts_of_clients_stay_within_their_lines() -> None:
    group, text = read(described("a\n[x]", group_id='or"ders\n# ü', assignor="\n[x]\n"))
    assert group.name == "or-ders----"
    assert "[x]" not in text.splitlines()


@pytest.mark.parametrize(
    ("group", "partitions", "sentence"),
    [
        (described(), {"orders": 6}, "Group orders has no members now"),
        (described(None), {}, "Nothing tells which topics group orders reads."),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_sentence(
    group: GroupDescription, partitions: dict[str, int], sentence: str
) -> None:
    with pytest.raises(DrillError) as refused:
        written(group, partitions)
    assert sentence in str(refused.value)


def test_what_the_cluster_does_not_show_is_said() -> None:
    text = written(described(None), {"orders": 6}, ["hidden", "secret"])
    assert parse("s", text).groups[0].topics == ("orders",)
    for name in ("hidden", "secret"):
        assert f"# The cluster does not show the topic {name}, so it is left out.\n" in text
    many = written(described(None), {"orders": 6}, [f"t{number}" for number in range(23)])
    assert "# So are 3 others.\n" in many
    with pytest.raises(DrillError, match=r"shows no topic that group orders reads: a, b\."):
        written(described(None), {}, ["a", "b"])


def test_topics_with_long_names_are_shortened_and_stay_apart() -> None:
    long = ["t" * 249, "t" * 248 + "u", "t" * 101]
    group, text = read(described(None), **dict.fromkeys(long, 2))
    assert len(set(group.topics)) == 3
    assert all(len(name) == 100 for name in group.topics)
    assert all(f"]  # {name}\n" in text for name in long)


@pytest.mark.parametrize(
    ("racks", "told"),
    [
        (("a", "b", "a", "b"), ("a", "b")),
        (("a", "a", "a"), ("a",)),
        (("a", "b", "b"), ("a", "b", "b")),
        (("a", "b c"), ("a", "b-c")),
        ((None, None), ()),
        (("a", None), ()),
        (tuple(f"r{number}" for number in range(1_001)), ()),
    ],
)
def test_racks_are_those_of_the_members(
    racks: tuple[str | None, ...], told: tuple[str, ...]
) -> None:
    group, text = read(on_racks(described(*(None for _ in racks), kind="consumer"), racks))
    assert group.racks == told
    assert ("1 of 2 members tell a rack" in text) == (racks == ("a", None))


def test_racks_of_a_stateful_set_are_in_the_order_of_its_pods() -> None:
    names = [f"orders-{number}" for number in (10, 2, 1, 0)]
    group, _ = read(on_racks(described(*names, kind="consumer"), ("d", "c", "b", "a")))
    assert group.racks == ("a", "b", "c", "d")


def on_racks(group: GroupDescription, racks: tuple[str | None, ...]) -> GroupDescription:
    members = zip(group.members, racks, strict=True)
    return replace(group, members=tuple(replace(each, rack_id=rack) for each, rack in members))


def test_groups_of_every_type_are_imported_from_a_live_cluster(
    node, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = ":".join(map(str, node.address))
    types = WORKLOAD.group_types("live")
    with stable([node.address], WORKLOAD, "live"):
        for group_id in WORKLOAD.group_ids("live"):
            assert main(["--from-group", group_id, "--bootstrap", bootstrap]) == 0
            made = parse("s", capsys.readouterr().out)
            (group,) = made.groups
            assert (group.name, group.topics) == (group_id, (group_id,))
            assert group.protocol == types.get(group_id, "classic")
            assert group.replicas == WORKLOAD.members // WORKLOAD.groups
            assert made.partitions_of() == {group_id: WORKLOAD.partitions_each}
        assert main(["--from-group", "nobody", "--bootstrap", bootstrap]) == 2
        assert "the group does not exist" in capsys.readouterr().err


def test_mistakes_of_the_command_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (["--from-group", "g"], 2), (["--from-group", "g", "--bootstrap", "host"], 2)
    refused = (["--from-group", "g", "--bootstrap", "127.0.0.1:1"], 2)
    for words, code in (*asked, refused):
        assert main(words) == code
        said = capsys.readouterr().err
        assert said.startswith("rollcall: ") and said.count("\n") == 1
