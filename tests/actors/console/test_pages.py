"""The console's pages: what they show, what they refuse, and that no name harms them."""

import asyncio
import json
import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urlencode

import pytest

from actors.console import streams as streams_module
from actors.console.app import HEADERS, NOT_FOUND, ConsolePages
from actors.console.hub import GROUPS_KEPT, PACE_MS, Hub
from actors.console.selection import ROWS_MAX, SORTS
from actors.console.source import GroupList, Offset
from actors.console.views import LINK_MAX, TYPES, group_link
from tests.actors.console.asked import Answer, ask
from tests.actors.console.sources import (
    HOSTILE,
    NOW_MS,
    FakeSource,
    cluster,
    detail,
    group,
    member,
    story,
)

PAGES = ("/", "/group?id=orders", "/cluster")
SAME = {"origin": "http://127.0.0.1:80", "sec_fetch_site": "same-origin"}


class Console:
    """The pages of a source, at a time that the test moves."""

    def __init__(self) -> None:
        self.source = FakeSource()
        self.now_ms = NOW_MS
        self.hub = Hub(self.source, lambda: self.now_ms, lambda: self.now_ms)
        self.pages = ConsolePages(self.hub)
        self.app = self.pages.app()

    async def ask(self, target: str, *arguments: str, **more: object) -> Answer:
        return await ask(self.app, target, *arguments, **more)  # type: ignore[arg-type]


def get(target: str, *, setting: object = None) -> Answer:
    async def asked() -> Answer:
        console = Console()
        if callable(setting):
            setting(console.source)
        return await console.ask(target)

    return asyncio.run(asked())


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize(
    "target", [*PAGES, "/metrics", "/status.json", "/assets/console.js", "/no"]
)
def test_every_response_has_the_headers_that_keep_browsers_safe(target: str) -> None:
    answer = get(target)
    assert answer.status == (404 if target == "/no" else 200)
    assert HEADERS.items() <= answer.headers.items()


@pytest.mark.parametrize("target", PAGES)
def test_a_page_has_no_script_style_or_handler_in_itself(target: str) -> None:
    """The policy would refuse them; and nothing comes from another server."""
    for tag, attributes in Elements(get(target).text).tags:
        assert tag != "style"
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert tag != "script" or (attributes["src"] or "").startswith("/assets/")
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes


@pytest.mark.parametrize("target", ["/", "/cluster", "/group?" + urlencode({"id": HOSTILE})])
def test_hostile_names_are_text(target: str) -> None:
    answer = get(target, setting=lambda source: source.name_everything(HOSTILE))
    found = Elements(answer.text)
    assert answer.status == 200
    assert not {"img"} & {tag for tag, _ in found.tags}
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2
    assert "<script>alert" not in answer.text
    assert not {"\u202e", "\u2028", "\0"} & set(answer.text), "characters that nobody sees"
    assert any("alert(1)" in each for each in found.words), "it is shown"
    assert not [
        name for _, attributes in found.tags for name in attributes if name.startswith("on")
    ]


def test_hostile_names_are_text_in_streams_too() -> None:
    async def test() -> None:
        console = Console()
        console.source.name_everything(HOSTILE)
        for page in ("groups", "cluster", "group"):
            query = {"page": page, "id": HOSTILE}
            events = console.pages.streams._events(console.pages.streams._looks[page], query)
            await anext(events)
            first = await anext(events)
            await events.aclose()  # type: ignore[attr-defined]
            assert first.count(b"\n") == 2, "one line of data"
            for text in json.loads(first.removeprefix(b"data: "))["sections"].values():
                assert "<script" not in text and "<img" not in text

    asyncio.run(test())


def test_names_as_long_as_clients_may_make_them_leave_pages_small() -> None:
    long = "\u202e<" * 16_000

    def setting(source: FakeSource) -> None:
        members = [member(f"{n}{long}", f"{long}-{n}") for n in range(200)]
        offsets = [Offset(unit=f"{long}-{n}", committed=1, end=2) for n in range(300)]
        source.may_act = True
        source.list = GroupList(groups=[group(f"{n}{long}") for n in range(100)])
        source.details["orders"] = detail(members=members, offsets=offsets, units=())

    for target in ("/", "/group?id=orders"):
        answer = get(target, setting=setting)
        assert answer.status == 200
        assert len(answer.body) < 2 << 20
        for tag, said in Elements(answer.text).tags:
            assert tag != "a" or len(said["href"] or "") <= LINK_MAX
    usual = "\N{KISS}" * 255
    assert usual in unquote(group_link(usual)), (
        "names of usual lengths have links, whatever they are"
    )


