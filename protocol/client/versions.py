"""The versions in which our clients send requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.wire.apis import API, api_of
from protocol.wire.kafka_4_4.index import GENERATED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kio.static.protocol import RequestPayload

    from protocol.wire.api import Api


def version_of(message: RequestPayload) -> int:
    """Return the version of a request for a server that is not asked for its versions."""
    return _unasked(api_of(message))


def newest() -> dict[int, int]:
    """Return the version of every API for a server that is not asked for its versions.

    It is the newest one that identifies topics by name and that Kafka 4.3 has, too.
    """
    return {key: _unasked(api) for key, api in API.items()}


def _unasked(api: Api) -> int:
    version = api.newest_by_name
    return version - 1 if (api.key, version) in GENERATED else version


def agreed(api_keys: Iterable[Any]) -> dict[int, int]:
    """Return for each API the newest version that both sides know.

    ``api_keys`` are the rows of the broker's ApiVersions answer. An API without a common version is
    left out.
    """
    ours = {key: api.newest_by_name for key, api in API.items()}
    versions = {}
    for theirs in api_keys:
        if theirs.api_key in ours:
            best = min(theirs.max_version, ours[theirs.api_key])
            if best >= max(theirs.min_version, API[theirs.api_key].min_version):
                versions[theirs.api_key] = best
    return versions
