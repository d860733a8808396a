"""The console of a `rollcall watch`: what its pages and metrics say of a real Kafka's groups."""

from __future__ import annotations

import html
import re
import urllib.request
from typing import TYPE_CHECKING, Final

from actors.watching.console import INFERRED
from bench.servers.open_pages import chromium_program
from tests.actors.console.served import await_updates, see
from tests.browser import chromium, opened
from tests.exchange.watched_kafka import TOLD_S, TOPIC, Watching
from tests.promtool import check_metrics, has_promtool
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHOWN: Final = (
    re.escape(INFERRED),
    "member b .*joined.*; 2 of 4 partitions moved",
    "member b .* left .inferred: its last commit was",
    "member c .* sent no heartbeat within its .* served by nobody",
    rf"Members .* a 127\.0\.0\.1 4 : {TOPIC}-0",
    rf"Offsets .* {TOPIC}-0 97 100 3 {TOPIC}-1 97 0 0 {TOPIC}-2 97 0 0 {TOPIC}-3 97 0 0",
)
"""What the page of a group shows once c was killed: a has all partitions, and commits there."""

EXPOSED: Final = (
    r'kafka_consumergroup_members{consumergroup="KIND",coordinator="0"} 1\.0',
    rf'kafka_consumergroup_lag{{consumergroup="KIND",partition="0",topic="{TOPIC}"}} 3\.0',
    rf'kafka_consumergroup_current_offset{{consumergroup="KIND",partition="3",topic="{TOPIC}"}} 97',
    'trigger="session-expired"',
)
"""What Prometheus reads of the same group."""

SEEN: Final[Mapping[str, str]] = {
    "classic": "member i-1 .*came back under a new member id",
    "modern": "it has changed its type.*did not give up its partitions.*"
    "regular expression matches other topics.*topics have changed",
    "share": "member java-1 .*joined",
    "streams": "its assignment configs have changed",
}
"""What a browser shows of groups; the stories of each, the newest first."""

LASTING: Final = 6
"""The columns of members that do not depend on when somebody began to watch."""


class Pages:
    """Asks the console of a watch for its pages."""

    def __init__(self, watching: Watching) -> None:
        (self.url,) = re.findall(r"console: (http\S+)", watching.noted())

    def text(self, path: str) -> str:
        """Return a page."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=TOLD_S) as answer:
            return str(answer.read().decode())

    def rows(self, path: str) -> list[list[str]]:
        """Return the groups: id, type, state, members. Or the members on a group's page."""
        section, columns = ("members", LASTING) if "group?" in path else ("list", 4)
        _, _, text = self.text(path).partition(f'<section id="{section}"')
        body = text.partition("</section>")[0].partition("<tbody>")[2]
        return sorted(
            [plain(cell) for cell in re.findall(r"<t[hd].*?>.*?</t[hd]>", row, re.DOTALL)][:columns]
            for row in re.findall("<tr.*?>(.*?)</tr>", body, re.DOTALL)
        )

    def has(self, path: str, patterns: Sequence[str]) -> None:
        """Wait until a page has everything."""
        try:
            until(lambda: not self._lacks(path, patterns), TOLD_S, f"{path} is complete")
        except AssertionError as error:
            error.add_note(f"It lacks {self._lacks(path, patterns)}: {self.text(path)}")
            raise

    def _lacks(self, path: str, patterns: Iterable[str]) -> list[str]:
        shown = plain(self.text(path))
        return [each for each in patterns if not re.search(each, shown)]


def plain(text: str) -> str:
    """Return what a person reads."""
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split())


def are_shown(pages: Pages, kinds: Iterable[str]) -> None:
    """The pages and the metrics have what the groups did."""
    for kind in kinds:
        pages.has("/", [rf"{kind} {kind} Stable 1 \d+ 3\b"])
        pages.has(f"/group?id={kind}", [*SHOWN, rf"type {kind} state Stable members 1\b"])
        pages.has("/metrics", [each.replace("KIND", kind) for each in EXPOSED])
    if has_promtool():
        check_metrics(pages.text("/metrics"))


def in_a_browser(pages: Pages) -> None:
    """A real browser shows the groups' stories, and has nothing to complain about."""
    if chromium_program() is None:
        return
    with chromium() as browser:
        with opened(browser, f"{pages.url}/") as watched:
            await_updates(watched.page)
            for group_id in SEEN:
                see(watched.page, "#list", group_id)
            assert watched.complaints == []
        for group_id, pattern in SEEN.items():
            with opened(browser, f"{pages.url}/group?id={group_id}") as watched:
                await_updates(watched.page)
                see(watched.page, "#stories", pattern)
                assert watched.complaints == []
                assert all(each.startswith(pages.url) for each in watched.requests)
