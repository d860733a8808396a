"""The drills that the console offers, and what its forms are refused."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from actors.console.drills import DRILLS, ROWS
from actors.deployment import drills
from tests.actors.console.sources import FakeSource
from tests.actors.console.test_pages import SAME, Console, Elements

NODE_DRILLS = [each.name for each in ROWS if each.states]


@dataclass
class Answered:
    """What became of a form."""

    status: int
    text: str
    drilled: list[tuple[object, ...]]
    cluster: str
    """The page of the cluster afterwards."""


def drill(
    form: str, *, may_drill: bool = True, refusal: str = "", state: str = "Running", **headers: str
) -> Answered:
    async def test() -> Answered:
        console = Console()
        source = console.source
        source.may_drill, source.refusal = may_drill, refusal
        in_state(source, state)
        answer = await console.ask("/drill", "POST", body=form.encode(), **headers)
        after = await console.ask("/cluster")
        return Answered(answer.status, answer.text, source.drilled, after.text)

    return asyncio.run(test())


def in_state(source: FakeSource, state: str) -> None:
    nodes = [replace(each, state=state) for each in source.shown.nodes]
    source.shown = replace(source.shown, nodes=nodes)


def page(target: str, *, may_drill: bool = True, state: str = "Running") -> tuple[int, str]:
    async def test() -> tuple[int, str]:
        console = Console()
        console.source.may_drill = may_drill
        in_state(console.source, state)
        answer = await console.ask(target)
        return answer.status, answer.text

    return asyncio.run(test())


def links(text: str) -> list[str]:
    found = [attributes.get("href") or "" for tag, attributes in Elements(text).tags if tag == "a"]
    return [each for each in found if each.startswith("/drill")]


def test_the_controller_knows_every_drill_that_is_offered() -> None:
    assert DRILLS.keys() == drills.DRILLS.keys()


def test_each_drill_is_carried_out_by_a_form_of_this_console() -> None:
    assert drill("do=drain&of=1", **SAME).drilled == [("drain", 1)]
    assert drill("do=end-drain&of=1", state="Draining", **SAME).drilled == [("end-drain", 1)]
    assert drill("do=kill&of=2", **SAME).drilled == [("kill", 2)]
    moved = drill("do=move-leader&of=0&to=1", **SAME)
    assert (moved.status, moved.drilled) == (303, [("move-leader", 0, 1)])
    assert "move-leader is done." in moved.cluster, "among what changed"


@pytest.mark.parametrize("name", DRILLS)
def test_a_drill_without_the_config_is_forbidden(name: str) -> None:
    said = drill(f"do={name}&of=1&to=1", may_drill=False, **SAME)
    assert (said.status, said.drilled) == (403, [])
    assert "console.actions.enable=true" in said.text
    assert page(f"/drill?do={name}&of=1", may_drill=False)[0] == 403


@pytest.mark.parametrize("name", DRILLS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec_fetch_site": "same-origin"},
        {"origin": "null"},
        {"origin": "http://elsewhere:80"},
        {"origin": "http://127.0.0.1:80", "sec_fetch_site": "cross-site"},
    ],
)
def test_a_drill_that_another_page_asks_for_is_forbidden(
    name: str, headers: dict[str, str]
) -> None:
    said = drill(f"do={name}&of=1&to=1", **headers)
    assert (said.status, said.drilled) == (403, [])


@pytest.mark.parametrize(
    "form",
    [
        "do=drain&of=3", "do=drain&of=-1", "do=drain&of=x", "do=drain", "do=kill&of=9999999999",
        "do=nothing&of=1", "of=1", "", "do=move-leader&of=7&to=1", "do=move-leader&of=0",
        "do=move-leader&of=0&to=0", "do=move-leader&of=0&to=2", "do=move-leader&of=0&to=x",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(form: str) -> None:
    """The leader itself, and a replica that is not in sync, are nobody to move to."""
    said = drill(form, **SAME)
    assert (said.status, said.drilled) == (404, [])
    assert page(f"/drill?{form}")[0] == (200 if form.startswith("do=move-leader&of=0") else 404)


def test_a_form_that_is_too_long_or_has_too_many_fields_is_refused() -> None:
    assert drill("do=" + "x" * 20_000, **SAME).status == 413
    assert drill("&".join("a=1" for _ in range(20)), **SAME).status == 400


def test_a_refusal_is_one_sentence_on_the_page_of_the_drill() -> None:
    why = "Coordinator 2 does not serve: partitions could lose their <b>majority</b>."
    said = drill("do=kill&of=1", refusal=why, **SAME)
    assert (said.status, said.drilled) == (409, [])
    assert "does not serve: partitions could lose their &lt;b&gt;majority" in said.text
    assert "Kill it" in said.text, "it may be tried again"


def test_the_page_of_the_cluster_offers_what_fits_the_state() -> None:
    def offered(state: str) -> set[str]:
        return {each.partition("do=")[2] for each in links(page("/cluster", state=state)[1])}

    moves = {"move-leader&of=0"}
    nodes = range(3)
    assert offered("Running") == moves | {f"{d}&of={n}" for d in ("drain", "kill") for n in nodes}
    assert offered("Draining") == moves | {
        f"{d}&of={n}" for d in ("end-drain", "kill") for n in nodes
    }
    assert offered("Restarting") == moves
    assert links(page("/cluster", may_drill=False)[1]) == []


def test_the_page_of_a_drill_says_what_it_does_and_asks() -> None:
    for name in NODE_DRILLS:
        state = sorted(DRILLS[name].states)[0]
        status, text = page(f"/drill?do={name}&of=1", state=state)
        assert (status, "Coordinator 1 at h:1" in text) == (200, True)
        assert DRILLS[name].button in text
    text = page("/drill?do=move-leader&of=0")[1]
    assert "partition 0, led by node 0" in text
    options = [each for tag, each in Elements(text).tags if tag == "option"]
    assert options == [{"value": "1"}], "the other one that is in sync"
    text = page("/drill?do=drain&of=1", state="Restarting")[1]
    assert "This cannot be done now." in text
    assert DRILLS["drain"].button not in text
