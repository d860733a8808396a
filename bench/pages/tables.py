"""The tables of a page: costs against limits, rebalances, marks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from protocol.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.pages.document import (
        CostRow,
        Figure,
        GroupStory,
        RebalanceSpan,
        ReportDocument,
        RunReport,
    )

CAUSE_MAX: Final = 400
SENTENCE_MAX: Final = 2_000
"""Characters of a cell and of a sentence."""


def duration(ms: float) -> str:
    """Return a duration for people."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1000:.3g} s"
    minutes, rest = divmod(round(ms / 1000), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def figures_table(report: ReportDocument) -> str:
    """Return the figures of whole runs, one figure in a row, each run in a column."""
    names = dict.fromkeys(figure.name for run in report.runs for figure in run.figures)
    if not names:
        return ""
    several = len(report.runs) > 1
    heads = [html.escape(shown(run.name)) if several else "value" for run in report.runs]
    lines = ['<div class="scroll"><table class="figures"><thead><tr><th scope="col"></th>']
    lines += [f'<th scope="col">{head}</th>' for head in heads]
    lines.append("</tr></thead><tbody>\n")
    for name in names:
        found = [{each.name: each for each in run.figures}.get(name) for run in report.runs]
        most = max(each.value or 0.0 for each in found if each is not None)
        cells = [
            "<td></td>" if each is None else _cell(each, most, has_bar=several or bool(each.limit))
            for each in found
        ]
        lines.append(f'<tr><th scope="row">{html.escape(bounded(name))}</th>{"".join(cells)}</tr>')
    lines.append("</tbody></table></div>\n")
    return "".join(lines)


def costs_table(report: ReportDocument) -> str:
    """Return what each group paid in each run; with several runs, which paid least."""
    rows = [(run, row) for run in report.runs for row in run.costs]
    if not rows:
        return ""
    names = [figure.name for figure in rows[0][1].figures]
    several = len(report.runs) > 1
    groups = list(dict.fromkeys(row.group for _, row in rows))
    most = {name: max((_value(row, name) for _, row in rows), default=0.0) for name in names}
    lines = ['<div class="scroll"><table class="costs"><thead><tr><th scope="col">group</th>']
    lines += ['<th scope="col">run</th>'] if several else []
    lines += [f'<th scope="col">{html.escape(name)}</th>' for name in names]
    lines.append("</tr></thead><tbody>\n")
    for group in groups:
        own = [(run, row) for run, row in rows if row.group == group]
        lines += _group_rows(own, most, several=several)
    lines.append("</tbody></table></div>\n")
    return "".join(lines)


def _group_rows(
    own: Sequence[tuple[RunReport, CostRow]],
    most: dict[str, float],
    *,
    several: bool,
) -> Iterator[str]:
    for number, (run, row) in enumerate(own):
        is_last = number == len(own) - 1
        yield "<tr>" if is_last else '<tr class="run">'
        if not number:
            span = f' rowspan="{len(own)}"' if several else ""
            yield f'<th scope="row"{span}>{html.escape(shown(row.group))}'
            yield "</th>" if several else f"{_kind(row)}</th>"
        if several:
            yield f"<td>{html.escape(shown(run.name))}{_kind(row)}</td>"
        for figure in row.figures:
            least = min(_value(each, figure.name) for _, each in own)
            spread = max(_value(each, figure.name) for _, each in own) > least
            is_least = several and figure.is_cost and spread and figure.value == least
            yield _cell(figure, most[figure.name], is_least=is_least)
        yield "</tr>\n"


def _kind(row: CostRow) -> str:
    return f'<div class="kind">{html.escape(row.kind)}</div>'


def _value(row: CostRow, name: str) -> float:
    return next((each.value or 0.0 for each in row.figures if each.name == name), 0.0)


def _cell(figure: Figure, most: float, *, is_least: bool = False, has_bar: bool = True) -> str:
    kept = "" if not figure.is_judged else " kept" if figure.is_within else " over"
    limit = f'<span class="limit">{limit_words(figure)}</span>' if figure.is_judged else ""
    least = '<span class="least">least</span>' if is_least else ""
    whole = max(figure.limit or 0.0, figure.value or 0.0) if figure.limit is not None else most
    bar = _bar(figure.value or 0.0, whole, kept) if has_bar else ""
    return (
        f'<td class="figure{kept}"><span class="value">{number(figure.value)}</span>{limit}{least}'
        f"{bar}</td>"
    )


def limit_words(figure: Figure) -> str:
    """Return in words what a figure may be; which limit it does not keep comes alone."""
    value = figure.value
    if value is not None and figure.limit is not None and value > figure.limit:
        return f"over {number(figure.limit)}"
    if value is not None and figure.least is not None and value < figure.least:
        return f"under {number(figure.least)}"
    words = [f"at least {number(figure.least)}"] if figure.least is not None else []
    words += [f"at most {number(figure.limit)}"] if figure.limit is not None else []
    return ", ".join(words)


def _bar(value: float, whole: float, kept: str) -> str:
    part = 100 * value / whole if whole else 0
    return (
        f'<svg class="bar{kept}" viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="whole" width="100" height="5"/>'
        f'<rect class="part" width="{part:.1f}" height="5"/></svg>'
    )


def number(value: float | None) -> str:
    """Return a figure as text: whole numbers with separators, others with one digit or more."""
    if value is None:
        return "-"
    if 0 < abs(value) < 0.1:
        return f"{value:.1g}"
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.1f}"


REBALANCE_HEADS: Final = ("generation", "began", "took", "partitions moved", "cause")


def rebalance_row(each: RebalanceSpan) -> tuple[str, ...]:
    """Return the cells of a rebalance below :data:`REBALANCE_HEADS`."""
    return (
        f"{each.generation:,}{' (initial)' if each.is_initial else ''}",
        f"{each.began_ms / 1000:,.1f} s",
        duration(each.ended_ms - each.began_ms),
        f"{each.moved:,}",
        bounded(each.cause),
    )


def rebalances_table(story: GroupStory) -> str:
    """Return a group's rebalances, each with its cause and its duration."""
    return _table(REBALANCE_HEADS, [*map(rebalance_row, story.rebalances)])


def marks_table(run: RunReport) -> str:
    """Return what was done during a run, and when."""
    rows = [(f"{each.at_ms / 1000:,.1f} s", each.group or "", each.text) for each in run.marks]
    return _table(("at", "group", "what"), rows)


def bounded(text: str, characters_max: int = CAUSE_MAX) -> str:
    """Return a sentence with names in it: printable, and not too long."""
    short = text if len(text) <= characters_max else f"{text[:characters_max]}..."
    return short if short.isprintable() else ascii(short)[1:-1]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{each}</th>' for each in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{html.escape(bounded(cell))}</td>' for cell in row)}</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{cells}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>"
    )
