"""TLS on the links between coordinators: configs, certificates, and each end without I/O.

Both ends show a certificate, always. The handshake with the cluster's secret follows inside TLS: a
certificate alone makes nobody a peer.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from actors.peers.handshake import RefusedError
from actors.telemetry.rate_limited_log import RateLimitedLog
from protocol.config import ConfigError

if TYPE_CHECKING:
    from protocol.config import Configs

_log = logging.getLogger("rollcall.peers")

SECURITY_PROTOCOL: Final = "security.inter.broker.protocol"
SSL: Final = "SSL"
KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
TYPES: Final = ("ssl.keystore.type", "ssl.truststore.type")
PEM: Final = "PEM"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"

READ_BYTES: Final = 1 << 16
HANDSHAKE_RECORD, ALERT_RECORD = 0x16, 0x15
"""The first byte of what an end of TLS sends at first."""


class TlsError(OSError):
    """The certificates cannot be used; ``str(error)`` is one sentence without a full stop."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The PEM files of TLS between coordinators, at the same paths on every host.

    ``keystore`` has the private key and the certificate, with those between it and a trusted one;
    ``truststore`` has the certificates that are trusted. ``checks_hosts``: a coordinator's
    certificate must name the address at which it is called.
    """

    keystore: str
    truststore: str
    checks_hosts: bool = True


def tls_settings(configs: Configs) -> TlsSettings | None:
    """Return the settings that ``security.inter.broker.protocol=SSL`` needs; None without it.

    Raises :class:`protocol.config_error.ConfigError` if some are missing.
    """
    if configs.text(SECURITY_PROTOCOL).upper() != SSL:
        return None
    paths = {name: configs.overrides.get(name, "").strip() for name in (KEYSTORE, TRUSTSTORE)}
    missing = [f"{name}={PEM}" for name in TYPES if configs.text(name).upper() != PEM]
    missing += [name for name, path in paths.items() if not path]
    if missing:
        raise ConfigError(f"{SECURITY_PROTOCOL}={SSL} needs certificates: set {', '.join(missing)}")
    for name, path in paths.items():
        if not Path(path).is_absolute():
            raise ConfigError(
                f"{name} is {path}: give an absolute path, which is the same on every host"
            )
    return TlsSettings(paths[KEYSTORE], paths[TRUSTSTORE], bool(configs.text(HOST_CHECK)))


class _Contexts(NamedTuple):
    """What was read from the files, by role; it is used by many links."""

    caller: ssl.SSLContext
    callee: ssl.SSLContext


class TlsContexts:
    """Makes the ends of links. Files that have changed are read again."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files; raises :class:`TlsError` if they cannot be used."""
        self._settings = settings
        self._seen = _stamps(settings)
        self._contexts = _read(settings)
        self._warnings = RateLimitedLog(_log)

    def caller(self, host: str) -> TlsEnd:
        """Return the end that calls a coordinator at this host."""
        return TlsEnd(self._newest().caller, host)

    def callee(self) -> TlsEnd:
        """Return the end that is called."""
        return TlsEnd(self._newest().callee)

    def _newest(self) -> _Contexts:
        try:
            if (found := _stamps(self._settings)) != self._seen:
                self._contexts = _read(self._settings)
                self._seen = found
        except TlsError as error:
            self._warnings.warn(f"{error}; the certificates that were read before are used")
        return self._contexts


def _stamps(settings: TlsSettings) -> list[tuple[int, int, int]]:
    """Return what differs when one of the files was replaced or changed."""
    found = []
    for path in (settings.keystore, settings.truststore):
        try:
            stat = Path(path).stat()
        except OSError as error:
            raise TlsError(f"{path} cannot be read: {error.strerror}") from None
        found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return found


def _read(settings: TlsSettings) -> _Contexts:
    return _Contexts(
        _context(settings, ssl.PROTOCOL_TLS_CLIENT), _context(settings, ssl.PROTOCOL_TLS_SERVER)
    )


def _context(settings: TlsSettings, role: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.check_hostname = settings.checks_hosts and role is ssl.PROTOCOL_TLS_CLIENT
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(settings.keystore, password=_no_password)
    except ssl.SSLError:
        raise TlsError(
            f"{settings.keystore} does not contain a private key and its certificate, as PEM"
        ) from None
    except _EncryptedKeyError:
        raise TlsError(
            f"the private key in {settings.keystore} has a password: store it without one, in a "
            "file that only its owner can read"
        ) from None
    except OSError as error:
        raise TlsError(f"{settings.keystore} cannot be read: {error.strerror}") from None
    try:
        context.load_verify_locations(settings.truststore)
    except ssl.SSLError:
        raise TlsError(f"{settings.truststore} contains no certificate, as PEM") from None
    except OSError as error:
        raise TlsError(f"{settings.truststore} cannot be read: {error.strerror}") from None
    return context


class _EncryptedKeyError(Exception):
    """A private key is encrypted."""


def _no_password() -> NoReturn:
    """Answer OpenSSL, which would otherwise ask at the terminal."""
    raise _EncryptedKeyError


def check_certificates(settings: TlsSettings, host: str) -> None:
    """Check that a coordinator on this host would be accepted by one with the same files.

    Raises :class:`TlsError` with a sentence that says what is wrong.
    """
    contexts = TlsContexts(settings)
    caller, callee = contexts.caller(host), contexts.callee()
    try:
        while data := caller.outgoing():
            callee.decrypted(data)
            caller.decrypted(callee.outgoing())
    except RefusedError as error:
        raise TlsError(
            f"other coordinators would refuse {settings.keystore} at {host}: {error}"
        ) from None


class TlsEnd:
    """One end of a TLS connection: encrypted bytes in and out, plain bytes out and in."""

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        """``host`` is what the caller calls; None: this is the end that is called."""
        self.is_established = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._is_first = True
        if host is not None:
            self._shake_hands()

    @property
    def version(self) -> str:
        """The version of TLS that both ends speak, as OpenSSL names it; "" before that is known."""
        return self._object.version() or ""

    def outgoing(self) -> bytes:
        """Return what must be sent now, also after an error: it says why."""
        return self._outgoing.read()

    def encrypted(self, data: bytes) -> bytes:
        """Return what must be sent for these bytes; the connection must be established."""
        self._object.write(data)
        return self._outgoing.read()

    def decrypted(self, data: bytes) -> bytes:
        """Return the plain bytes that have arrived; raises :class:`RefusedError`."""
        if self._is_first and data:
            self._is_first = False
            if data[0] not in (HANDSHAKE_RECORD, ALERT_RECORD):
                raise RefusedError(f"it does not use TLS, and {SECURITY_PROTOCOL} is {SSL} here")
        self._incoming.write(data)
        if not self.is_established:
            self._shake_hands()
        plain: list[bytes] = []
        try:
            while self.is_established and (part := self._object.read(READ_BYTES)):
                plain.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise RefusedError(_what(error)) from None
        return b"".join(plain)

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
            self.is_established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise RefusedError(_what(error)) from None


def _what(error: ssl.SSLError) -> str:
    """Return what OpenSSL says is wrong with the other end."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid here: {error.verify_message.rstrip('.')}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        return f"it refuses our certificate or our TLS ({reason})"
    return f"TLS with it fails ({reason})"


def uses_tls(data: bytes) -> bool:
    """Whether the first bytes from a caller start a TLS handshake."""
    return data[:2] == bytes((HANDSHAKE_RECORD, 3))
