"""Which cluster a data directory belongs to: the text of its ``meta.properties``."""

from __future__ import annotations

from dataclasses import dataclass

from storage.log import ForeignLogError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """What must be the same each time a directory is opened."""

    cluster_id: str
    node_id: int
    partitions: int  # offsets.topic.num.partitions, fixed at the first start


def render(identity: LogIdentity) -> str:
    """Return the text of ``meta.properties``."""
    return (
        f"version={FORMAT_VERSION}\n"
        f"cluster.id={identity.cluster_id}\n"
        f"node.id={identity.node_id}\n"
        f"offsets.topic.num.partitions={identity.partitions}\n"
    )


def check(where: str, text: str, identity: LogIdentity) -> None:
    """Compare a directory's ``meta.properties`` with who wants to open it.

    Raises :class:`storage.log.ForeignLogError`; its message says what differs and what to do.
    """
    rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
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
