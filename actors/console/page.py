"""The console: the cluster's status as a web page and as JSON, over HTTP."""

from __future__ import annotations

import asyncio
import html
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

REQUEST_S: Final = 10.0
"""How long a client may take to send its request, and again to read the response."""

REQUEST_BYTES_MAX: Final = 16_384
CONNECTIONS_MAX: Final = 32
"""The connections that are served at a time; others are closed at once."""

PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Rollcall</title>
<meta http-equiv="refresh" content="5">
<style>body{{font:15px/1.5 system-ui,sans-serif;margin:2rem}}td,th{{padding:.2rem 1rem .2rem 0;
text-align:left}}</style>
<h1>Rollcall</h1><p>Cluster {cluster_id}, bootstrap {bootstrap}</p>
<table><tr><th>Node<th>Address<th>State<th>Process<th>Leads<th>Connections</tr>{rows}</table>
<p><a href="/status.json">status.json</a> <a href="/metrics">metrics</a></p></html>
"""


class Console:
    """Serves ``/``, ``/status.json`` and, for Prometheus, ``/metrics``."""

    def __init__(self, status: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self._status = status
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._asking: asyncio.Task[Mapping[str, Any]] | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError if the address cannot be bound."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=REQUEST_BYTES_MAX, reuse_address=True
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head)
            async with asyncio.timeout(REQUEST_S):
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections -= 1
            writer.transport.abort()

    async def _ask_status(self) -> Mapping[str, Any]:
        """Share one status request between all clients that wait for it."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._asked_status())
        return await asyncio.shield(self._asking)

    async def _asked_status(self) -> Mapping[str, Any]:
        return await self._status()

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) != 3:
            return _response(HTTPStatus.BAD_REQUEST, "text/plain", "This is not an HTTP request.\n")
        method, path = words[0], words[1].split(b"?")[0]
        if method != b"GET":
            return _response(
                HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", "Only GET is supported.\n"
            )
        if path == b"/status.json":
            return _response(
                HTTPStatus.OK, "application/json", json.dumps(await self._ask_status())
            )
        if path == b"/metrics":
            from actors.console.exposition import exposition

            return _response(HTTPStatus.OK, "text/plain", exposition(await self._ask_status()))
        if path == b"/":
            return _response(HTTPStatus.OK, "text/html", _page(await self._ask_status()))
        return _response(
            HTTPStatus.NOT_FOUND,
            "text/plain",
            "Not found. The paths are /, /status.json and /metrics.\n",
        )


def _response(status: HTTPStatus, kind: str, body: str) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n"
    )
    return head.encode() + content


def _page(status: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{row['node_id']}<td>{html.escape(row['host'])}:{row['port']}<td>{row['state']}"
        f"<td>{row['pid'] or ''}<td>{', '.join(map(str, row['leads']))}"
        f"<td>{row.get('connections', '')}</tr>"
        for row in status["coordinators"]
    )
    return PAGE.format(
        cluster_id=html.escape(status["cluster_id"]),
        bootstrap=html.escape(status["bootstrap"]),
        rows=rows,
    )
