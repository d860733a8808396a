"""Records of classic groups and of committed offsets."""

import uuid

from protocol.wire.schema import Legacy, entity, key, wire


@key
class OffsetCommitKey(Legacy):
    """Type 1 (and the retired type 0): the committed offset of one partition."""

    group: str = wire("string")
    topic: str = wire("string")
    partition: int = wire("int32")


@entity
class OffsetCommitValue(Legacy):
    """Timestamps in Unix milliseconds, -1 for none.

    ``expire_timestamp`` is set only by clients that send a retention time (OffsetCommit 2-4). The
    value is then written in version 1, which has neither leader epoch nor topic id.
    """

    offset: int = wire("int64")
    leader_epoch: int = wire("int32", default=-1, versions=(3, 4))
    metadata: str = wire("string")
    commit_timestamp: int = wire("int64")
    expire_timestamp: int = wire("int64", default=-1, versions=(1, 1))
    topic_id: uuid.UUID | None = wire("uuid", default=None, tag=0, versions=(4, 4))


@key
class GroupMetadataKey(Legacy):
    """Type 2: a classic group's last persisted generation."""

    group: str = wire("string")


class Written:
    """Caches the encoded bytes of a value; this is not a field: equal values stay equal."""

    __slots__ = ("written",)
    written: bytes


@entity
class MemberMetadata(Legacy, Written):
    """A member of a classic group; timeouts in milliseconds."""

    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", default=None, versions=(3, 4))
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout: int = wire("int32", default=-1, versions=(1, 4))
    session_timeout: int = wire("int32")
    subscription: bytes = wire("bytes")
    assignment: bytes = wire("bytes")


@entity
class GroupMetadataValue(Legacy):
    """``leader`` is a member id; both it and ``protocol`` are None in an empty group."""

    protocol_type: str = wire("string")
    generation: int = wire("int32")
    protocol: str | None = wire("string")
    leader: str | None = wire("string")
    current_state_timestamp: int = wire("int64", default=-1, versions=(2, 4))
    members: tuple[MemberMetadata, ...] = wire()
