"""What all connections of a load have: the version of each API, TLS, and a login."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from actors.client.security import PLAINTEXT
from protocol.client.versions import newest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.client.security import Security


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """``versions`` by the API's key; those of Rollcall and Kafka 4.3 by default."""

    versions: Mapping[int, int] = field(default_factory=newest)
    security: Security = PLAINTEXT


DEFAULT: Final = ConnectionSettings()
