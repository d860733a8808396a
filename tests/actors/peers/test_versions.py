"""Two versions of Rollcall in one cluster: their links use the newest version that both speak."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import fields, replace

import msgpack
import pytest

from actors.peers import versions as peer_versions
from actors.peers.handshake import (
    CALLEE,
    CALLER,
    LocalNode,
    RefusedError,
    _signature,
    check_proof,
    hello,
    proof,
    read_hello,
)
from actors.peers.versions import (
    PEER_VERSIONS,
    PeerVersion,
    VersionRange,
    disagreement,
    newest_common,
)
from storage.messages import SoftStateTold
from storage.peer_frames import KINDS
from storage.peer_packing import LENGTH_BYTES
from tests.actors.peers.memory_links import End, frames_in, pass_on
from tests.actors.peers.nodes import HOST, SECRET, leading, linked, me, run, seen, some
from tests.waiting import WITHIN_S

LAYOUT = {
    5: {
        "Vote": "partition epoch candidate last_epoch end_offset pre_vote transfer",
        "Voted": "partition epoch voter granted pre_vote",
        "Append": (
            "partition epoch leader previous_offset previous_epoch batches high_watermark sent_ms"
        ),
        "Appended": "partition epoch replica accepted end_offset last_epoch sent_ms",
        "InstallSnapshot": (
            "partition epoch leader offset last_epoch position records is_last voters sent_ms"
        ),
        "SnapshotInstalled": "partition epoch replica offset next_position sent_ms",
        "TransferLeadership": "partition epoch leader",
        "Joining": "partition epoch replica",
        "Leading": "partition epoch node_id",
        "ClockShows": "partition epoch node_id wall_ms",
    },
}
LAYOUT[6] = {**LAYOUT[5], "SoftStateTold": "partition epoch node_id data"}
"""The messages of each version and their fields, which are in this order on the wire."""


def rows(oldest: int, newest: int) -> tuple[PeerVersion, ...]:
    """Versions as a program of another time has them."""
    return tuple(
        PeerVersion(number=number, kinds=len(KINDS), about="")
        for number in range(oldest, newest + 1)
    )


OLD, BOTH, NEW = rows(5, 5), rows(5, 6), rows(6, 7)


def test_the_newest_row_has_the_messages_of_this_program() -> None:
    """If this fails: add a row for the next version, and a layout; the ones before stay."""
    newest = PEER_VERSIONS[-1]
    found = {kind.__name__: " ".join(field.name for field in fields(kind)) for kind in KINDS}
    assert found == LAYOUT[newest.number]
    assert newest.has_all_kinds
    for row in PEER_VERSIONS:
        assert list(LAYOUT[row.number]) == [kind.__name__ for kind in KINDS[: row.kinds]]


def test_rows_have_no_gaps_and_say_what_differs() -> None:
    numbers = [row.number for row in PEER_VERSIONS]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert all(row.about for row in PEER_VERSIONS)


@pytest.mark.parametrize(
    ("ours", "theirs", "used"),
    [
        (OLD, OLD, 5),
        (OLD, BOTH, 5),
        (BOTH, BOTH, 6),
        (BOTH, NEW, 6),
        (NEW, NEW, 7),
        (OLD, NEW, None),
        (rows(5, 9), rows(3, 7), 7),
    ],
)
def test_both_ends_choose_the_newest_common_version(
    ours: tuple[PeerVersion, ...], theirs: tuple[PeerVersion, ...], used: int | None
) -> None:
    for mine, other in ((ours, theirs), (theirs, ours)):
        found = newest_common(mine, VersionRange.of(other))
        assert (found and found.number) == used


def test_a_link_without_a_version_is_refused_with_what_to_do() -> None:
    assert disagreement(OLD, VersionRange(6, 7)) == (
        "it speaks versions 6 to 7 of the peer protocol, and we speak version 5: "
        "install a newer version of Rollcall here, or an older one there"
    )
    assert disagreement(NEW, VersionRange(5, 5)) == (
        "it speaks version 5 of the peer protocol, and we speak versions 6 to 7: "
        "install an older version of Rollcall here, or a newer one there"
    )


def test_a_cluster_of_three_versions_has_links_of_each_pairs_version() -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [
                await made.add(me(number, versions=spoken))
                for number, spoken in enumerate((OLD, BOTH, rows(5, 7)))
            ]
            await linked(*nodes)
            used = [node.peers.versions for node in nodes]
            assert used == [{1: 5, 2: 5}, {0: 5, 2: 6}, {0: 5, 1: 6}]
            for node in nodes:
                for other in nodes:
                    node.peers.send(other.me.node_id, [leading(node.me.node_id)])
            await seen(lambda: all(len(node.said) == 2 for node in nodes), "all hear all")

    run(test)


@pytest.mark.parametrize("caller", [OLD, NEW], ids=["the older calls", "the newer calls"])
def test_both_ends_say_that_they_have_no_common_version(
    caller: tuple[PeerVersion, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rollcall.peers")
    callee = NEW if caller is OLD else OLD

    async def test() -> None:
        async with some() as made:
            nodes = [
                await made.add(me(number, versions=one))
                for number, one in enumerate((caller, callee))
            ]
            for mine, theirs in ((caller, callee), (callee, caller)):
                said = disagreement(mine, VersionRange.of(theirs))
                await seen(lambda said=said: said in caplog.text, "it is said")
            assert [node.story for node in nodes] == [[], []]

    run(test)


def test_a_program_that_names_one_version_only_is_refused_and_told_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Version 4 has no range: what it reads of our hello is the newest version."""
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1, versions=OLD))
            reader, writer = await asyncio.open_connection(HOST, node.port)
            before = msgpack.packb([b"rollcall-peer", 4, "cluster", 0, "directory-0", 1, b"n" * 32])
            writer.write(len(before).to_bytes(4, "big") + before)
            answer = await asyncio.wait_for(reader.read(), WITHIN_S)
            assert msgpack.unpackb(answer[4:])[:2] == [b"rollcall-peer", 5]
            await seen(lambda: disagreement(OLD, VersionRange(4, 4)) in caplog.text, "it is said")
            writer.close()

    run(test)


