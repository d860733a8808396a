"""Coordinators talk over links of their own, and to nobody else."""

import asyncio
import contextlib
import logging
import os
import socket
from dataclasses import replace
from typing import Any

import pytest

from actors.peers import handshake as peer_handshake
from actors.peers import link as peer_link
from actors.peers import peers
from actors.peers.handshake import (
    LocalNode,
    RefusedError,
    check_proof,
    hello,
    proof,
    read_hello,
)
from actors.peers.peers import Peers
from storage import peer_packing
from storage.batch import Batch
from storage.disk.incarnation import TOKENS_MAX, Incarnation
from storage.messages import Append, Leading, ReplicaKey
from tests.actors.peers.nodes import HOST, SECRET, Node, leading, linked, me, pair, run, seen, some
from tests.waiting import WITHIN_S


def test_every_pair_of_nodes_has_one_link_that_is_used_both_ways() -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [await made.add(me(number)) for number in (2, 0, 1)]
            await linked(*nodes)
            for node in nodes:
                for other in nodes:
                    if other is not node:
                        node.peers.send(other.me.node_id, [leading(node.me.node_id), leading(9)])
            for node in nodes:
                others = sorted({0, 1, 2} - {node.me.node_id})
                await seen(lambda node=node: len(node.said) == 4, "everything has come")
                wanted = [(n, m) for n in others for m in (leading(n), leading(9))]
                assert sorted(node.said, key=str) == sorted(wanted, key=str)
                assert sorted(node.story) == [("up", other) for other in others]

    run(test)


def test_a_peer_that_dies_is_down_at_once_and_up_again_when_it_is_back_elsewhere() -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [await made.add(me(number)) for number in (0, 1)]
            await linked(*nodes)
            nodes[1].peers.close()
            await seen(lambda: nodes[0].story[-1] == ("down", 1), "the peer is down")
            again = await made.add(me(1, directory_id="another"))
            assert again.port != nodes[1].port
            await linked(nodes[0], again)
            assert nodes[0].story == [("up", 1), ("down", 1), ("up", 1)]

    run(test)


def start(node_id: int, *tokens: str) -> LocalNode:
    started = Incarnation(f"directory-{node_id}")
    for token in tokens:
        started = started.next(token)
    return me(node_id, incarnation=started)


@pytest.mark.parametrize("stale", [0, 1], ids=["the caller", "the callee"])
def test_a_copy_of_a_directory_is_told_so_and_never_linked(
    stale: int, caplog: pytest.LogCaptureFixture
) -> None:
    """S1: what the peers have seen of a directory is what a copy of it lacks."""

    async def test() -> None:
        async with some() as made:
            other = 1 - stale
            good = await made.add(start(other, "x"))
            first = await made.add(start(stale, "a", "b"))
            await linked(good, first)
            first.peers.close()
            await seen(lambda: ("down", stale) in good.story, "the first is gone")
            copy = await made.add(start(stale, "a", "c", "d"))
            await seen(lambda: ("stale", other) in copy.story, "the copy is told")
            assert ("up", other) not in copy.story and good.story[-1] == ("down", stale)
            copy.peers.close()
            again = await made.add(start(stale, "a", "b", "e"))
            await linked(good, again)

    run(test)
    assert "its directory is a copy" in caplog.text


def test_a_copy_does_not_cut_off_the_original_that_runs() -> None:
    async def test() -> None:
        async with some() as made:
            good, original = await made.add(me(1)), await made.add(start(0, "a", "b"))
            await linked(good, original)
            copy = await made.add(start(0, "a", "c"))
            await seen(lambda: ("stale", 1) in copy.story, "it is told")
            good.peers.send(0, [leading(5)])
            await seen(lambda: original.said, "the original is still linked")
            assert good.story == [("up", 0)]

    run(test)


