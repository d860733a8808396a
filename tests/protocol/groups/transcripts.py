"""What the golden transcripts of all group types have in common; see ``tests/transcripts``.

Member ids are written as ``A#1``: the first id that client A was given.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.facts import MemberEvent
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.conversation import GROUP
from tests.transcript_player import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Command = Callable[[Any, list[str], dict[str, str]], None]

ARGUMENTS: Mapping[str, tuple[str, Callable[[Any, str], Any]]] = {
    "assignor": ("server_assignor", lambda _, text: text),
    "generation": ("generation", lambda _, text: int(text)),
    "group": ("group", lambda _, text: text),
    "id": ("member_id", lambda stage, text: stage.member_id(text)),
    "instance": ("instance", lambda _, text: text or None),
    "protocol": ("protocol", lambda _, text: text),
    "protocol_name": ("protocol_name", lambda _, text: text or None),
    "protocol_type": ("protocol_type", lambda _, text: text or None),
    "protocols": ("protocols", lambda _, text: [each for each in text.split(",") if each]),
    "reason": ("reason", lambda _, text: text),
    "rebalance": ("rebalance_ms", lambda _, text: milliseconds(text)),
    "regex": ("regex", lambda _, text: text),
    "session": ("session_ms", lambda _, text: milliseconds(text)),
    "topics": ("topics", lambda _, text: tuple(text.split(",")) if text else None),
    "type": ("protocol_type", lambda _, text: text),
    "version": ("version", lambda _, text: int(text)),
}
"""What an option of a command is called by the conversation, and how it is read."""


class Stage:
    """The conversation so far, and the names of the ids in it.

    A command's words without ``=`` are names, mostly of clients; those with one are its options.
    """

    tells_waiting: ClassVar[bool] = True
    """Whether it is told who waits for an answer."""

    def __init__(self) -> None:
        self._begin({})

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""
        command, *words = shlex.split(line)
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        self.commands[command](self, names, options)
        return self._news()

    # -- what each type says ---------------------------------------------------------------------

    def new_talk(self, overrides: dict[str, str]) -> Any:
        """A conversation with a shard that has these broker configs."""
        raise NotImplementedError

    def clients(self) -> Iterable[Any]:
        """Every client that has a member id."""
        return self.talk.clients.values()

    def answer(self, message: Any) -> str:
        """An answer in one line, or with more lines for its members."""
        raise NotImplementedError

    def record(self, record: Any) -> str:
        """A record in one line."""
        raise NotImplementedError

    def fact(self, fact: Any) -> str:
        """A fact in one line; none if it is empty."""
        raise NotImplementedError

    # -- commands --------------------------------------------------------------------------------

    def configs(self, _: list[str], options: dict[str, str]) -> None:
        self._begin(options)

    def _begin(self, overrides: dict[str, str]) -> None:
        self.talk = self.new_talk(overrides)
        self.labels: dict[str, str] = {}
        self.answered = self.written = self.told = self.asked = 0

    def advance(self, names: list[str], _: dict[str, str]) -> None:
        self.talk.advance(milliseconds(names[0]))

    def failover(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.failover()

    def group_configs(self, _: list[str], options: dict[str, str]) -> None:
        self.talk.shard.group_configs = {GROUP: options}

    commands: ClassVar[Mapping[str, Command]] = {
        "advance": advance,
        "configs": configs,
        "failover": failover,
        "group_configs": group_configs,
    }

    def arguments(self, options: Mapping[str, str]) -> dict[str, Any]:
        """The options of a command as the conversation takes them."""
        rows = [(*ARGUMENTS[key], text) for key, text in options.items()]
        return {name: read(self, text) for name, read, text in rows}

    def member_id(self, label: str) -> str:
        """The member id of a label; anything else stands for itself."""
        known = {label: member_id for member_id, label in self.labels.items()}
        return known.get(label, "" if label == "none" else label)

    # -- telling ---------------------------------------------------------------------------------

    def _news(self) -> list[str]:
        talk = self.talk
        answered = list(talk.replies)[self.answered :]
        records, facts = talk.records[self.written :], talk.facts[self.told :]
        asked = range(self.asked + 1, talk.tickets + 1) if self.tells_waiting else ()
        self.answered += len(answered)
        self.written += len(records)
        self.told += len(facts)
        self.asked = talk.tickets
        self._learn(facts)
        lines = [f"{talk.asked[each]} waits" for each in asked if each in talk.parked]
        lines += [f"{talk.asked[each]} <- {self.answer(talk.answer(each))}" for each in answered]
        lines += [f"  record {self.record(each)}" for each in records]
        lines += [f"  fact {text}" for text in map(self.fact, facts) if text]
        return lines or ["nothing"]

    def _learn(self, facts: Iterable[Any]) -> None:
        """Label the ids that members were given since: ``A#1`` is the first one of client A."""
        for fact in facts:
            if isinstance(fact, MemberEvent) and fact.kind in ("joined", "replaced"):
                self._add_label(fact.member_id, fact.client_id)
        for client in self.clients():
            if client.member_id:
                self._add_label(client.member_id, client.name)

    def _add_label(self, member_id: str, name: str) -> None:
        if member_id not in self.labels:
            count = sum(label.startswith(f"{name}#") for label in self.labels.values())
            self.labels[member_id] = f"{name}#{count + 1}"

    def label(self, member_id: str) -> str:
        """The label of a member id."""
        return self.labels.get(member_id, member_id or "none")


def code(error: int) -> str:
    """An error as transcripts write it."""
    return ErrorCode(error).name.upper()


def each(name: str) -> Command:
    """A command that is the same method of the talk, for each client that is named."""

    def command(stage: Stage, names: list[str], options: dict[str, str]) -> None:
        for client in names:
            getattr(stage.talk, name)(client, **stage.arguments(options))

    return command
