"""How a client is safe: TLS and a login, from the settings that Kafka's own clients have."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from actors.client.command_config import PASSWORD, USERNAME, read_command_config
from actors.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROTOCOLS: Final[Mapping[str, tuple[bool, bool]]] = MappingProxyType(
    {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }
)
"""The values of ``security.protocol``: whether it has TLS, and whether it has a login."""

Value = TypeVar("Value")

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

AUTHORITIES: Final = ("ssl.truststore.location", "ssl.ca.location")
CERTIFICATES: Final = ("ssl.keystore.location", "ssl.certificate.location")
STORES: Final = ("ssl.truststore", "ssl.keystore")
"""Java's settings of files; their ``.type`` must be PEM."""

NAME_CHECKS: Final[Mapping[str, bool]] = MappingProxyType({"https": True, "none": False, "": False})
"""The values of ``ssl.endpoint.identification.algorithm``: is the broker's name checked?"""


@dataclass(frozen=True, slots=True)
class Login:
    """A user, and how it logs in."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """What connections are made with; None: without."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None


PLAINTEXT: Final = Security()


def read_security(path: Path | None) -> Security:
    """Return what the file of ``--command-config`` asks for. Raises BadInputError.

    Settings that are not about security are left alone, as Kafka's tools do.
    """
    if path is None:
        return PLAINTEXT
    given = read_command_config(path)
    try:
        protocol = given.get("security.protocol", "PLAINTEXT")
        has_tls, has_login = _one_of("security.protocol", protocol.upper(), PROTOCOLS)
        return Security(_tls(given) if has_tls else None, _login(given) if has_login else None)
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from None


def _login(given: Mapping[str, str]) -> Login:
    name = "sasl.mechanisms" if "sasl.mechanisms" in given else "sasl.mechanism"
    mechanism = given.get(name)
    if mechanism is None:
        raise ValueError(f"sasl.mechanism is missing: give one of {', '.join(MECHANISMS)}")
    mechanism = mechanism.upper()
    if mechanism not in MECHANISMS:
        raise ValueError(f"{name}={mechanism} is not one of {', '.join(MECHANISMS)}")
    for wanted in (USERNAME, PASSWORD):
        if wanted not in given:
            what = wanted.removeprefix("sasl.")
            raise ValueError(f'there is no {what}="..." in sasl.jaas.config, and no {wanted}')
    return Login(mechanism, given[USERNAME], given[PASSWORD])


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    for store in STORES:
        kind = given.get(f"{store}.type", "PEM")
        if kind.upper() != "PEM":
            raise ValueError(f"{store}.type={kind} is not known here: give a file of type PEM")
    context = ssl.create_default_context()
    if (name := _first(given, AUTHORITIES)) is not None:
        try:
            context = ssl.create_default_context(cafile=given[name])
        except (OSError, ValueError) as error:
            raise ValueError(_unread(name, given[name], error)) from None
    check = given.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = _one_of(
        "ssl.endpoint.identification.algorithm", check.lower(), NAME_CHECKS
    )
    if (name := _first(given, CERTIFICATES)) is not None:
        password = given.get("ssl.key.password", "")
        try:
            context.load_cert_chain(given[name], given.get("ssl.key.location"), lambda: password)
        except (OSError, ValueError) as error:
            raise ValueError(_unread(name, given[name], error)) from None
    return context


def _first(given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in given), None)


def _unread(name: str, file: str, error: Exception) -> str:
    """Say why a file of certificates is of no use."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"{name}={file} cannot be read: {error.strerror}"
    return f"{name}={file} is not a file of type PEM with what it is for"


def _one_of(name: str, value: str, known: Mapping[str, Value]) -> Value:
    if value not in known:
        names = ", ".join(filter(None, known))
        raise ValueError(f"{name}={value} is not one of {names}")
    return known[value]
