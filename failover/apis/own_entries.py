"""Entries of DescribeConfigs that are no configs: what only a Rollcall node knows, as JSON.

An entry is in an answer only if it is asked for by its name, so no tool that lists configs meets
one. Each is a row of ``OWN_ENTRIES``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from failover.apis.events import EVENTS, events_text
from failover.apis.looks import GROUPS_FROM, LOOK, groups_text, look_text
from failover.apis.stories import STORIES, stories_text
from failover.catalogue.cluster_view import BROKER, GROUP
from failover.catalogue.config_entries import ConfigSource
from protocol.config_rows import ConfigType
from protocol.wire.messages import DescribeConfigsResourceResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from failover.catalogue.cluster_view import ClusterView

TEXT_BYTES_MAX: Final = 32_000
"""The most bytes of a value before version 4 of DescribeConfigs, whose strings are short."""

LONG_BYTES_MAX: Final = 1 << 20
"""The same from version 4 on."""

LONG_SINCE: Final = 4

HEAD_BYTES: Final = 300
"""What a value may have in addition to what fills it."""

ENTRIES_MAX: Final = 4
"""The most such entries of one answer."""

PREFIX: Final = "rollcall."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEntry:
    """An entry of a resource type; ``pattern`` matches its name, which may end with a number.

    ``text`` returns its value: of a view, the resource's name, that number or 0, the most bytes of
    the value, and the time (Unix ms).
    """

    resource_type: int
    pattern: re.Pattern[str]
    source: ConfigSource
    documentation: str
    text: Callable[[ClusterView, str, int, int, int], str]


OWN_ENTRIES: Final = (
    OwnEntry(
        resource_type=GROUP,
        pattern=re.compile(re.escape(STORIES)),
        source=ConfigSource.GROUP,
        documentation="The group's last rebalances, as this node knows them: see rollcall explain.",
        text=lambda view, name, _, room_bytes, now: stories_text(view, name, room_bytes, now),
    ),
    OwnEntry(
        resource_type=GROUP,
        pattern=re.compile(re.escape(EVENTS)),
        source=ConfigSource.GROUP,
        documentation="The last events of the group's members, if this node leads it.",
        text=lambda view, name, _, room_bytes, __: events_text(view, name, room_bytes),
    ),
    OwnEntry(
        resource_type=GROUP,
        pattern=re.compile(re.escape(LOOK)),
        source=ConfigSource.GROUP,
        documentation="The group in the memory of the node that leads it, for the console.",
        text=lambda view, name, _, room_bytes, now: look_text(view, name, room_bytes, now),
    ),
    OwnEntry(
        resource_type=BROKER,
        pattern=re.compile(re.escape(GROUPS_FROM) + r"(0|[1-9][0-9]{0,8})"),
        source=ConfigSource.DEFAULT,
        documentation="Groups in the memory of the node that leads them, for the console.",
        text=lambda view, _, start, room_bytes, __: groups_text(view, start, room_bytes),
    ),
)


class OwnEntries:
    """The own entries of one answer: at most ENTRIES_MAX, and the bytes of one value in all.

    What is beyond is left out.
    """

    def __init__(self, view: ClusterView, api_version: int, now: int) -> None:
        self._view = view
        self._now = now
        most = LONG_BYTES_MAX if api_version >= LONG_SINCE else TEXT_BYTES_MAX
        self._room_bytes = most - HEAD_BYTES
        self._left = ENTRIES_MAX

    def of(
        self, resource_type: int, name: str, wanted: Set[str]
    ) -> Iterable[DescribeConfigsResourceResult]:
        """Return those of the ``wanted`` entries that a resource has; all brokers have none."""
        if not name or self._left <= 0:
            return
        keys = sorted(key for key in wanted if key.startswith(PREFIX))
        for row in OWN_ENTRIES:
            for key in keys if row.resource_type == resource_type else ():
                matched = row.pattern.fullmatch(key)
                if matched is not None and self._left > 0 and self._room_bytes > 0:
                    yield self._entry(row, name, matched)

    def _entry(
        self, row: OwnEntry, name: str, matched: re.Match[str]
    ) -> DescribeConfigsResourceResult:
        number = int(matched[1]) if matched.groups() else 0
        value = row.text(self._view, name, number, self._room_bytes, self._now)
        self._left -= 1
        self._room_bytes -= len(value.encode())
        return DescribeConfigsResourceResult(
            name=matched[0],
            value=value,
            read_only=True,
            config_source=row.source,
            is_sensitive=False,
            synonyms=(),
            config_type=ConfigType.STRING,
            documentation=row.documentation,
        )
