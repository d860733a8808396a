"""The catalogue's own record types: topics, dynamic configs, nodes, features.

They have the form of the group records (an int16 type before the key, an int16 version before the
value, fields in kio's form), so that the same log, snapshot and standby code handles them. The type
numbers are our own and start at 100, above every type that Kafka uses in ``__consumer_offsets``.
"""

# kio reads field types at run time, so annotations stay unquoted in this module.
import uuid
from collections.abc import Sequence
from typing import Final

from kio.static.protocol import Entity

from failover.catalogue.cluster_view import Node, ResourceKey
from protocol.records import BadRecord, Record, UnknownRecordType
from protocol.wire.readers import UnreadableError, decoder
from protocol.wire.schema import Flexible, entity, key, wire
from protocol.wire.writers import encoder


@key
class TopicKey(Flexible):
    """Names a topic; its tombstone deletes the topic."""

    name: str = wire("string")


@entity
class PartitionReplicas(Flexible):
    """The nodes that hold one partition, the preferred leader first."""

    nodes: tuple[int, ...] = wire("int32", default=())


@entity
class TopicValue(Flexible):
    """A topic's id and placement; partition numbers are positions in ``partitions``."""

    topic_id: uuid.UUID | None = wire("uuid")
    partitions: tuple[PartitionReplicas, ...] = wire()


@key
class ConfigKey(Flexible):
    """Names one dynamic config of one resource; its tombstone removes the override."""

    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    name: str = wire("string")


@entity
class ConfigValue(Flexible):
    """The value of a dynamic config, as text."""

    value: str = wire("string")


@key
class NodeKey(Flexible):
    """Names a node."""

    node_id: int = wire("int32")


@entity
class NodeValue(Flexible):
    """Where clients reach a node, whether anything listens there now, and its rack.

    The levels are those of ``rollcall.version`` that its program supports.
    """

    host: str = wire("string")
    port: int = wire("int32")
    up: bool = wire("bool")
    rack: str | None = wire("string", default=None, tag=0)
    min_level: int = wire("int16", default=0, tag=1)
    max_level: int = wire("int16", default=0, tag=2)


@key
class DeletedTopicKey(Flexible):
    """Names a deleted topic by its former id; its tombstone finally forgets it."""

    topic_id: uuid.UUID | None = wire("uuid")


@entity
class DeletedTopicValue(Flexible):
    """The name of a deleted topic."""

    name: str = wire("string")


@key
class FeatureKey(Flexible):
    """Names a feature."""

    name: str = wire("string")


@entity
class FeatureValue(Flexible):
    """The finalized level of a feature, and the epoch of the features since it is in force.

    It is written only by UpdateFeatures. Level 0 is written, too: epochs do not fall.
    """

    level: int = wire("int16")
    epoch: int = wire("int64")


RECORD_TYPES: Final[dict[int, tuple[type[Entity], type[Entity]]]] = {
    100: (TopicKey, TopicValue),
    101: (ConfigKey, ConfigValue),
    102: (NodeKey, NodeValue),
    103: (DeletedTopicKey, DeletedTopicValue),
    104: (FeatureKey, FeatureValue),
}
"""The type number before a key's bytes, and the classes of its key and value."""

_TYPE_OF: Final = {key: number for number, (key, _) in RECORD_TYPES.items()}


def topic_record(name: str, topic_id: uuid.UUID, placement: Sequence[tuple[int, ...]]) -> Record:
    """Return the record that creates a topic or replaces its placement."""
    shared = {nodes: PartitionReplicas(nodes=nodes) for nodes in placement}
    partitions = tuple(shared[nodes] for nodes in placement)
    return Record(TopicKey(name=name), TopicValue(topic_id=topic_id, partitions=partitions))


def topic_tombstone(name: str) -> Record:
    """Return the record that deletes a topic."""
    return Record(TopicKey(name=name), None)


def deletion_record(topic_id: uuid.UUID, name: str | None) -> Record:
    """Return the record that remembers a topic's deletion, or forgets it (None)."""
    key = DeletedTopicKey(topic_id=topic_id)
    return Record(key, None if name is None else DeletedTopicValue(name=name))


def config_record(resource: ResourceKey, name: str, value: str | None) -> Record:
    """Return the record that sets a dynamic config, or removes it (None)."""
    key = ConfigKey(resource_type=resource[0], resource_name=resource[1], name=name)
    return Record(key, None if value is None else ConfigValue(value=value))


def node_record(node: Node) -> Record:
    """Return the record that registers a node in its current state."""
    value = NodeValue(
        host=node.host,
        port=node.port,
        up=node.up,
        rack=node.rack,
        min_level=node.min_level,
        max_level=node.max_level,
    )
    return Record(NodeKey(node_id=node.node_id), value)


def feature_record(name: str, level: int, epoch: int) -> Record:
    """Return the record that finalizes a feature at a level."""
    return Record(FeatureKey(name=name), FeatureValue(level=level, epoch=epoch))


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return a record's key bytes and value bytes; None means a tombstone."""
    number = _TYPE_OF.get(type(record.key))
    if number is None:
        raise UnknownRecordType(f"{type(record.key).__name__} is no record of the catalogue")
    key = number.to_bytes(2, "big") + _entity_bytes(record.key)
    if record.value is None:
        return key, None
    assert not isinstance(record.value, bytes), "the catalogue's values are read at once"
    version = int(record.value.__version__)
    return key, version.to_bytes(2, "big") + _entity_bytes(record.value)


def decode(key: bytes, value: bytes | None) -> Record:
    """Decode a record; raises ``UnknownRecordType`` for a type or version not in the table."""
    number = int.from_bytes(key[:2], "big")
    if number not in RECORD_TYPES:
        raise UnknownRecordType(f"record type {number} is not known to this catalogue")
    key_class, value_class = RECORD_TYPES[number]
    typed_key = _read(key_class, key)
    if value is None:
        return Record(typed_key, None)
    version = int.from_bytes(value[:2], "big")
    if version != value_class.__version__:
        raise UnknownRecordType(f"version {version} of {value_class.__name__} is not known")
    return Record(typed_key, _read(value_class, value))


def _read(shape: type[Entity], data: bytes) -> Entity:
    try:
        found: Entity = decoder(shape)(data, 2)
    except UnreadableError as error:
        raise BadRecord(str(error)) from None
    return found


def _entity_bytes(value: Entity) -> bytes:
    return encoder(type(value))(value)
