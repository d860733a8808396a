"""A failover can be read in the log: who leads what, in which epoch, since when and why."""

import pytest

from actors.logs.leader_changes import (
    BEGINNINGS,
    CHANGES,
    ENDS,
    LINES_MAX,
    ChangeReason,
    LeaderChange,
    leader_messages,
)

AT_MS = 1_795_512_058_123


def change(partition: int, **fields: object) -> LeaderChange:
    known: dict[str, object] = {
        "epoch": 5,
        "at_ms": AT_MS,
        "begins": True,
        "reason": ChangeReason.UNREACHABLE,
        "node": 1,
    }
    return LeaderChange(partition=partition, **(known | fields))  # type: ignore[arg-type]


def test_every_reason_has_one_sentence() -> None:
    assert BEGINNINGS.keys() | ENDS.keys() == set(ChangeReason)
    assert not BEGINNINGS.keys() & ENDS.keys()


def test_a_change_says_partition_epoch_time_and_reason() -> None:
    end = change(-1, begins=False, reason=ChangeReason.MOVED, node=2, leader=2)
    assert list(leader_messages([change(7), end])) == [
        (
            "this node leads partition 7 (epoch 5) since 2026-11-24T09:20:58.123Z, as node 1, the"
            " leader before, cannot be reached",
            {"partition": "partition 7", "epoch": 5, CHANGES: (change(7),)},
        ),
        (
            "this node no longer leads the catalogue (epoch 5) since 2026-11-24T09:20:58.123Z, as"
            " the controller asked this node to hand over to node 2; node 2 leads now",
            {"partition": "the catalogue", "epoch": 5, CHANGES: (end,)},
        ),
    ]


def test_many_partitions_that_change_alike_share_a_line() -> None:
    changes = [change(number) for number in range(50)]
    ((line, fields),) = leader_messages(changes)
    assert line.startswith(
        "this node leads 50 partitions since 2026-11-24T09:20:58.123Z, as node 1, the leader"
        " before, cannot be reached: partition 0 (epoch 5), partition 1 (epoch 5), "
    )
    assert line.endswith("partition 11 (epoch 5) and 38 more")
    assert fields == {CHANGES: tuple(changes)}


@pytest.mark.parametrize("count", [LINES_MAX, 50, 5_000])
def test_however_different_the_reasons_the_lines_are_bounded(count: int) -> None:
    apart = [change(number, node=number) for number in range(count)]
    told = list(leader_messages(apart))
    assert [each for _, fields in told for each in fields[CHANGES]] == apart, "none is left out"
    lines = [line for line, _ in told]
    assert len(lines) == min(count, LINES_MAX + 1)
    if count > LINES_MAX:
        assert lines[-1] == (
            f"{count - LINES_MAX} more lines about changes of leaders were left out"
        )