def with_fields(frame: bytes, me: LocalNode, *fields: object) -> bytes:
    """A hello with fields that a later version has added, signed as it signs."""
    known = (*msgpack.unpackb(frame, use_list=False)[:-1], *fields)
    packed: bytes = msgpack.packb((*known, _signature(me.secret, known)))
    return packed


def test_fields_that_a_later_version_adds_to_a_hello_are_not_read_but_signed() -> None:
    newer = me(1, versions=BOTH)
    frame = with_fields(hello(newer, 0, os.urandom(32)), newer, {"more": [1]}, "and more")
    found = read_hello(frame, me(0, versions=OLD))
    assert (found.node_id, found.version.number) == (1, 5)
    forged = msgpack.unpackb(frame)
    forged[-2] = "and less"
    with pytest.raises(RefusedError, match="does not know the cluster's secret"):
        read_hello(msgpack.packb(forged), me(0, versions=OLD))


@pytest.mark.parametrize("rest", [[], [None], ["cluster"], [5], [5, "cluster"]])
def test_a_hello_that_ends_early_is_refused(rest: list[object]) -> None:
    with pytest.raises(RefusedError, match="its hello is incomplete"):
        read_hello(msgpack.packb([b"rollcall-peer", 5, *rest]), me(0, versions=OLD))


