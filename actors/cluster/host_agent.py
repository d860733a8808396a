"""A short-lived actor on each host, by which ``rollcall up`` sees its directory and ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from actors.cluster import data_dir
from actors.cluster.directory_copy import NODE, DirectoryCopier
from actors.cluster.listening_ports import choose_ports
from actors.cluster.node_rack import own_rack
from actors.cluster.ray_calls import own_node_labels
from actors.errors import BadInputError
from actors.peers.tls import TlsError, check_certificates
from storage.disk.identity import directory_id_in
from storage.disk.witness import NOTE
from storage.log import ForeignLogError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.cluster.spec import Address
    from actors.peers.tls import TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """What a host holds: the text of its cluster file, and the ids of its nodes' directories.

    ``address`` is that of its Ray node. ``failure`` is a sentence if its data directory cannot be
    used.
    """

    address: str
    rack: str | None = None
    file: str = field(default="", repr=False)
    directories: Mapping[int, str] = field(default_factory=dict)
    failure: str = ""


class HostAgent(DirectoryCopier):
    """Looks at one host, for as long as a command or the controller works on the hosts."""

    def __init__(self, address: str, directory: str) -> None:
        super().__init__(Path(directory))
        self._address = address

    def report(self) -> HostReport:
        """Return what the host holds; create its data directory."""
        try:
            found = data_dir.open_data_dir(self._directory)
        except BadInputError as error:
            return HostReport(address=self._address, failure=str(error))
        return HostReport(
            address=self._address,
            rack=own_rack(own_node_labels()),
            file="" if found is None else data_dir.render(found),
            directories=directories_in(self._directory),
        )

    def choose_ports(
        self, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...] | str:
        """Return the ports to listen on, or a sentence if they cannot be used."""
        try:
            return choose_ports(wanted, before)
        except BadInputError as error:
            return str(error)

    def check_certificates(self, settings: TlsSettings) -> str:
        """Check the certificates of TLS between coordinators; return a sentence if they are wrong.

        Another coordinator with the same files must accept them from this host's address.
        """
        try:
            check_certificates(settings, self._address)
        except TlsError as error:
            return f"{error}."
        return ""

    def save(self, text: str) -> str:
        """Write the cluster file as a later version may have made it.

        Returns a sentence if that failed.
        """
        try:
            data_dir.save_text(self._directory, text)
        except BadInputError as error:
            return str(error)
        return ""

    def accept_copies(self, nodes: int) -> str:
        """Accept old copies (:func:`actors.cluster.data_dir.accept_copies`); as :meth:`save`."""
        try:
            data_dir.accept_copies(self._directory, nodes)
        except BadInputError as error:
            return str(error)
        return ""


def directories_in(directory: Path) -> dict[int, str]:
    """Return the ids of the nodes' directories in a data directory, by node id.

    One that cannot be read has the id "": the coordinator will say what is wrong with it.
    """
    found = {}
    for path in sorted(directory.glob(f"{NODE}*")):
        number = path.name.removeprefix(NODE)
        if number.isdecimal() and (path / NOTE).exists():
            try:
                found[int(number)] = directory_id_in(str(path), (path / NOTE).read_text())
            except (OSError, ValueError, ForeignLogError):
                found[int(number)] = ""
    return found
