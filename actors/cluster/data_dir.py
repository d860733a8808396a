"""The data directory: its cluster, its ports, and the lock that lets only one cluster use it.

=================  ===========================================================================
``cluster.json``   the cluster's id and secret, its partitions, replicas, ports and directories
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
import socket
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from actors.errors import BadInputError
from actors.waiting import is_answered, poll
from storage.disk import witness
from storage.disk.directory import STALE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CLUSTER_FILE: Final = "cluster.json"
LOCK_FILE: Final = "lock"
FORMAT: Final = 2
"""2: partitions have several replicas, so the cluster has a secret and knows its directories."""
LOCK_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The cluster that a data directory belongs to. The last of ``ports`` is the console's.

    ``replicas`` is ``offsets.topic.replication.factor``; it and ``partitions`` are fixed at the
    first start. ``secret`` is known only to the cluster's coordinators. ``directories`` are the
    ids of the nodes' directories that the cluster was formed from; empty before that.
    """

    cluster_id: str
    partitions: int
    ports: tuple[int, ...]
    replicas: int
    secret: str = field(repr=False)
    directories: tuple[str, ...] = ()
    format: int = FORMAT


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
        row = json.loads(file.read_text())
        if (found := int(row["format"])) != FORMAT:
            raise BadInputError(
                f"{file} has format {found}, but this version reads format {FORMAT}. "
                "Use the version that wrote it, or another data directory."
            )
        return ClusterFile(
            **{
                **row,
                "ports": tuple(map(int, row["ports"])),
                "directories": tuple(map(str, row["directories"])),
            }
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInputError(
            f"{file} cannot be read ({error}). Put it back, or use another directory."
        ) from error


def save(path: Path, cluster: ClusterFile) -> None:
    """Write the cluster file atomically.

    It contains the secret, so only its owner may read it. Raises
    :class:`actors.errors.BadInputError`.
    """
    file = path / CLUSTER_FILE
    try:
        write_whole(file, json.dumps(asdict(cluster), indent=2) + "\n", mode=0o600)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}.") from error


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


# --- ports


def choose_ports(host: str, first: int, count: int, before: Sequence[int]) -> tuple[int, ...]:
    """Return ``count`` ports for the listeners and one for the console.

    The listeners' ports start at ``first``; 0 means the ports of the last start if they are free,
    else any free ports. The console never takes a listener's port.
    """
    if first:
        if first + count > 65_536:
            raise BadInputError(f"--port {first} leaves no room for {count} listeners below 65536.")
        wanted = tuple(range(first, first + count))
        for port in wanted:
            if why := bind_error(host, port):
                raise BadInputError(f"Cannot listen on {host}:{port}: {why}.")
        if len(before) == count + 1 and not bind_error(host, before[-1]):
            return (*wanted, before[-1])
        return (*wanted, *_free_ports(host, 1, wanted))
    if why := bind_error(host, 0):
        raise BadInputError(f"Cannot listen on {host}: {why}.")
    if len(before) == count + 1 and not any(bind_error(host, port) for port in before):
        return tuple(before)
    return _free_ports(host, count + 1, ())


def _free_ports(host: str, count: int, but: Sequence[int]) -> tuple[int, ...]:
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            probe = stack.enter_context(_socket(host))
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
            if port not in but:
                found.append(port)
        return tuple(found)


def bind_error(host: str, port: int) -> str:
    """Return why the address cannot be bound now; "" if it can."""
    try:
        with _socket(host) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
