"""The console's pages over HTTP: a Starlette application that knows its source, and nothing else.

Every page is complete without JavaScript. With it, a stream of events replaces the sections that
changed. No page needs another server, and no script or style is in a page itself.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from actors.console import views
from actors.console.actions import ID_MAX, Actions
from actors.console.assets import directory
from actors.console.forms import sentence
from actors.console.hosts import KnownHosts, OwnHosts
from actors.console.selection import AT_REST, GroupSelection
from actors.console.source import ActionRefusedError, SourceError
from actors.console.streams import Streams, TooManyStreamsError
from protocol.stories.sentence import named

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from actors.console.hub import Hub

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NOT_FOUND: Final = (
    "Not found. The pages are /, /group?id=GROUP, /cluster, /metrics, /status.json.\n"
)


class Headers:
    """Adds headers to every response that does not have them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in given
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


class ConsolePages:
    """Answers requests from what the hub knows."""

    def __init__(self, hub: Hub, hosts: KnownHosts | None = None) -> None:
        """``hosts`` are the names under which it is asked, if it has more than its machine."""
        self._hub = hub
        self._hosts = hosts or KnownHosts()
        self.streams = Streams(hub)
        self._actions = Actions(hub)

    def app(self) -> ASGIApp:
        """Return the application."""
        routes = [
            Route("/", self._groups),
            Route("/group", self._group),
            Route("/cluster", self._cluster),
            Route("/events", self._events),
            *self._actions.routes(),
            Route("/metrics", self._metrics),
            Route("/status.json", self._status),
            Mount("/assets", StaticFiles(directory=str(directory("assets")))),
        ]
        handlers: Mapping[Any, Callable[[Request, Any], Awaitable[Response]]] = {
            HTTPStatus.NOT_FOUND: _not_found,
            ActionRefusedError: _refused,
            SourceError: _no_answer,
        }
        pages = Starlette(routes=routes, exception_handlers=handlers)
        return Headers(OwnHosts(pages, self._hosts))

    # --- pages

    async def _groups(self, request: Request) -> Response:
        wanted = GroupSelection.of(request.query_params)
        sections, problem = None, ""
        states = ["rebalancing"]
        try:
            found = await self._hub.groups()
            sections = views.groups_sections(found, wanted)
            states += sorted({each.state for each in found.groups})
        except SourceError as error:
            problem = str(error)
        return self._page(
            "groups_page.html" if sections else "page.html",
            problem,
            title="Groups",
            place="Groups",
            events=f"/events?page=groups&{wanted.query()}",
            sections=sections,
            wanted=wanted,
            types=views.TYPES,
            states=states,
            at_rest=AT_REST,
        )

    async def _group(self, request: Request) -> Response:
        group_id = request.query_params.get("id", "")[:ID_MAX]
        sections, problem = None, ""
        try:
            sections = await self.streams.group(group_id)
        except SourceError as error:
            problem = str(error)
        status = HTTPStatus.OK if sections or problem else HTTPStatus.NOT_FOUND
        query = views.group_link(group_id).partition("?")[2]
        return self._page(
            "group_page.html",
            problem,
            status,
            title=named(group_id),
            place="",
            events=f"/events?page=group&{query}" if query and (sections or problem) else "",
            sections=sections,
            group_id=group_id,
        )

    async def _cluster(self, request: Request) -> Response:
        del request
        sections, problem = None, ""
        try:
            sections = await self.streams.cluster()
        except SourceError as error:
            problem = str(error)
        return self._page(
            "cluster_page.html",
            problem,
            title="Cluster",
            place="Cluster",
            events="/events?page=cluster",
            sections=sections,
        )

    def _page(
        self, template: str, problem: str = "", status: int = HTTPStatus.OK, **values: Any
    ) -> Response:
        status = HTTPStatus.SERVICE_UNAVAILABLE if problem else status
        watched = self._hub.source.title
        text = views.render(template, problem=problem, watched=watched, **values)
        return HTMLResponse(text, status)

    # --- what changes

    async def _events(self, request: Request) -> Response:
        try:
            return self.streams.open(request)
        except TooManyStreamsError as error:
            return PlainTextResponse(
                f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE, headers={"retry-after": "30"}
            )
        except KeyError:
            return PlainTextResponse("There is no such page.\n", HTTPStatus.NOT_FOUND)

    # --- for programs

    async def _metrics(self, request: Request) -> Response:
        del request
        text = await self._hub.metrics()
        if text is None:
            return PlainTextResponse("There are no metrics here.\n", HTTPStatus.NOT_FOUND)
        return PlainTextResponse(text)

    async def _status(self, request: Request) -> Response:
        del request
        status = await self._hub.status()
        if status is None:
            return PlainTextResponse("There is no status here.\n", HTTPStatus.NOT_FOUND)
        return JSONResponse(status)


async def _not_found(request: Request, error: Any) -> Response:
    del request, error
    return PlainTextResponse(NOT_FOUND, HTTPStatus.NOT_FOUND)


async def _refused(request: Request, error: Any) -> Response:
    del request
    return sentence(str(error), HTTPStatus.CONFLICT)


async def _no_answer(request: Request, error: Any) -> Response:
    del request
    return PlainTextResponse(f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