async def handshake(forge: Callable[[bytes, LocalNode], bytes], forged: int) -> tuple[End, End]:
    """Two ends after a handshake in which the hello of one of them was replaced on its way."""
    pair = End(0, calls=1, versions=BOTH), End(1, versions=BOTH)
    for number, (sender, receiver) in enumerate((pair, pair[::-1])):
        sent = sender.wire.take()
        if number == forged and sent:
            (frame,) = frames_in(sent)
            made = forge(frame[LENGTH_BYTES:], sender.owner.me)
            sent = len(made).to_bytes(LENGTH_BYTES, "big") + made
        receiver.link.data_received(sent)
    pass_on(*pair)
    for end in pair:
        end.close()
    return pair


def as_it_was(frame: bytes, sender: LocalNode) -> bytes:
    return frame


def unsigned(frame: bytes, sender: LocalNode) -> bytes:
    """The newest version in the hello is the older one."""
    magic, newest, *rest = msgpack.unpackb(frame)
    packed: bytes = msgpack.packb([magic, newest - 1, *rest])
    return packed


def signed(frame: bytes, sender: LocalNode) -> bytes:
    """What the node itself sent when it ran the older version, though with this nonce."""
    nonce = msgpack.unpackb(frame)[7]
    return hello(replace(sender, versions=OLD), 1 - sender.node_id, nonce)


@pytest.mark.parametrize("forged", [0, 1], ids=["the caller's hello", "the callee's hello"])
@pytest.mark.parametrize("forge", [as_it_was, unsigned, signed])
def test_who_is_in_between_cannot_make_both_use_an_older_version(
    forge: Callable[[bytes, LocalNode], bytes], forged: int
) -> None:
    async def test() -> None:
        pair = await handshake(forge, forged)
        refusals = [why for end in pair for why in end.owner.refusals]
        if forge is as_it_was:
            assert all(end.link.was_open and end.link.version.number == 6 for end in pair)
            assert not refusals
        else:
            assert not any(end.link.was_open for end in pair)
            assert "it does not know the cluster's secret" in refusals

    run(test)


def test_ends_that_disagree_on_the_version_have_other_keys() -> None:
    async def test() -> None:
        caller, callee = End(0, calls=1, versions=BOTH), End(1, versions=BOTH)
        callee.link.data_received(caller.wire.take())
        callee.link.version = OLD[0]
        pass_on(caller, callee)
        assert not caller.link.was_open and not callee.link.was_open
        caller.close()
        callee.close()

    run(test)


def test_a_proof_covers_the_versions_of_both_hellos() -> None:
    nonce = os.urandom(32)
    mine, theirs = hello(me(0, versions=BOTH), 1, nonce), hello(me(1, versions=BOTH), 0, nonce)
    given = proof(SECRET, CALLER, mine, theirs)
    for other in (
        proof(SECRET, CALLER, hello(me(0, versions=OLD), 1, nonce), theirs),
        proof(SECRET, CALLER, mine, hello(me(1, versions=OLD), 0, nonce)),
        proof(SECRET, CALLEE, mine, theirs),
    ):
        with pytest.raises(RefusedError):
            check_proof(given, other)


def test_messages_that_the_version_of_a_link_lacks_are_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last kind is new in version 6, say."""
    older = (PeerVersion(number=5, kinds=len(KINDS) - 1, about=""),)
    assert KINDS[-1] is SoftStateTold
    assert peer_versions.KINDS is KINDS

    async def test() -> None:
        async with some() as made:
            newer = [
                await made.add(me(number, versions=(*older, *rows(6, 6)))) for number in (0, 1)
            ]
            old = await made.add(me(2, versions=older))
            await linked(*newer, old)
            sent = [leading(1), SoftStateTold(1, 0, 0, b"x"), leading(2)]
            for node in (newer[1], old):
                newer[0].peers.send(node.me.node_id, sent)
            await seen(lambda: len(newer[1].said) == 3, "the newer one gets all")
            await seen(lambda: len(old.said) == 2, "the older one gets what it knows")
            assert old.said == [(0, leading(1)), (0, leading(2))]

    run(test)
