"""Sections of pages are made once for all browsers that look at the same thing."""

import asyncio
from typing import Any

import pytest

from actors.console import views
from actors.console.hub import SLOW_PACE_MS
from actors.console.rendered import KEPT_MAX, SERVES_MS, RenderedSections
from tests.actors.console.sources import NOW_MS, detail
from tests.actors.console.test_pages import Console


def test_what_many_browsers_look_at_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a group of ten thousand members takes a processor a fifth of a second."""
    made: list[int] = []
    make = views.group_sections

    def counted(*given: Any, **more: Any) -> dict[str, str]:
        made.append(1)
        return make(*given, **more)

    monkeypatch.setattr(views, "group_sections", counted)

    async def test() -> None:
        console = Console()
        streams = console.pages.streams
        first = await streams.group("orders")
        for _ in range(5):
            assert await streams.group("orders") is first
        assert len(made) == 1
        console.source.details["orders"] = detail(members=())
        console.now_ms += SLOW_PACE_MS
        assert await streams.group("orders") != first
        assert len(made) == 2
        for number in range(2 * KEPT_MAX):
            console.source.details[f"g-{number}"] = detail()
            await streams.group(f"g-{number}")
        assert len(streams._rendered._kept) == KEPT_MAX

    asyncio.run(test())


def test_sections_of_a_value_that_stays_are_made_again_after_a_while() -> None:
    """A storm ends by itself, though nothing new is known of the group."""
    now_ms, made, value = [NOW_MS], iter(range(100)), detail()
    sections = RenderedSections(lambda: now_ms[0])

    def of() -> dict[str, str]:
        return sections.of("orders", value, lambda _: {"head": str(next(made))})

    assert of() == of() == {"head": "0"}
    now_ms[0] += SERVES_MS
    assert of() == {"head": "1"}
    now_ms[0] -= 10 * SERVES_MS
    assert of() == {"head": "2"}, "the clock was set back"
