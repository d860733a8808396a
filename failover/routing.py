"""Which ``__consumer_offsets`` partition holds a group: Kafka's hash of its id."""

from __future__ import annotations

from functools import lru_cache

from protocol.java_hash import INT_MIN, java_string_hash


@lru_cache(maxsize=1 << 16)
def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of a group; Kafka takes the hash ``Integer.MIN_VALUE`` as 0."""
    value = java_string_hash(group_id)
    return 0 if value == INT_MIN else abs(value) % partitions
