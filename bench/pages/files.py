"""Write reports: the file's name says in which form, and nobody finds half of one."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.installation import installed_version
from bench.pages.document import as_json
from bench.pages.page import page
from bench.pages.runs import report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.pages.document import ReportDocument
    from bench.pages.runs import ReportedRun

FORMS: Final[Mapping[str, Callable[[ReportDocument], str]]] = {
    ".html": page,
    ".json": lambda report: as_json(report).decode() + "\n",
}
"""What a report is written as, by the suffix of the file."""


def report_path(text: str) -> Path:
    """Return where to write a report, before the work is done; for ``argparse``."""
    path = Path(text)
    if path.suffix not in FORMS:
        raise argparse.ArgumentTypeError(f"{text!r} must end with {' or '.join(FORMS)}")
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is in no directory: create it first")
    return path


def write_reports(
    paths: Sequence[Path], title: str, about: str, runs: Sequence[ReportedRun]
) -> None:
    """Write one report of these runs to each path, and say where; raises OSError."""
    if not paths:
        return
    program = f"Rollcall {installed_version()}"
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    document = report(title, about, runs, program, made)
    for path in paths:
        write_report(path, document)
        print(f"report: {path}", flush=True)


def write_report(path: Path, report: ReportDocument) -> None:
    """Write a report as the suffix of ``path`` says; raises OSError."""
    write_aside(path, FORMS[path.suffix](report))


def write_aside(path: Path, text: str) -> None:
    """Write a file under another name, then give it its own; raises OSError."""
    aside = path.with_name(f"{path.name}.partial")
    try:
        aside.write_text(text, "utf-8")
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
