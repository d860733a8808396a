"""The data directory: its cluster, and the lock that lets only one cluster use it.

=================  ===========================================================================
``cluster.json``   the cluster's id and secret, its partitions, replicas, ports and hosts
``lock``           held by the process that runs the cluster
``node-<i>/``      the log of coordinator *i*; beside it ``node-<i>.incarnation`` and ``.mark``,
                   which distinguish it from a copy (:mod:`storage.disk.witness`)
``logs/``          log lines, one file per process
=================  ===========================================================================
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from actors.errors import BadInputError
from actors.waiting import is_answered, poll
from storage.disk import witness
from storage.disk.directory import STALE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLUSTER_FILE: Final = "cluster.json"
LOCK_FILE: Final = "lock"
FORMAT: Final = 3
"""3: coordinators have hosts. 2: partitions have several replicas; the cluster has a secret."""
FORMATS_READ: Final = (2, FORMAT)
LOCK_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The cluster that a data directory belongs to. The last of ``ports`` is the console's.

    ``replicas`` is ``offsets.topic.replication.factor``; it and ``partitions`` are fixed at the
    first start. ``secret`` is known only to the cluster's coordinators. ``directories`` are the
    ids of the nodes' directories that the cluster was formed from; empty before that.
    ``replica_nodes`` are the nodes of each partition (:class:`actors.cluster.spec.ClusterSpec`).

    ``hosts`` are the addresses of the Ray nodes on which the coordinators ran last, by node id;
    empty on the cluster's own Ray. ``moved`` are the nodes of which a move to another host has at
    least begun: only the directory on their host is theirs. Each host has a copy of the file; the
    one with the highest ``revision`` is the newest. ``unknown`` is what a later version has added,
    which stays in the file.
    """

    cluster_id: str
    partitions: int
    ports: tuple[int, ...]
    replicas: int
    secret: str = field(repr=False)
    directories: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    replica_nodes: tuple[tuple[int, ...], ...] = ()
    moved: tuple[int, ...] = ()
    revision: int = 0
    format: int = FORMAT
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


FIELDS: Final = frozenset(one.name for one in fields(ClusterFile)) - {"unknown"}


def open_data_dir(path: Path) -> ClusterFile | None:
    """Create the directory, or return the cluster that it belongs to; None if it is new."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInputError(
            f"The data directory {path} cannot be written: {error.strerror}."
        ) from error
    file = path / CLUSTER_FILE
    if file.exists():
        return _read(file)
    if any(entry.name.startswith("node-") for entry in path.iterdir()):
        raise BadInputError(
            f"The data directory {path} has logs but no {CLUSTER_FILE}. "
            "Put that file back, or use another directory."
        )
    return None


def _read(file: Path) -> ClusterFile:
    try:
        return parse(file.read_text(), str(file))
    except OSError as error:
        raise BadInputError(_unreadable(str(file), error)) from error


def parse(text: str, where: str) -> ClusterFile:
    """Return the cluster that a cluster file describes.

    Raises :class:`actors.errors.BadInputError`, with ``where`` the file is.
    """
    try:
        row = json.loads(text)
        if (found := int(row["format"])) not in FORMATS_READ:
            raise BadInputError(
                f"{where} has format {found}, but this version reads format {FORMAT}. "
                "Use the version that wrote it, or another data directory."
            )
        known = {name: row[name] for name in FIELDS & row.keys()}
        return ClusterFile(
            **{
                **known,
                "unknown": {name: row[name] for name in row.keys() - FIELDS},
                "ports": tuple(map(int, row["ports"])),
                "directories": tuple(map(str, row["directories"])),
                "hosts": tuple(map(str, row.get("hosts", ()))),
                "replica_nodes": tuple(
                    tuple(map(int, nodes)) for nodes in row.get("replica_nodes", ())
                ),
                "moved": tuple(map(int, row.get("moved", ()))),
                "format": FORMAT,
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInputError(_unreadable(where, error)) from error


def _unreadable(where: str, error: Exception) -> str:
    return f"{where} cannot be read ({error}). Put it back, or use another directory."


def render(cluster: ClusterFile) -> str:
    """Return the text of a cluster file."""
    row = asdict(cluster)
    return json.dumps(row | row.pop("unknown"), indent=2) + "\n"


def save(path: Path, cluster: ClusterFile) -> None:
    """Write the cluster file (:func:`save_text`)."""
    save_text(path, render(cluster))


def save_text(path: Path, text: str) -> None:
    """Write the text of a cluster file atomically.

    It contains the secret, so only its owner may read it. Raises
    :class:`actors.errors.BadInputError`.
    """
    file = path / CLUSTER_FILE
    try:
        write_whole(file, text, mode=0o600)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}.") from error


def read_secret(path: Path) -> bytes:
    """Return the cluster's secret; raises :class:`actors.errors.BadInputError`."""
    return _read(path / CLUSTER_FILE).secret.encode()


def accept_copies(path: Path, nodes: int) -> None:
    """Make the next start accept every node's directory as its newest state.

    Everything acknowledged after the copies were made is lost: a last resort for an operator who
    has nothing newer. Raises :class:`actors.errors.BadInputError`.
    """
    for node_id in range(nodes):
        directory = path / f"node-{node_id}"
        try:
            if directory.exists():
                witness.accept(directory)
                (directory / STALE).unlink(missing_ok=True)
        except OSError as error:
            raise BadInputError(f"{directory} cannot be accepted: {error.strerror}.") from error


def write_whole(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically: after a crash it has either its old or its new content."""
    beside = file.with_name(f".{file.name}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
    descriptor = os.open(file.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def new_cluster_id() -> str:
    """Generate a cluster id in Kafka's format: 16 random bytes, base64url without padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def new_secret() -> str:
    """Generate the secret by which the coordinators of a cluster authenticate (hex)."""
    return secrets.token_hex(32)


# --- the lock


def check_unlocked(path: Path) -> None:
    """Raise BadInputError if a running cluster uses the directory."""
    with _refusing(path), (path / LOCK_FILE).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hold_lock(path: str) -> IO[str]:
    """Lock the directory for the life of this process (the returned file is the lock).

    Waits a little, as a predecessor that was just killed may not have ended yet.
    """
    Path(path).mkdir(parents=True, exist_ok=True)
    lock = (Path(path) / LOCK_FILE).open("a")
    poll(
        lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
        LOCK_S,
        is_done=is_answered,
        retry=(OSError,),
    )
    return lock


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise BadInputError(
            f"The data directory {path} cannot be locked: {error.strerror}."
        ) from error
    except OSError:
        raise BadInputError(
            f"The data directory {path} is in use by a running cluster. "
            "Stop it with `rollcall down`, or choose another --data-dir."
        ) from None
