"""The versions in which our clients send requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.wire.apis import API

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from kio.static.protocol import RequestPayload

NEWEST_BY_NAME: Final[Mapping[int, int]] = {8: 9, 9: 9}
"""OffsetCommit and OffsetFetch name topics by their ids after version 9; our clients by name."""


def version_of(message: RequestPayload) -> int:
    """Return the newest version of a request that names topics."""
    return NEWEST_BY_NAME.get(message.__api_key__, message.__version__)


def newest() -> dict[int, int]:
    """Return that version of every API."""
    return {key: NEWEST_BY_NAME.get(key, api.max_version) for key, api in API.items()}


def agreed(api_keys: Iterable[Any]) -> dict[int, int]:
    """Choose for each API the newest version that both sides know.

    ``api_keys`` are the rows of the broker's ApiVersions answer. An API without a version in common
    is left out.
    """
    ours = newest()
    versions = {}
    for theirs in api_keys:
        if theirs.api_key in ours:
            best = min(theirs.max_version, ours[theirs.api_key])
            if best >= max(theirs.min_version, API[theirs.api_key].min_version):
                versions[theirs.api_key] = best
    return versions
