"""Records of the share coordinator (KIP-932), in the topic ``__share_group_state``."""

import uuid

from protocol.wire.schema import Flexible, Legacy, entity, key, wire


@key
class ShareSnapshotKey(Legacy):
    """Type 0: all share state of a partition."""

    group_id: str = wire("string")
    topic_id: uuid.UUID | None = wire("uuid")
    partition: int = wire("int32")


@entity
class ShareStateBatch(Flexible):
    """Offsets in one delivery state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    delivery_count: int = wire("int16")


@entity
class ShareSnapshotValue(Flexible):
    """Times in Unix milliseconds; ``delivery_complete_count`` is -1 where it is not known."""

    snapshot_epoch: int = wire("int32")
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", default=-1, tag=0)
    create_timestamp: int = wire("int64")
    write_timestamp: int = wire("int64")
    state_batches: tuple[ShareStateBatch, ...] = wire()


@key
class ShareUpdateKey(Legacy):
    """Type 1: what has changed since the snapshot."""

    group_id: str = wire("string")
    topic_id: uuid.UUID | None = wire("uuid")
    partition: int = wire("int32")


@entity
class ShareUpdateValue(Flexible):
    """Changes since the snapshot with this epoch; ``start_offset`` -1: it has not changed."""

    snapshot_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", default=-1, tag=0)
    state_batches: tuple[ShareStateBatch, ...] = wire()
