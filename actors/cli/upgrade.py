"""``rollcall upgrade``: raise the finalized feature level once all coordinators support it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.cli.client import TIMEOUT_S, AdminClient, named, parse_bootstrap
from actors.cli.discovery import find_cluster, read_status
from actors.cli.output.documents import add_json_flag
from actors.cli.output.tables import documents, table
from actors.errors import FailureError
from actors.waiting import poll
from failover.catalogue.levels import ROLLCALL_VERSION, LevelRange
from protocol.wire.admin_messages import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Mapping, Sequence

BACKOFF_S: Final = 0.2
HEADER: Final = ("NODE", "HOST", "VERSION", "SUPPORTED")


class Levels(NamedTuple):
    """The finalized level, and the newest one that any coordinator supports."""

    finalized: int
    newest: int


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall upgrade``."""
    parser = subparsers.add_parser(
        "upgrade", help="raise the feature level once all coordinators have the new version"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say whether it can be raised")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the cluster of this data directory"
    )
    parser.add_argument(
        "--address", metavar="auto|HOST:PORT", help="the cluster that runs on this Ray"
    )
    add_json_flag(parser, "the coordinators and their levels")
    parser.set_defaults(run=_upgrade)


def _upgrade(args: Namespace) -> int:
    status = read_status(find_cluster(args.data_dir, args.address))
    rows = status["coordinators"]
    levels = levels_of(rows)
    say: Callable[[str], object] = (lambda _line: None) if args.json else print
    say(table(HEADER, map(_shown, rows)))
    say(f"{ROLLCALL_VERSION} is finalized at level {levels.finalized}.")
    is_later = levels.newest > levels.finalized
    if is_later:
        refuse_older(rows, levels.newest)
        with AdminClient(parse_bootstrap(status["bootstrap"])) as client:
            finalize(client, levels.newest, is_question=args.dry_run)
        done = "can be raised" if args.dry_run else "is raised"
        say(f"{ROLLCALL_VERSION} {done} to level {levels.newest}.")
    else:
        say("No coordinator supports a later level.")
    if args.json:
        print(json.dumps(_document(rows, levels, is_raised=is_later and not args.dry_run)))
    return 0


def _document(
    rows: Sequence[Mapping[str, Any]], levels: Levels, *, is_raised: bool
) -> dict[str, Any]:
    return {
        "feature": ROLLCALL_VERSION,
        "finalized_before": levels.finalized,
        "finalized": levels.newest if is_raised else levels.finalized,
        "newest_supported": levels.newest,
        "is_raised": is_raised,
        "coordinators": list(documents(HEADER, map(_shown, rows))),
    }


def _shown(row: Mapping[str, Any]) -> tuple[object, ...]:
    supported = _supported(row)
    host = row["ray_host"] or row["host"]
    return row["node_id"], host, row.get("version", ""), "" if supported is None else supported


def _supported(row: Mapping[str, Any]) -> LevelRange | None:
    """Return the levels that a coordinator supports; None if it does not tell."""
    told = row.get("levels")
    return LevelRange(*told["supported"]) if told else None


def levels_of(rows: Sequence[Mapping[str, Any]]) -> Levels:
    """Return the levels that the coordinators tell in the cluster's status."""
    told = [row["levels"] for row in rows if row.get("levels")]
    return Levels(
        max((one["finalized"] for one in told), default=0),
        max((one["supported"][1] for one in told), default=0),
    )


def refuse_older(rows: Sequence[Mapping[str, Any]], level: int) -> None:
    """Raise FailureError if a coordinator does not answer, or does not support a level."""
    silent = [str(row["node_id"]) for row in rows if "version" not in row]
    if silent:
        raise FailureError(
            f"Coordinator {', '.join(silent)} does not answer, so its version is not known: start "
            "or replace it, then run `rollcall upgrade` again."
        )
    older = [
        f"coordinator {row['node_id']} (version {row['version']})"
        for row in rows
        if level not in (_supported(row) or ())
    ]
    if older:
        raise FailureError(
            f"Level {level} is not supported by {', '.join(older)}: install the new version there, "
            "then run `rollcall upgrade` again."
        )


def finalize(client: AdminClient, level: int, *, is_question: bool) -> None:
    """Ask for a level, or only whether it is possible; raise FailureError if it is refused."""
    update = FeatureUpdateKey(feature=ROLLCALL_VERSION, max_version_level=level)
    message = UpdateFeaturesRequest(
        timeout=timedelta(seconds=TIMEOUT_S), feature_updates=(update,), validate_only=is_question
    )
    answer = poll(
        lambda: client.ask(message),
        TIMEOUT_S,
        is_done=lambda answer: answer.error_code is not ErrorCode.not_controller,
        every_s=BACKOFF_S,
    )
    if answer.error_code is not ErrorCode.none:
        raise FailureError(answer.error_message or f"It failed: {named(answer.error_code)}.")
