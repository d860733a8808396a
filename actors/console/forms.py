"""Forms that browsers send: read with bounds, and only those of pages of the console itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

BODY_BYTES_MAX: Final = 16_384
BODY_S: Final = 10.0
FIELDS_MAX: Final = 16
FOREIGN: Final = "This request came from another page."


async def read_form(request: Request) -> Mapping[str, str] | Response:
    """Return the fields of a form of this console, or the answer that refuses it."""
    if not is_same_origin(request.headers):
        return sentence(FOREIGN, HTTPStatus.FORBIDDEN)
    data = bytearray()
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > BODY_BYTES_MAX:
                    return sentence("This is too long.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        fields = parse_qs(data.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX)
    except ValueError:
        return sentence("There are too many fields.", HTTPStatus.BAD_REQUEST)
    return {name: values[0] for name, values in fields.items()}


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of this very address sends a request."""
    said = headers.get("sec-fetch-site")
    if said is not None and said != "same-origin":
        return False
    origin, host = headers.get("origin"), headers.get("host")
    if not origin or not host:
        return False
    return urlsplit(origin).netloc == host


def sentence(text: str, status: int) -> Response:
    """Return an answer of one sentence."""
    return PlainTextResponse(f"{text}\n", status)
