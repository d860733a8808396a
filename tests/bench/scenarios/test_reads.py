"""Whose committed offsets are read when, beside the members, and how many reads are kept."""

import itertools

from bench.scenarios import reads
from bench.scenarios.files import parse
from bench.scenarios.reads import EVERY_MS, GROUP_MS, HURRY_MS, KeptReads, OffsetsRead, ReadTurns


def scenario(groups, duration="1m", partitions=4, protocol="classic"):
    text = f'about = "x"\nduration = "{duration}"\ntopics.t.partitions = {partitions}\n'
    for number in range(groups):
        text += f'[[groups]]\nname = "g{number}"\ntopics = ["t"]\nprotocol = "{protocol}"\n'
    return parse("s", text)


def taken(turns, until_ms, now_ms=0):
    """Return who is read when."""
    found = []
    while (now_ms := now_ms + turns.wait_ms(now_ms)) < until_ms:
        found.append((now_ms, turns.take(now_ms)))
    return found


def test_groups_take_turns_within_the_rates():
    assert taken(ReadTurns(scenario(1)), 3_000) == [(0, "g0"), (1_000, "g0"), (2_000, "g0")]
    many = taken(ReadTurns(scenario(40)), 10_000)
    assert [group for _, group in many[:41]] == [*(f"g{number}" for number in range(40)), "g0"]
    for groups in (2, 3, 7, 40):
        times = [at_ms for at_ms, _ in taken(ReadTurns(scenario(groups)), 20_000)]
        pauses = [later - at_ms for at_ms, later in itertools.pairwise(times)]
        assert min(pauses) >= EVERY_MS
        assert len(times) <= 20_000 // EVERY_MS
        assert len(times) // groups <= 20_000 // (GROUP_MS - EVERY_MS)


def test_share_groups_have_no_offsets():
    assert ReadTurns(scenario(2, protocol="share")).wait_ms(0) is None


def test_after_a_fault_the_next_read_comes_at_once_and_all_groups_soon():
    turns = ReadTurns(scenario(20, duration="24h"))
    assert taken(turns, 5_000) == [(0, "g0")], "the reads last for the whole day"
    turns.hurry(5_000)
    hurried = taken(turns, 5_000 + HURRY_MS, 5_000)
    assert hurried[0] == (5_000, "g1")
    assert len(hurried) == HURRY_MS // EVERY_MS
    slow = [at_ms for at_ms, _ in taken(turns, 60_000, hurried[-1][0])]
    assert slow[1] - slow[0] == 8_640
    turns.hurry(slow[-1])
    assert turns.wait_ms(slow[-1]) == EVERY_MS, "two faults at once do not exceed the rate"


def test_large_groups_are_read_less_often():
    turns = ReadTurns(scenario(2, duration="10m", partitions=10_000))
    assert len(taken(turns, 600_000)) == 100


def test_only_so_many_reads_are_kept_and_those_of_the_end(monkeypatch):
    def read(number):
        return OffsetsRead("a", number, number + 1, {("t", 0): number, ("t", 1): number})

    for name, most, kept in (("READS_MAX", 3, 3), ("OFFSETS_MAX", 3, 2)):
        with monkeypatch.context() as patch:
            patch.setattr(reads, name, most)
            found = KeptReads()
            for number in range(9):
                found.add(read(number))
            assert found.are_full
            found.add_last([read(100)])
        assert found.all() == (*map(read, range(kept)), read(100))