def test_nothing_is_said_before_all_peers_have_judged_or_patience_is_over() -> None:
    async def test() -> None:
        async with some() as made:
            first, second = await made.add(me(0)), await made.add(me(1), patience_ms=600_000)
            await linked(first, second)
            first.peers.send(1, [leading(1)])
            second.peers.send(0, [leading(2)])
            await seen(lambda: second.peers._early, "the first has said something")
            assert not second.said, "what comes before is not taken yet"
            third = await made.add(me(2), patience_ms=50)
            await linked(first, second, third)
            await seen(lambda: len(second.story) == 2, "all have judged the second")
            assert not first.said or first.said[0][1] != leading(2)
            assert second.said == [(0, leading(1))], "it is taken when all have judged"
            first.peers.send(1, [leading(3)])
            await seen(lambda: (0, leading(3)) in second.said, "it listens now")
            third.peers.close()
            fourth = await made.add(me(2, directory_id="another"), patience_ms=50)
            first.peers.close()
            second.peers.close()
            await made.add(me(1, directory_id="yet another"))
            await seen(lambda: ("up", 1) in fourth.story, "patience has an end")

    run(test)


def test_the_longest_hello_is_taken() -> None:
    tokens = tuple(f"{number:016x}" for number in range(TOKENS_MAX))
    long = me(1, cluster_id="c" * 64, incarnation=Incarnation("directory-1", 10**15, tokens))
    frame = hello(long, 0, os.urandom(32))
    assert len(frame) <= peer_handshake.HELLO_BYTES_MAX
    assert read_hello(frame, me(0, cluster_id="c" * 64)).incarnation == long.incarnation


def test_a_node_that_announces_its_address_is_called_at_once_during_a_lookup() -> None:
    async def test() -> None:
        async with some() as made:
            other = await made.add(me(1))
            node = Node(me(0))

            async def nobody_answers(_: int) -> tuple[str, int] | None:
                await asyncio.Event().wait()
                return None

            node.peers = Peers(node.me, range(2), node, nobody_answers)
            await node.peers.open(HOST)
            made.nodes.append(node)
            await asyncio.sleep(0)
            node.peers.moved(1, HOST, other.port)
            await linked(node, other)

    run(test)


def test_messages_to_a_node_that_is_not_linked_are_lost() -> None:
    async def test() -> None:
        async with some() as made:
            node = await made.add(me(0))
            node.peers.send(1, [leading(1)])
            other = await made.add(me(1))
            await linked(node, other)
            node.peers.send(1, [leading(2)])
            await seen(lambda: other.said == [(0, leading(2))], "only the second comes")

    run(test)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"secret": b"t" * 32}, "refused a caller at {}: it does not know the cluster's secret"),
        ({"cluster_id": "other"}, "it belongs to cluster 'other' and not to cluster"),
        ({"node_id": 7}, "node 7 does not belong to this cluster"),
    ],
)
def test_a_stranger_is_refused_in_one_sentence(
    changes: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(2))
            stranger = await made.add(replace(me(0), **changes))
            stranger.peers._callers.append(
                asyncio.get_running_loop().create_task(stranger.peers._keep_calling(2))
            )
            await seen(lambda: said.partition("{}")[2] in caplog.text, "it is said")
            assert node.story == stranger.story == []
            assert SECRET.decode() not in caplog.text
            assert "tttt" not in caplog.text

    run(test)


def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 300,
        (5).to_bytes(4, "big") + b"hello",
        (0).to_bytes(4, "big"),
        (2_000).to_bytes(4, "big"),
    ],
)
def test_garbage_from_a_stranger_closes_the_connection(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with pair() as nodes:
            reader, writer = await asyncio.open_connection(HOST, nodes[1].port)
            writer.write(garbage)
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
            assert "refused a caller" in caplog.text
            assert nodes[1].story == [("up", 0)]
            writer.close()

    run(test)


def test_garbage_from_a_peer_closes_its_link_and_it_may_come_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with pair() as nodes:
            nodes[0].peers._open[1].send(b"no messages")
            await seen(lambda: nodes[1].story == [("up", 0), ("down", 0), ("up", 0)], "it is back")
            assert "refused node 0" in caplog.text

    run(test)


def test_who_does_not_say_who_it_is_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "HANDSHAKE_S", 0.05)

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1))
            reader, writer = await asyncio.open_connection(HOST, node.port)
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
            writer.close()

    run(test)


