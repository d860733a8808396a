"""The page: it needs no network, hostile names are harmless, and its assets are as pinned."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.pages import files
from bench.pages.document import as_json
from bench.pages.files import report_path, write_report
from bench.pages.page import page
from bench.pages.runs import report
from bench.scenarios.scenario import GroupLimits
from tests.bench.pages.histories import T0, A, F, R, crowd, event, handed_over, life, run

ROOT = Path(__file__).parent.parent.parent.parent
ASSETS = ROOT / "actors" / "console" / "assets"
DEPENDENCIES = ROOT / "docs" / "decisions" / "dependencies.md"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&--> \u202e\u2028\0"


class Elements(HTMLParser):
    """The elements of a page, their attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.words, self._open = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._open = (tag, dict(attrs))
            self.texts.append([*self._open, ""])

    def handle_endtag(self, tag):
        if self._open and tag == self._open[0]:
            self._open = None

    def handle_data(self, data):
        if self._open:
            self.texts[-1][2] += data
        else:
            self.words.append(data)


def hostile():
    lives = [life(HOSTILE, 1, event(100, A, 1, (HOSTILE, 0)), group=HOSTILE)]
    made = run(
        *lives, group=HOSTILE, topic=HOSTILE, partitions=2, marks=((5, f"{HOSTILE}: {HOSTILE}"),),
        limits=GroupLimits(unowned_seconds_max=1), name=HOSTILE,
    )  # fmt: skip
    return report(HOSTILE, HOSTILE, [made, made])


def test_a_page_of_fifty_thousand_members_is_small():
    text = page(report("s", "x", [crowd(50_000)]))
    assert len(text) < 300_000


def test_names_and_stretches_without_end_make_no_page_without_end():
    long, moments = "n" * 249, range(1_000, 9_000, 4)
    turns = [
        [each for at in moments for each in (event(at + n, A, at + n, T0), event(at + n + 2, R))]
        for n in (0, 2)
    ]
    lives = [life(f"{long}{n}", n, *events) for n, events in enumerate(turns)]
    goes = [life(f"{long}{at}", at, event(at, A, at), event(at, F, -1)) for at in moments]
    made = run(*lives, *goes, marks=[(at, f"a: {long}") for at in moments], name=long)
    assert len(page(report(long, long, [made] * 8))) < 6_000_000


def plain():
    return report("s", "x", [handed_over()])


def test_hostile_names_make_no_elements_and_no_attributes():
    ours, theirs = Elements(page(plain())), Elements(page(hostile()))
    assert {tag for tag, _ in theirs.tags} <= {tag for tag, _ in ours.tags} | {"h3", "ul", "li"}
    names = {name for _, attributes in theirs.tags for name in attributes}
    assert not any(name.startswith("on") or name == "style" for name in names)
    assert [tag for tag, _ in theirs.tags].count("script") == 5
    assert not any(tag == "img" for tag, _ in theirs.tags)


def test_hostile_names_are_shown_without_characters_that_hide():
    text = page(hostile())
    assert html.escape("alert(1)") in text
    assert not {"\u202e", "\u2028", "\0"} & set("".join(Elements(text).words))


def test_the_document_in_a_page_is_the_document():
    made = hostile()
    (embedded,) = (text for _, attributes, text in Elements(page(made)).texts if "id" in attributes)
    assert json.loads(embedded) == json.loads(as_json(made))


@pytest.mark.parametrize("made", [plain(), hostile()], ids=["plain", "hostile"])
def test_the_policy_allows_these_scripts_and_styles_alone(made):
    elements = Elements(page(made))
    policy = next(
        attributes["content"] for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    run_ones = [each for each in elements.texts if each[1].get("type") != "application/json"]
    assert len(run_ones) == 6
    for tag, _, text in run_ones:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        part = next(each for each in policy.split("; ") if each.startswith(tag))
        assert f"'sha256-{digest}'" in part
    assert policy.count("sha256-") == len(run_ones)


def test_a_page_loads_nothing():
    elements = Elements(page(plain()))
    links = [
        (tag, name, value)
        for tag, attributes in elements.tags
        for name, value in attributes.items()
        if name in {"src", "href", "action", "data", "srcset"}
    ]
    assert links == [("a", "href", "#costs")]
    assert not re.search(r"@import|url\(", "".join(text for _, _, text in elements.texts[:2]))


def test_the_verdict_is_on_top_and_costs_follow():
    made = report("s", "x", [handed_over(limits=GroupLimits(rebalances_max=0))])
    words = " ".join(" ".join(Elements(page(made)).words).split())
    assert "✗ Not clean. a had 1 rebalance, and at most 0 were expected." in words
    assert words.index("Not clean") < words.index("What it cost") < words.index("What happened")
    assert "1 over 0" in words


def test_the_libraries_are_those_of_the_package_that_the_document_names():
    text = DEPENDENCIES.read_text()
    (version,) = re.findall(r"^\| uPlot ([\d.]+) \(", text, re.MULTILINE)
    sums = dict(re.findall(r"^\| `(uPlot[\w.]+)` \| `([0-9a-f]{64})` \|$", text, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in ASSETS.glob("uPlot*")
    }
    assert found == sums
    assert f"(v{version})" in (ASSETS / "uPlot.iife.min.js").read_text()[:100]
    assert f"`uplot` {version}" in text


def test_a_report_is_a_page_or_a_document_by_its_name(tmp_path):
    for name, begins in (("r.html", "<!doctype html>"), ("r.json", '{"title":')):
        write_report(report_path(str(tmp_path / name)), plain())
        assert (tmp_path / name).read_text().startswith(begins)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    (tmp_path / "r.html").mkdir()
    with pytest.raises(OSError):
        write_report(tmp_path / "r.html", plain())
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.parametrize("name", ["r.pdf", "r", "missing/r.html"])
def test_a_name_that_cannot_be_written_is_refused_before_the_work(name, tmp_path):
    with pytest.raises(files.argparse.ArgumentTypeError):
        report_path(str(tmp_path / name))
