"""Write reports: the file's name says in which form."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.installation import installed_version
from bench.pages.document import as_json
from bench.pages.markdown import markdown
from bench.pages.page import page
from bench.result_files import result_path, write_all, write_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.pages.document import ReportDocument

FORMS: Final[Mapping[str, Callable[[ReportDocument], str]]] = {
    ".html": page,
    ".md": markdown,
    ".json": lambda report: as_json(report).decode() + "\n",
}
"""What a report is written as, by the suffix of the file."""


def report_path(text: str) -> Path:
    """Return where to write a report, before the work is done; for ``argparse``."""
    path = Path(text)
    if path.suffix not in FORMS:
        *others, last = FORMS
        raise argparse.ArgumentTypeError(f"{text!r} must end with {', '.join(others)} or {last}")
    return result_path(text)


def write_reports(paths: Sequence[Path], make: Callable[[], ReportDocument]) -> None:
    """Write the report that ``make`` returns to each path, and say where; raises OSError.

    It says which program made it, and when. Nothing is made if there is no path.
    """
    if not paths:
        return
    document = replace(
        make(),
        program=f"Rollcall {installed_version()}",
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    )

    def write(path: Path) -> None:
        write_report(path, document)
        print(f"report: {path}", flush=True)

    write_all(*(partial(write, path) for path in paths))


def write_report(path: Path, report: ReportDocument) -> None:
    """Write a report as the suffix of ``path`` says; raises OSError."""
    write_aside(path, FORMS[path.suffix](report))
