"""Write a recording to a file and read it: one msgpack map with a summary for people, and the ring.

It contains no secrets: configs of type PASSWORD are left out. It does contain what clients sent and
received: client ids, addresses, group ids, metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from failover.recording.pickles import (
    SHARED,
    NotReadableError,
    pack,
    pack_shared,
    unpack,
    unpack_shared,
    without_secrets,
)
from failover.recording.tape import Outcome, Step, What
from protocol.groups.group_types import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.recording.recorder import Recording
    from protocol.config import Configs
    from protocol.groups.effects import Ticket

FORMAT: Final = 1
NO_LIMIT: Final = 1 << 62

PLAIN: Final = frozenset({What.REQUEST, What.FORGET, What.RESTORED, What.FORGIVE, What.WALL})
"""The steps whose data msgpack can write; the data of others is packed (:mod:`.pickles`)."""


class About(NamedTuple):
    """Where and when a recording was made; ``version`` is Rollcall's, ``at_ms`` Unix time."""

    version: str
    cluster_id: str
    node_id: int
    at_ms: int


class Dump(NamedTuple):
    """A recording that was read from a file; ``configs`` are the broker configs that were set."""

    about: About
    partition: int
    why: str
    configs: Mapping[str, str]
    state: bytes
    shared: Sequence[object]
    steps: Sequence[Step]
    answers: Mapping[Ticket, bytes]


def write_dump(recordings: Sequence[Recording], configs: Configs, about: About) -> bytes:
    """Return the bytes of a file with these recordings of one node; files can be concatenated."""
    dumped = [_written(each) for each in recordings]
    packed: bytes = msgpack.packb(
        {
            "rollcall": FORMAT,
            **about._asdict(),
            "configs": without_secrets(configs),
            "partitions": dumped,
        }
    )
    return packed


def read_dump(data: bytes) -> list[Dump]:
    """Return the recordings of a file. Raises :class:`NotReadableError`."""
    dumps: list[Dump] = []
    try:
        unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=max(len(data), 1))
        unpacker.feed(data)
        for whole in unpacker:
            if whole["rollcall"] != FORMAT:
                raise NotReadableError(f"its format is {whole['rollcall']} and not {FORMAT}")
            about = About(*[whole[name] for name in About._fields])
            dumps += [_read(each, about, whole["configs"]) for each in whole["partitions"]]
        if unpacker.tell() < len(data) or not data:
            raise NotReadableError("it ends before its end")
    except NotReadableError:
        raise
    except Exception as error:
        raise NotReadableError(f"it is no recording ({type(error).__name__}: {error})") from error
    return dumps


def _written(recording: Recording) -> dict[str, Any]:
    shared = list(recording.shared)
    steps = [_step_written(Step(*entry), shared) for entry in recording.entries]
    tickets = {
        entry[2][0]
        for entry in recording.entries
        if entry[0] == What.REQUEST and entry[2][0] in recording.answers
    }
    return {
        "partition": recording.partition,
        "why": recording.why,
        "state": recording.state,
        "steps": steps,
        "shared": [pack_shared(each) for each in shared],
        "answers": {ticket: recording.answers[ticket] for ticket in sorted(tickets)},
    }


def _step_written(step: Step, shared: list[object]) -> tuple[Any, ...]:
    data = step.data if step.what in PLAIN else pack(step.data, shared, NO_LIMIT)
    return (step.what, step.now, data, step.sessions, step.outcome)


def _read(written: dict[str, Any], about: About, configs: dict[str, str]) -> Dump:
    shared = [unpack_shared(each, TABLES) for each in written["shared"]]
    assert all(isinstance(each, SHARED) for each in shared)
    return Dump(
        about=about,
        partition=written["partition"],
        why=written["why"],
        configs=configs,
        state=written["state"],
        shared=shared,
        steps=[_step_read(each, shared) for each in written["steps"]],
        answers=written["answers"],
    )


def _step_read(written: Sequence[Any], shared: Sequence[object]) -> Step:
    what, now, data, sessions, outcome = written
    if what not in PLAIN:
        data = unpack(data, shared)
    if outcome is not None:
        records, tickets, *failure = outcome
        outcome = Outcome(records, tuple(tickets), *failure)
    return Step(what, now, data, tuple(sessions), outcome)
