"""Limits on the size of a group's writes.

Kafka limits a batch of the offsets topic by ``max.message.bytes`` (1 MiB). Groups may be larger
here, but every batch must be well below the size of the frames in which peers replicate it.
"""

from __future__ import annotations

from typing import Final

GROUP_BYTES_MAX: Final = 16 << 20
"""Bytes of the records that one group may write in one turn: they are one atomic batch."""

MEMBER_BYTES_MAX: Final = 4 << 20
"""Bytes of all protocols of one classic member."""

BATCH_BYTES: Final = 4 << 20
"""A batch with records of several groups ends at this size."""

TASKS_MAX: Final = 1_000_000
"""Tasks of one streams group: its assignor, and the records of its targets, take them in one go."""
