"""The cluster that a data directory belongs to: the text of its ``meta.properties``."""

from __future__ import annotations

from dataclasses import dataclass

from storage.log import ForeignLogError

FORMAT_VERSION = 2
"""2: a directory has its own id, and its log belongs to one of several replicas."""

DIRECTORY_ID = "directory.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """The properties that must be the same each time a directory is opened."""

    cluster_id: str
    node_id: int
    partitions: int  # offsets.topic.num.partitions, fixed at the first start
    others: tuple[int, ...] = ()  # the numbers of partitions beside those and the catalogue's

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all partitions that the log may have; the catalogue's is -1."""
        return (-1, *range(self.partitions), *self.others)


def render(identity: LogIdentity) -> str:
    """Return the text of ``meta.properties``, without the directory's id."""
    return (
        f"version={FORMAT_VERSION}\n"
        f"cluster.id={identity.cluster_id}\n"
        f"node.id={identity.node_id}\n"
        f"offsets.topic.num.partitions={identity.partitions}\n"
    )


def with_directory_id(text: str, directory_id: str) -> str:
    """Add the random id that a directory gets when it is created.

    It distinguishes a node that kept its disk from one that lost it: the latter's votes and records
    are gone, so it is another replica.
    """
    return f"{text}{DIRECTORY_ID}={directory_id}\n"


def directory_id_in(where: str, text: str) -> str:
    """Return the directory's id from the text of ``meta.properties``."""
    found = _rows(text).get(DIRECTORY_ID, "")
    if not found:
        raise ForeignLogError(
            f"{where}: its meta.properties have no {DIRECTORY_ID}; "
            "put that file back as it was or use another data directory."
        )
    return found


def _rows(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def check(where: str, text: str, identity: LogIdentity) -> None:
    """Compare a directory's ``meta.properties`` with the identity that wants to open it.

    Raises :class:`storage.log.ForeignLogError`; its message says what differs and what to do.
    """
    rows = _rows(text)
    version = rows.get("version", "")
    if version != str(FORMAT_VERSION):
        raise ForeignLogError(
            f"{where}: its format version is {version or 'missing'} and this program reads "
            f"{FORMAT_VERSION}; use the program that wrote it or another data directory."
        )
    for name, wanted in (
        ("cluster.id", identity.cluster_id),
        ("node.id", str(identity.node_id)),
        ("offsets.topic.num.partitions", str(identity.partitions)),
    ):
        found = rows.get(name, "missing")
        if found != wanted:
            raise ForeignLogError(
                f"{where}: its {name} is {found}, not {wanted}; "
                "start with that value or use another data directory."
            )