def test_a_slow_peer_is_given_no_more_than_the_buffer_holds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "BUFFER_BYTES_MAX", 100_000)
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with pair() as nodes:
            link = nodes[1].peers._open[0]
            assert link._transport is not None
            link._transport.pause_reading()
            many = [Leading(0, epoch, 1) for epoch in range(1_000_000_000, 1_000_005_000)]
            for _ in range(200):
                nodes[0].peers.send(1, many)
                await asyncio.sleep(0)
            assert nodes[0].peers._open[1].waiting_bytes < 500_000
            assert "node 1 receives too slowly" in caplog.text
            link._transport.resume_reading()
            await seen(lambda: nodes[0].peers._open[1].waiting_bytes == 0, "it has taken all")
            nodes[0].peers.send(1, [leading(3)])
            await seen(lambda: nodes[1].said[-1] == (0, leading(3)), "it goes on")
            assert len(nodes[1].said) < 200 * len(many)

    run(test)


def test_what_a_peer_says_before_the_door_knows_of_it_is_not_lost() -> None:
    """Who leads what is said once, when a link is told: the other end may know it later."""

    async def test() -> None:
        async with pair() as nodes:
            nodes[1].peers._told.discard(0)  # as if it still waited to be judged
            nodes[0].peers.send(1, [leading(1)])
            nodes[0].peers.send(1, [leading(2)])
            await seen(lambda: len(nodes[1].peers._early.get(0, ())) == 2, "they have come")
            assert nodes[1].said == []
            nodes[1].peers._tell_all()
            assert nodes[1].said == [(0, leading(1)), (0, leading(2))]
            assert not nodes[1].peers._early

    run(test)


def append(records_bytes: int) -> Append:
    batch = Batch(0, 1, 0, ((b"key", bytes(records_bytes)),))
    return Append(0, 1, ReplicaKey(0, "directory-0"), 0, 0, (batch,), 0, 0)


def test_a_message_larger_than_a_frame_arrives_and_the_link_stays() -> None:
    """One JoinGroup of 70 MB closed the link that all partitions share, again and again."""

    async def test() -> None:
        async with pair() as nodes:
            large = append(70_000_000)
            nodes[0].peers.send(1, [leading(1), large, leading(2)])
            await seen(lambda: len(nodes[1].said) == 3, "everything has come")
            assert [message for _, message in nodes[1].said] == [leading(1), large, leading(2)]
            assert nodes[0].story == [("up", 1)]
            assert nodes[1].story == [("up", 0)]

    run(test)


def test_a_message_larger_than_any_peer_takes_is_dropped_and_the_link_stays(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_packing, "BODY_BYTES_MAX", 1_000_000)
    caplog.set_level(logging.WARNING, "rollcall.peers")

    async def test() -> None:
        async with pair() as nodes:
            for epoch in range(3):
                nodes[0].peers.send(1, [append(5_000_000), leading(epoch)])
            await seen(lambda: len(nodes[1].said) == 3, "the others have come")
            assert [message for _, message in nodes[1].said] == [leading(n) for n in range(3)]
            assert nodes[1].story == [("up", 0)]
            assert "to node 1 was dropped: the limit is 1000000 bytes" in caplog.text

    run(test)


def test_a_slow_peer_is_sent_no_records_but_still_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_link, "BUFFER_BYTES_MAX", 10_000_000)

    async def test() -> None:
        async with pair() as nodes:
            link = nodes[1].peers._open[0]
            assert link._transport is not None
            link._transport.pause_reading()
            for epoch in range(100):
                nodes[0].peers.send(1, [append(1_000_000), leading(epoch)])
                await asyncio.sleep(0)
            assert nodes[0].peers._open[1].waiting_bytes < 15_000_000
            link._transport.resume_reading()
            await seen(lambda: (0, leading(99)) in nodes[1].said, "the last has come")
            said = [message for _, message in nodes[1].said]
            assert [each for each in said if isinstance(each, Leading)] == [
                leading(epoch) for epoch in range(100)
            ]
            assert len(said) < 150

    run(test)


