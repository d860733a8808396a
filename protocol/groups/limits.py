"""How large what a group writes may become.

Kafka bounds a batch of the offsets topic by ``max.message.bytes`` (1 MiB). Groups may be larger
here, but no batch may come near the frames in which peers pass it on.
"""

from __future__ import annotations

from typing import Final

GROUP_BYTES_MAX: Final = 16 << 20
"""Bytes of the records that one group writes in one turn: they are one atomic batch."""

MEMBER_BYTES_MAX: Final = 4 << 20
"""Bytes of all protocols of one classic member."""

BATCH_BYTES: Final = 4 << 20
"""A batch of several groups' records ends here."""