def test_the_page_of_a_group_tells_its_story() -> None:
    words = " ".join(" ".join(Elements(get("/group?id=orders").text).words).split())
    assert (
        'generation 7 → 8: member web-3 (10.0.0.4) left, "the poll timeout was exceeded"; waited'
        " 12.1 s for web-9; waited 0.4 s for the assignment of its members; 1 of 4 partitions moved"
    ) in words
    assert "members join 12.1 s, web-9" in words
    assert "served by nobody 30.0 s, 1 of web-3" in words
    assert "orders-3: web-3 → web-9" in words
    assert 'member web-3 (10.0.0.4) left: "bye"' in words
    assert "31.0 s of 45.0 s" in words
    assert "orders-2: nobody" in words, "in the picture"


def test_a_storm_is_on_top_with_its_flapper_and_advice() -> None:
    stories = tuple(story(number=number, started_ms=NOW_MS - 1_000 * number) for number in range(8))
    text = get(
        "/group?id=orders",
        setting=lambda source: source.details.update(orders=detail(stories=stories)),
    ).text
    assert "storm: 8 rebalances" in text
    assert "flapper: " in text
    assert "advice: " in text


def test_the_page_of_the_cluster_shows_leaders_and_what_changed() -> None:
    async def test() -> None:
        console = Console()
        await console.ask("/cluster")
        console.source.shown = cluster(leader=None, problems=("partition 0 has no leader",))
        console.now_ms += PACE_MS
        text = (await console.ask("/cluster")).text
        assert "partition 0: leader 0 → none" in text
        assert "partition 0 has no leader" in text
        console.source.shown = cluster(leader=2, epoch=5)
        console.now_ms += PACE_MS
        assert "leader none → 2, epoch 5" in (await console.ask("/cluster")).text

    asyncio.run(test())


def test_ten_thousand_groups_are_filtered_sorted_and_cut_here() -> None:
    def many(source: FakeSource) -> None:
        source.list = GroupList(
            groups=[group(f"g-{n}", n % 97, lag=n, state="Empty" if n % 2 else "Stable")
                    for n in range(10_000)]
        )  # fmt: skip

    answer = get("/?q=G-12&state=Empty&sort=lag&page=2", setting=many)
    names = re.findall(r'id=(g-\d+)"', answer.text)
    wanted = sorted((n for n in range(10_000) if str(n).startswith("12") and n % 2), reverse=True)
    assert names == [f"g-{n}" for n in wanted[50:100]]
    assert f"{len(wanted)} groups, page 2" in answer.text
    assert len(answer.body) < 60_000
    assert "g-" not in "".join(re.findall(r'id=(g-\d+)"', get("/?q=none", setting=many).text))


def test_ten_thousand_groups_are_sorted_by_each_column_both_ways() -> None:
    groups = [
        group(f"g-{n:05}", n % 97, lag=n * 7 % 10_007, lately=n % 13, group_type=TYPES[n % 4],
              state="Empty" if n % 2 else "Stable")
        for n in range(10_000)
    ]  # fmt: skip

    async def test() -> None:
        console = Console()
        console.source.list = GroupList(groups=groups)
        for name, key in SORTS.items():
            for order in ("asc", "desc"):
                answer = await console.ask(f"/?sort={name}&order={order}")
                names = re.findall(r'id=(g-\d+)"', answer.text)
                known = {each.group_id: key(each) for each in groups}
                firsts = sorted(known.values(), reverse=order == "desc")[:ROWS_MAX]  # type: ignore[type-var]
                assert [known[each] for each in names] == firsts, (name, order)
                assert len(answer.body) < 60_000
        assert console.source.asked == ["groups"]

    asyncio.run(test())


@pytest.mark.parametrize("query", ["page=99999999", "page=-1", "page=%C2%B2", "sort=x&order=y",
    "q=" + "a" * 5_000, "state=%00", "type=\u202e", "page=0", "q=%FF"])  # fmt: skip
def test_a_strange_query_is_a_page_like_others(query: str) -> None:
    answer = get(f"/?{quote(query, safe='=&%')}")
    assert answer.status == 200
    assert len(answer.body) < 20_000


def test_what_is_not_there_is_said() -> None:
    answer = get("/group?id=nobodys")
    assert (answer.status, "There is no such group" in answer.text) == (404, True)
    answer = get("/elsewhere")
    assert (answer.status, answer.text) == (404, NOT_FOUND)
    assert get("/assets/../page.py").status == 404
    assert get("/events?page=elsewhere").status == 404


@pytest.mark.parametrize("target", [*PAGES, "/metrics", "/status.json"])
def test_a_source_without_an_answer_is_said_in_a_sentence(target: str) -> None:
    def fail(source: FakeSource) -> None:
        source.problem = "No coordinator answers."

    answer = get(target, setting=fail)
    assert answer.status == 503
    assert "No coordinator answers." in answer.text


