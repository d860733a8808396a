"""Requests to an ASGI application without a socket."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


async def ask(
    app: Any, target: str, method: str = "GET", body: bytes = b"", **headers: str
) -> Answer:
    """Send one request; ``sec_fetch_site`` is the header Sec-Fetch-Site."""
    url = urlsplit(target)
    sent: list[Any] = []
    given = {"host": "127.0.0.1:80", **{name.replace("_", "-"): v for name, v in headers.items()}}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": url.path, "raw_path": url.path.encode(), "root_path": "",
        "query_string": url.query.encode(), "client": ("h", 1), "server": ("console", 80),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        await asyncio.Event().wait()
        return None

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    begin = sent[0]
    return Answer(
        begin["status"],
        {name.decode().lower(): value.decode() for name, value in begin["headers"]},
        b"".join(each.get("body", b"") for each in sent[1:]),
    )
