"""The record types of a ``__consumer_offsets`` partition, byte-compatible with Kafka's.

Keys and values are declared once, in kio's entity form, and read and written by kio. A key's bytes
begin with its type (int16, big-endian), a value's with its version (int16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.static.protocol import Entity


@dataclass(frozen=True, slots=True)
class Record:
    """A typed log record; a value of None is a tombstone."""

    key: Entity
    value: Entity | None
