"""Render the document of a report as one HTML page that needs no network.

The tables are HTML, so they are there without JavaScript; scripts draw the pictures from the
document in the page. A Content-Security-Policy allows these scripts and styles alone, by their
hashes. What clients named is escaped wherever it is written.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from typing import TYPE_CHECKING, Final

from actors.console.assets import UPLOT, asset
from bench.pages.document import as_json
from bench.pages.tables import (
    SENTENCE_MAX,
    bounded,
    costs_table,
    duration,
    figures_table,
    marks_table,
    rebalances_table,
)
from protocol.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.pages.document import GroupStory, ReportDocument, RunReport

STYLES: Final = ("uPlot.min.css", "page.css")
SCRIPTS: Final = ("uPlot.iife.min.js", "view.js", "ownership.js", "charts.js")
LICENCE: Final = "uPlot.LICENSE"

LEGEND: Final = {
    "member": "a colour for each member",
    "nobody": "no owner",
    "before": "not yet assigned",
    "rebalance": "rebalance",
    "behaviour": "what the application does",
    "fault": "what the cluster suffers",
}

TOOLS: Final = {
    "whole": "Whole run",
    "in": "Zoom in",
    "out": "Zoom out",
    "back": "◀ Earlier",
    "on": "Later ▶",
    "save": "Save the data (JSON)",
}

GLOSSARY: Final = {
    "rebalances": "generations after the first change in which a member was given an assignment",
    "unavailable member-s": "the time, summed over the members, in which a running member had no"
    " assignment, as it was joining or in a rebalance",
    "longest unowned s": "the longest time in which a partition had no owner",
    "partitions moved": "how often a partition came to another member than before",
    "failed members": "members that an error ended, such as FENCED_INSTANCE_ID",
    "most partitions": "partitions of the member that has most in the end",
    "revoked from survivors": "partitions that were taken from members that live from before the"
    " first change to the end",
    "waits": "the time of one member from its start, or from the rebalance it was asked into, to"
    " its assignment; a wait counts when it ends, and percentiles are exact to 3 %",
    "gaps": "the time from one answered heartbeat of a member to the next; a gap counts when it"
    " ends",
    "members and partitions that wait": "means over each step of time",
}

CHARTS: Final = {
    "members": "Members and partitions that wait",
    "waits": "How long members waited for an assignment",
    "gaps": "Gaps between answered heartbeats",
    "requests": "How long heartbeats and commits took",
    "errors": "Errors in each step",
}
"""The charts of a group, by what the script draws."""

FORMS: Final = {
    "owners": "",
    "counts": "The darker a partition, the more members have it.",
    "bands": "Each row stands for {} partitions: dark where partitions come to another member,"
    " red where some have no owner.",
}
"""What the reader of a picture must know, by the form of the picture."""

REBALANCES_SHOWN: Final = 15
"""A longer table of rebalances is folded up."""


def page(report: ReportDocument) -> str:
    """Return the page."""
    return "".join(_page(report))


def _page(report: ReportDocument) -> Iterator[str]:
    styles = [_asset(name) for name in STYLES]
    scripts = [_asset(name) for name in SCRIPTS]
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_policy(styles, scripts)}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"<title>{_safe(report.title)}: {'clean' if report.is_clean else 'not clean'}</title>\n"
    yield from (f"<style>{style}</style>\n" for style in styles)
    yield '</head><body>\n<a class="skip" href="#costs">To the costs</a>\n'
    yield from _header(report)
    yield "<main>\n"
    yield from _costs(report)
    yield from _stories(report)
    yield from _words(report)
    yield "</main>\n"
    made = f", {_safe(report.made)}" if report.made else ""
    yield f'<footer class="soft">Made by {_safe(report.program)}{made}. '
    yield "Charts by uPlot (MIT).</footer>\n"
    yield f'<script type="application/json" id="document">{_embedded(report)}</script>\n'
    yield f"<!-- uPlot:\n{_asset(LICENCE)}-->\n"
    yield from (f"<script>{script}</script>\n" for script in scripts)
    yield "</body></html>\n"


def _header(report: ReportDocument) -> Iterator[str]:
    facts = dict.fromkeys(f"{run.how}, {duration(run.duration_ms)}" for run in report.runs)
    runs = f"{len(report.runs)} runs: " if len(report.runs) > 1 else ""
    yield f'<header><p class="soft">{runs}{_safe("; ".join(facts))}</p>'
    yield f"<h1>{_safe(report.title)}</h1><p>{_sentence(report.about)}</p>\n"
    kind, words = _judged(is_clean=report.is_clean)
    yield f'<p class="verdict {kind}"><strong>{words}</strong>{_sentence(report.verdict)}</p>\n'
    if len(report.runs) > 1:
        yield "<ul>"
        for run in report.runs:
            kind, words = _judged(is_clean=run.is_clean)
            yield f'<li class="{kind}">{_safe(run.name)}: <strong>{words}</strong>'
            yield f"{_sentence(run.verdict)}</li>"
        yield "</ul>"
    yield "</header>\n"


def _judged(*, is_clean: bool) -> tuple[str, str]:
    return ("good", "✓ Clean.") if is_clean else ("bad", "✗ Not clean.")


def _costs(report: ReportDocument) -> Iterator[str]:
    yield '<section id="costs"><h2>What it cost</h2>\n'
    yield figures_table(report)
    yield costs_table(report)
    yield "</section>\n"
    if any(run.found for run in report.runs):
        yield '<section id="broken"><h2>What must never happen, and did</h2>\n'
        for run in report.runs:
            for name, sentences in run.found.items():
                yield f"<h3>{_of(report, run)}{_safe(name)}</h3><ul>"
                yield "".join(f"<li>{_sentence(each)}</li>" for each in sentences)
                yield "</ul>\n"
        yield "</section>\n"


def _stories(report: ReportDocument) -> Iterator[str]:
    names = dict.fromkeys(story.group for run in report.runs for story in run.stories)
    if not names:
        return
    yield '<section id="groups"><h2>What happened</h2>\n<div class="bar-of-tools">'
    for tool, words in TOOLS.items():
        yield f'<button type="button" data-tool="{tool}">{words}</button>'
    yield '</div>\n<ul class="legend">'
    for key, words in LEGEND.items():
        yield f'<li><span class="key {key}"></span>{words}</li>'
    yield "</ul>\n<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>\n"
    yield '<p class="soft hint">Drag to zoom all pictures alike, double-click for the whole run. '
    yield "Point at a stretch for its owner, click for the partition's history.</p>\n"
    if len(report.runs) == 1:
        yield '<div class="stories">\n'
        for index, story in enumerate(report.runs[0].stories):
            yield from _story(story, story.group, f'data-run="0" data-story="{index}"')
        yield "</div>\n"
    else:
        for group in names:
            yield f'<h2 class="name">{_safe(group)}</h2>\n<div class="stories">\n'
            yield from _side_by_side(report, group)
            yield "</div>\n"
    yield "</section>\n"


def _side_by_side(report: ReportDocument, group: str) -> Iterator[str]:
    for number, run in enumerate(report.runs):
        for index, story in enumerate(run.stories):
            if story.group == group:
                yield from _story(story, run.name, f'data-run="{number}" data-story="{index}"')


def _story(story: GroupStory, title: str, place: str) -> Iterator[str]:
    yield f'<section class="story"><h3>{_safe(title)}</h3>'
    yield f'<figure class="picture" {place} data-draws="ownership"></figure>\n'
    if words := FORMS[story.ownership.form].format(story.ownership.band):
        yield f'<p class="soft">{words}</p>\n'
    for kind, words in CHARTS.items():
        if _is_drawn(story, kind):
            yield f'<div class="chart"><h4>{words}</h4>'
            yield f'<figure {place} data-draws="{kind}"></figure></div>\n'
    later = sum(not each.is_initial for each in story.rebalances)
    is_open = " open" if later <= REBALANCES_SHOWN else ""
    yield f"<details{is_open}><summary>Rebalances: {later}</summary>"
    yield f"{rebalances_table(story)}</details>\n"
    yield "</section>\n"


def _is_drawn(story: GroupStory, kind: str) -> bool:
    """Whether there is anything in a chart that not every group has."""
    if kind == "errors":
        return bool(story.trends.errors)
    durations = story.trends.durations_ms
    if kind == "requests":
        return kind in durations and any(durations[kind]["max"])
    return kind == "members" or kind in durations


def _words(report: ReportDocument) -> Iterator[str]:
    yield '<section id="marks"><h2>What was done, and when</h2>\n'
    for run in report.runs:
        count = f"{len(run.marks)} mark{'' if len(run.marks) == 1 else 's'}"
        yield f"<details><summary>{_of(report, run)}{count}</summary>"
        yield f"{marks_table(run)}</details>\n"
    yield '</section>\n<section id="notes"><h2>How to read this</h2>\n<dl>'
    for name, words in GLOSSARY.items():
        yield f"<dt>{name}</dt><dd>{words}</dd>"
    yield "</dl>\n"
    for run in report.runs:
        for note in run.notes:
            yield f"<p>{_of(report, run)}{_sentence(note)}</p>\n"
    yield "</section>\n"


def _of(report: ReportDocument, run: RunReport) -> str:
    return f"{_safe(run.name)}: " if len(report.runs) > 1 else ""


def _safe(name: str) -> str:
    return html.escape(shown(name))


def _sentence(text: str) -> str:
    return html.escape(bounded(" ".join(text.split()), SENTENCE_MAX))


def _embedded(report: ReportDocument) -> str:
    """Return the document as JSON that cannot end the script element that it is in."""
    text = as_json(report).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(styles: list[str], scripts: list[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)};"
        " base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _asset(name: str) -> str:
    if name in UPLOT:
        return asset(name)
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")
