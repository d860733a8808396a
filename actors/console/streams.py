"""Streams of events: what changed on the page that a browser shows, once a second at most.

Nothing is queued for a browser: it is sent what has changed since it was last sent something. One
that does not read keeps its stream waiting, until the server's patience ends (``server.py``).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse

from actors.console import views
from actors.console.rendered import RenderedSections
from actors.console.selection import GroupSelection
from actors.console.source import SourceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from actors.console.hub import Hub

    Look = Callable[[Mapping[str, str]], Awaitable["dict[str, str] | None"]]

LOOK_S: Final = 1.0
"""How often it is looked whether there is something new for a browser."""

STREAMS_MAX: Final = 64
"""Open streams; more browsers see their pages, and must reload them."""

BEAT_S: Final = 15.0
"""After this long without a change a comment is sent, so that nothing between closes the stream."""

LIFE_S: Final = 3_600.0
"""After this a browser opens its stream again."""


class TooManyStreamsError(Exception):
    """There are as many streams as there may be."""


class Streams:
    """The open streams of one console."""

    def __init__(self, hub: Hub, pace_s: float = LOOK_S) -> None:
        self.count = 0
        self._hub = hub
        self._pace_s = pace_s
        self._rendered = RenderedSections(hub.now)
        self._closing = asyncio.Event()
        self._looks: dict[str, Look] = {
            "groups": self._groups,
            "group": self._group,
            "cluster": self._cluster,
        }

    def close(self) -> None:
        """End all streams."""
        self._closing.set()

    def open(self, request: Request) -> _Stream:
        """Return a stream; raises :class:`TooManyStreamsError`, or KeyError for a page."""
        query = dict(request.query_params)
        look = self._looks[query.get("page", "")]
        if self.count >= STREAMS_MAX or self._closing.is_set():
            raise TooManyStreamsError(f"{self.count} browsers look already.")
        return _Stream(self, self._events(look, query))

    async def group(self, group_id: str) -> dict[str, str] | None:
        """Return the page of a group; None: there is none."""
        found = await self._hub.group(group_id)
        if found is None:
            return None
        can_remove = self._hub.source.may_act
        return self._rendered.of(
            ("group", group_id),
            found,
            lambda each: views.group_sections(each, self._hub.now(), can_remove=can_remove),
        )

    async def cluster(self) -> dict[str, str]:
        """Return the page of the cluster."""
        found = await self._hub.cluster()
        may_drill = self._hub.source.may_drill
        return views.cluster_sections(found, self._hub.happened, may_drill=may_drill)

    async def _groups(self, query: Mapping[str, str]) -> dict[str, str]:
        wanted = GroupSelection.of(query)
        return self._rendered.of(
            ("groups", wanted),
            await self._hub.groups(),
            lambda found: views.groups_sections(found, wanted),
        )

    async def _group(self, query: Mapping[str, str]) -> dict[str, str] | None:
        return await self.group(query.get("id", ""))

    async def _cluster(self, _: Mapping[str, str]) -> dict[str, str]:
        return await self.cluster()

    async def _events(self, look: Look, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        known: dict[str, str] = {}
        told, point_ms, problem = loop.time(), 0, None
        until = told + LIFE_S
        yield b"retry: 2000\n\n"
        while loop.time() < until:
            news: dict[str, Any] = {}
            try:
                sections = await look(query)
                found = ""
                if sections is None:
                    found = "The group is gone."
                elif changed := views.changed(sections, known):
                    known.update(changed)
                    news["sections"] = changed
                points = self._hub.points_since(point_ms) if query["page"] == "groups" else ()
                if points:
                    point_ms = points[-1].time_ms
                    news["points"] = [
                        [each.time_ms / 1_000, each.rebalances_per_minute, each.rebalancing]
                        for each in points
                    ]
            except SourceError as error:
                found = str(error)
            if found != problem:
                news["problem"] = problem = found
            if news:
                told = loop.time()
                yield f"data: {json.dumps(news)}\n\n".encode()
            elif loop.time() - told > BEAT_S:
                told = loop.time()
                yield b": still there\n\n"
            try:
                async with asyncio.timeout(self._pace_s):
                    await self._closing.wait()
            except TimeoutError:
                continue
            return


class _Stream(StreamingResponse):
    """A response that is counted as long as it lasts."""

    def __init__(self, streams: Streams, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the browser goes, or the console closes."""
        self._streams.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.count -= 1
