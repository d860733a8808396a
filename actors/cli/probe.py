"""``rollcall status --live`` and ``--ready``: ask one coordinator as a client does, without Ray."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from actors.cli.client import AdminClient, ClientError, parse_bootstrap
from actors.errors import BadInputError, ExitCode, NoClusterError
from failover.catalogue.topic_names import CONSUMER_OFFSETS
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace

ANSWER_S: Final = 5.0
"""How long a coordinator may take to answer; a probe's own time limit is better longer."""


def probe(address: str, *, is_ready: bool, args: Namespace) -> ExitCode:
    """Ask the coordinator at ``HOST:PORT`` whether it answers or, if asked so, is ready.

    It is ready if it sees a running leader for every partition of groups: a client that connects
    to it finds the coordinator of its group. Raises CommandError if it does not answer.
    """
    try:
        (where,) = parse_bootstrap(address)
    except ValueError:
        raise BadInputError(
            f"{address!r} is not the address of a coordinator: give HOST:PORT."
        ) from None
    try:
        with AdminClient([where], ANSWER_S) as client:
            topics = client.metadata([CONSUMER_OFFSETS] if is_ready else ()).topics
    except ClientError as error:
        raise NoClusterError(f"{error}.") from None
    if not is_ready:
        _tell(args, {"address": address, "live": True})
        return ExitCode.OK
    partitions = [row for topic in topics for row in topic.partitions]
    without = [row.partition_index for row in partitions if row.error_code is not ErrorCode.none]
    is_seen = bool(partitions) and not without
    _tell(args, {"address": address, "ready": is_seen, "without_leader": without})
    if is_seen:
        return ExitCode.OK
    which = ", ".join(map(str, without)) or "any"
    print(f"rollcall: {address} sees no leader of partition {which}.", file=sys.stderr)
    return ExitCode.NO_LEADER


def _tell(args: Namespace, document: dict[str, object]) -> None:
    """Print the answer with ``--json``; otherwise only the exit code says it."""
    if args.json:
        print(json.dumps(document))
