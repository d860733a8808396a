"""The versions in which our clients send requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.wire.apis import API, api_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kio.static.protocol import RequestPayload


def version_of(message: RequestPayload) -> int:
    """Return the newest version of a request that identifies topics by name."""
    return api_of(message).newest_by_name


def newest() -> dict[int, int]:
    """Return, for every API, the newest version that identifies topics by name."""
    return {key: api.newest_by_name for key, api in API.items()}


def agreed(api_keys: Iterable[Any]) -> dict[int, int]:
    """Return for each API the newest version that both sides know.

    ``api_keys`` are the rows of the broker's ApiVersions answer. An API without a common version is
    left out.
    """
    ours = newest()
    versions = {}
    for theirs in api_keys:
        if theirs.api_key in ours:
            best = min(theirs.max_version, ours[theirs.api_key])
            if best >= max(theirs.min_version, API[theirs.api_key].min_version):
                versions[theirs.api_key] = best
    return versions
