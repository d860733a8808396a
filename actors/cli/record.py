"""``rollcall record``: save the recent events of a running cluster's groups, for a replay."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import call_cluster
from actors.cli.output.documents import tell
from actors.cli.session import complain
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from actors.cluster.registry import RegisteredCluster
    from actors.coordinator.incidents import Recorded

ONLY_US: Final = 0o600


def record(found: RegisteredCluster, node_id: int | None, out: Path, args: Namespace) -> int:
    """Save one coordinator's events, or all, in a file; name the partitions that are missing."""
    if node_id is not None and not 0 <= node_id < found.partitions:
        raise BadInputError(f"There is no coordinator {node_id}.")
    if out.exists():
        raise BadInputError(f"{out} already exists: choose another file with --out.")
    nodes = range(found.partitions) if node_id is None else (node_id,)

    def question() -> list[Recorded]:
        from actors.deployment import actors

        return [actors.record(each) for each in nodes]

    answers: list[Recorded] = call_cluster(found, question)
    for answer in answers:
        for partition, why in answer.missing:
            complain(f"{title_of(partition)} is not recorded: {why}")
    data = b"".join(answer.data for answer in answers)
    if not data:
        raise FailureError(
            "nothing is recorded: set incident.recording.max.bytes, for instance to 33554432"
        )
    try:
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ONLY_US), "wb") as file:
            file.write(data)
    except OSError as error:
        raise FailureError(f"{out} cannot be written: {error.strerror or error}.") from error
    missing = [
        {"partition": title_of(partition), "why": why}
        for answer in answers
        for partition, why in answer.missing
    ]
    document = {"file": str(out), "bytes": len(data), "missing": missing}
    tell(args, f"wrote {out}, {len(data)} bytes", document)
    return 0