def test_all_who_look_share_one_answer_and_nobody_asks_when_nobody_looks() -> None:
    async def test() -> None:
        console = Console()
        assert console.source.asked == []
        await asyncio.gather(*(console.ask(target) for target in PAGES * 20))
        assert sorted(console.source.asked) == ["cluster", "group", "groups"]
        console.now_ms += PACE_MS - 1
        await console.ask("/")
        assert len(console.source.asked) == 3
        console.now_ms += 1
        await console.ask("/")
        assert len(console.source.asked) == 4

    asyncio.run(test())


def test_ten_thousand_scrapes_are_few_questions() -> None:
    async def test() -> None:
        console = Console()
        for _ in range(10):
            answers = await asyncio.gather(*(console.ask("/metrics") for _ in range(1_000)))
            assert {each.status for each in answers} == {200}
        assert console.source.asked == ["metrics"]

    asyncio.run(test())


def test_the_status_is_never_older_than_the_question() -> None:
    async def test() -> None:
        console = Console()
        for _ in range(3):
            assert json.loads((await console.ask("/status.json")).body) == {"cluster_id": "c-1"}
        assert console.source.asked == ["status"] * 3

    asyncio.run(test())


def test_few_groups_are_kept() -> None:
    async def test() -> None:
        console = Console()
        for number in range(3 * GROUPS_KEPT):
            await console.ask(f"/group?id=g-{number}")
        assert len(console.hub._details) == GROUPS_KEPT

    asyncio.run(test())


# --- streams


def test_a_stream_has_what_changed_and_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "BEAT_S", 1e9)

    async def test() -> None:
        console = Console()
        streams = streams_module.Streams(console.hub, pace_s=0)
        events = streams._events(streams._looks["groups"], {"page": "groups"})
        assert await anext(events) == b"retry: 2000\n\n"
        first = json.loads((await anext(events)).removeprefix(b"data: "))
        assert first["sections"].keys() == {"notes", "tiles", "list"}
        assert first["points"] == [[NOW_MS / 1_000, 0.0, 0]]
        console.source.list = GroupList(groups=(group("orders", state="PreparingRebalance"),
                                                group("payments", 40, rebalances=5)))  # fmt: skip
        console.now_ms += PACE_MS
        second = json.loads((await anext(events)).removeprefix(b"data: "))
        assert second["sections"].keys() == {"tiles", "list"}
        assert second["points"] == [[NOW_MS / 1_000 + 2, 60.0, 1]], "2 rebalances in 2 seconds"
        console.source.problem = "Nobody answers."
        console.now_ms += PACE_MS
        assert json.loads((await anext(events)).removeprefix(b"data: ")) == {
            "problem": "Nobody answers."
        }
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(test())


def test_there_are_so_many_streams_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "STREAMS_MAX", 0)
    answer = get("/events?page=groups")
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")


# --- actions


def removal(
    setting: object = True, form: str = "id=orders&member=web-1-id", **headers: str
) -> object:
    async def test() -> tuple[int, list[tuple[str, str, str]]]:
        console = Console()
        console.source.may_act = bool(setting)
        answer = await console.ask("/remove", "POST", body=form.encode(), **headers)
        return answer.status, console.source.removed

    return asyncio.run(test())


def test_a_member_is_removed_by_a_form_of_this_console_alone() -> None:
    removed = ("orders", "web-1-id", "removed by an operator, in the console")
    assert removal(**SAME) == (303, [removed])
    assert removal(origin="http://127.0.0.1:80") == (303, [removed]), "an older browser"
    assert removal(form="id=orders&member=web-1-id&reason=x", **SAME) == (
        303, [("orders", "web-1-id", "x")])  # fmt: skip
    assert removal() == (403, [])
    assert removal(sec_fetch_site="same-origin") == (403, [])
    assert removal(origin="http://elsewhere:80") == (403, [])
    assert removal(origin="null") == (403, [])
    assert removal(origin="http://127.0.0.1:80", sec_fetch_site="cross-site") == (403, [])
    assert removal(form="id=orders&member=nobody", **SAME) == (404, [])
    assert removal(form="id=" + "x" * 20_000, **SAME) == (413, [])


def test_without_the_config_there_are_no_actions() -> None:
    assert removal(setting=False, **SAME) == (403, [])
    assert get("/remove?id=orders&member=web-1-id").status == 403
    assert "Remove…" not in get("/group?id=orders").text

    def may(source: FakeSource) -> None:
        source.may_act = True

    assert "Remove…" in get("/group?id=orders", setting=may).text
    asked = get("/remove?id=orders&member=web-1-id", setting=may)
    assert (asked.status, "may join again" in asked.text) == (200, True)
