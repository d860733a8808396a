"""The settings of the consumer that watches: the operator's, and those that keep it harmless."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.client.command_config import JAAS, read_command_config
from actors.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OWN: Final[Mapping[str, str | int | bool]] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "isolation.level": "read_uncommitted",
        "queued.max.messages.kbytes": 16_384,
        "fetch.max.bytes": 16_777_216,
        "log_level": 0,
    }
)
"""Nothing is committed, created or guessed; what is fetched ahead is bounded."""

GROUP_ID: Final = "rollcall-watch"
"""librdkafka wants a group id; nothing joins the group, or commits for it."""

NOT_SET: Final = ("bootstrap.servers", *OWN)
SILENTLY_LEFT: Final = frozenset({"key.deserializer", "value.deserializer", JAAS})


def read_settings(path: Path | None, bootstrap: str) -> dict[str, str | int | bool]:
    """Return the settings of a properties file, and our own. Raises BadInputError.

    The names are librdkafka's; of Kafka's Java clients ``sasl.jaas.config`` is known, too.
    """
    given = {} if path is None else read_command_config(path)
    if refused := [name for name in NOT_SET if name in given]:
        raise BadInputError(f"{path} sets {refused[0]}, which `rollcall watch` sets by itself")
    known = {name: value for name, value in given.items() if name not in SILENTLY_LEFT}
    return {
        "group.id": GROUP_ID,
        "client.id": GROUP_ID,
        **known,
        **OWN,
        "bootstrap.servers": bootstrap,
    }
