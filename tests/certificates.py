"""Certificates for tests, made by the command ``openssl``."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
DAYS = "2"


def openssl(*arguments: object) -> None:
    """Run the command."""
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority with files in a directory; ``certificate`` is its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key, self.certificate = directory / f"{name}.key", directory / f"{name}.pem"
        openssl("req", "-x509", *KEY, "-nodes", "-keyout", self._key, "-out", self.certificate,
                "-subj", f"/CN={name}", "-days", DAYS)  # fmt: skip

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = ("IP:127.0.0.1",),
        *,
        usage: str = "serverAuth,clientAuth",
        password: str = "",
    ) -> Path:
        """Return a PEM file with a new private key and its certificate for these hosts."""
        request, key, certificate, extensions, keystore = (
            self._directory / f"{name}.{end}" for end in ("csr", "key", "crt", "ext", "keystore")
        )
        secrecy = ("-passout", f"pass:{password}") if password else ("-nodes",)
        openssl("req", "-new", *KEY, *secrecy, "-keyout", key, "-out", request,
                "-subj", f"/CN={name}")  # fmt: skip
        extensions.write_text(f"subjectAltName={','.join(hosts)}\nextendedKeyUsage={usage}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                "-CAcreateserial", "-days", DAYS, "-extfile", extensions,
                "-out", certificate)  # fmt: skip
        keystore.write_text(key.read_text() + certificate.read_text())
        return keystore


def tls_configs(authority: Authority, keystore: Path) -> dict[str, str]:
    """Return the configs of TLS between coordinators that use these files."""
    return {
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