def test_strangers_do_not_keep_peers_from_linking() -> None:
    """80 connections that say nothing, and come again when they are closed."""

    async def test() -> None:
        async with some() as made:
            high = await made.add(me(1))

            async def pest() -> None:
                while True:
                    with contextlib.suppress(OSError):
                        reader, writer = await asyncio.open_connection(HOST, high.port)
                        try:
                            await reader.read(1)
                        finally:
                            writer.close()

            pests = [asyncio.create_task(pest()) for _ in range(3 * peers.UNIDENTIFIED_MAX)]
            await seen(
                lambda: len(high.peers._unidentified) == peers.UNIDENTIFIED_MAX, "all is taken"
            )
            low = await made.add(me(0))
            await linked(low, high)
            assert len(high.peers._unidentified) <= peers.UNIDENTIFIED_MAX
            for task in pests:
                task.cancel()
            await asyncio.gather(*pests, return_exceptions=True)

    run(test)


def test_a_caller_that_does_not_know_the_secret_has_no_peers_place() -> None:
    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1))
            reader, writer = await asyncio.open_connection(HOST, node.port)
            _send(writer, hello(me(0, secret=b"t" * 32), 1, os.urandom(32)))
            await asyncio.wait_for(reader.read(), WITHIN_S)
            assert not node.peers._unidentified
            assert not node.peers._recognized
            writer.close()

    run(test)


def test_a_cut_link_carries_nothing_and_says_nothing_until_it_is_mended() -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [await made.add(me(number)) for number in (0, 1, 2)]
            await linked(*nodes)
            nodes[0].peers.cut([1])
            nodes[0].peers.send(1, [leading(1)])
            nodes[1].peers.send(0, [leading(2)])
            nodes[0].peers.send(2, [leading(3)])
            nodes[2].peers.send(0, [leading(4)])
            await seen(lambda: nodes[2].said == [(0, leading(3))], "the other link stands")
            await seen(lambda: nodes[0].said == [(2, leading(4))], "the other link stands")
            nodes[0].peers.mend()
            nodes[0].peers.send(1, [leading(5)])
            nodes[1].peers.send(0, [leading(6)])
            await seen(lambda: nodes[1].said == [(0, leading(5))], "it is mended")
            await seen(lambda: (1, leading(6)) in nodes[0].said, "it is mended")
            assert (1, leading(2)) not in nodes[0].said
            assert all(kind == "up" for node in nodes for kind, _ in node.story)

    run(test)


def test_a_proof_holds_for_one_link_and_one_role() -> None:
    first = hello(me(0), 1, os.urandom(32))
    second = hello(me(1), 0, os.urandom(32))
    given = proof(SECRET, peer_handshake.CALLER, first, second)
    check_proof(given, proof(SECRET, peer_handshake.CALLER, first, second))
    for other in (
        proof(SECRET, peer_handshake.CALLEE, first, second),
        proof(SECRET, peer_handshake.CALLER, hello(me(0), 1, os.urandom(32)), second),
        proof(b"t" * 32, peer_handshake.CALLER, first, second),
    ):
        with pytest.raises(RefusedError, match="does not know the cluster's secret"):
            check_proof(given, other)


def test_a_hello_for_another_node_is_refused() -> None:
    with pytest.raises(RefusedError, match="looks for node 2 and this is node 1"):
        read_hello(hello(me(0), 2, os.urandom(32)), me(1))


def test_the_secret_is_not_shown() -> None:
    assert "ssss" not in repr(me(0))


def test_small_messages_are_sent_at_once() -> None:
    async def test() -> None:
        async with pair() as nodes:
            for node in nodes:
                (link,) = node.peers._open.values()
                assert link._transport is not None
                found = link._transport.get_extra_info("socket")
                assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(test)


def test_the_end_of_a_link_is_told_when_it_is_read_and_only_once() -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [await made.add(me(number)) for number in range(3)]
            await linked(*nodes)
            link = nodes[0].peers._open[1]
            nodes[0].story.clear()
            link.eof_received()
            assert nodes[0].story == [("down", 1)], "before clients that ask in the same turn"
            link.close()
            await seen(link.ended.done, "the connection is closed")
            assert nodes[0].story.count(("down", 1)) == 1

    run(test)
