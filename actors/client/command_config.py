"""The file of ``--command-config``: settings of a client as Java properties, as Kafka's tools have.

The names are those of Kafka's Java clients or of librdkafka.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from protocol.config import ConfigError
from protocol.properties import parse_properties

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 1 << 20
JAAS: Final = "sasl.jaas.config"
USERNAME: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
_LOGIN: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def read_command_config(path: Path) -> dict[str, str]:
    """Return the settings in a file. Raises BadInputError.

    What ``sasl.jaas.config`` says of the user is in ``sasl.username`` and ``sasl.password``, too,
    unless the file has these.
    """
    given = _read(path)
    for name, value in _LOGIN.findall(given.get(JAAS, "")):
        given.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", value))
    return given


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise BadInputError(f"{path} is longer than {FILE_BYTES_MAX >> 20} MiB")
        return parse_properties(data.decode())
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is no properties file: {error}") from None
