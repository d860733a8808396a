"""Each cause of a rebalance, for each type of group that can have it, in a real group.

``causes.txt`` has the sentence and the spans of each; ``REWRITE_TRANSCRIPTS=1`` renews it for
review. The table of ``docs/explain.md`` says which pairs there are.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from protocol.stories.causes import Cause
from protocol.stories.sentence import sentence
from tests.actors.telemetry.causes import classic, consumer, share, streams, told
from tests.actors.telemetry.causes.never import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.stories.story import RebalanceStory
    from tests.protocol.groups.conversation import Conversation

    Situations = Mapping[Cause, Callable[[], Conversation]]  # type: ignore[type-arg]

TRANSCRIPT: Final = Path(__file__).parent / "causes.txt"
PAGE: Final = Path(__file__).parents[4] / "docs" / "explain.md"
TYPES: Final[Mapping[str, Situations]] = {
    "classic": classic.SITUATIONS,
    "consumer": consumer.SITUATIONS,
    "share": share.SITUATIONS,
    "streams": streams.SITUATIONS,
}
NOT_SEEN: Final = {Cause.GONE, Cause.NOT_RECORDED, Cause.UNKNOWN}
PAIRS: Final = [(name, cause) for name, situations in TYPES.items() for cause in situations]


REVOKED: Final = {
    ("classic", Cause.JOINED): 2,
    ("consumer", Cause.JOINED): 2,
    ("consumer", Cause.REJOINED): 1,
    ("consumer", Cause.SUBSCRIBED): 1,
    ("consumer", Cause.CONFIGS_CHANGED): 2,
    ("consumer", Cause.FAILOVER): 2,
    ("share", Cause.JOINED): 2,
    ("share", Cause.CONFIGS_CHANGED): 2,
    ("share", Cause.FAILOVER): 2,
    ("streams", Cause.JOINED): 1,
    ("streams", Cause.TOPOLOGY_NOT_READY): 3,
    ("streams", Cause.FAILOVER): 1,
}
"""What members that are still there had to give up; those that left or expired give up nothing."""


@pytest.fixture(scope="module")
def led() -> Mapping[tuple[str, Cause], tuple[RebalanceStory, list[str]]]:
    return {pair: lead(*pair) for pair in PAIRS}


@pytest.fixture(scope="module")
def shown(
    led: Mapping[tuple[str, Cause], tuple[RebalanceStory, list[str]]],
) -> Mapping[tuple[str, Cause], list[str]]:
    return {pair: lines for pair, (_, lines) in led.items()}


def lead(group_type: str, cause: Cause) -> tuple[RebalanceStory, list[str]]:
    """Lead a group to a rebalance with this cause; its story, its sentence and its spans."""
    facts = TYPES[group_type][cause]().facts
    story = story_with(cause, group_type, told.stories(facts))
    tree = told.tree_of(story, told.spans(facts))
    return story, [sentence(story), *tree]


def story_with(cause: Cause, group_type: str, stories: list[RebalanceStory]) -> RebalanceStory:
    """The last story with a cause; of a static member that came back the type is not told."""
    fit = [each for each in stories if each.cause is cause and each.group_type in (group_type, "")]
    assert fit, [(each.group_type, each.cause) for each in stories]
    return fit[-1]


SPAN: Final = re.compile(r"( +)(\S.*?) \d+ ms( |$)")


def span_paths(group_type: str, cause: Cause) -> list[str]:
    """Return the paths of the spans below the root that the transcript has of a cause."""
    _, _, after = TRANSCRIPT.read_text().partition(f"{group_type} {cause}\n")
    _sentence, _root, *lines = itertools.takewhile(lambda line: line[0] == " ", after.splitlines())
    above: list[str] = []
    found = []
    for line in lines:
        indent, name, _ = SPAN.match(line).groups()  # type: ignore[union-attr]
        above[len(indent) // 2 - 2 :] = [name]
        found.append("/".join(above))
    return sorted(found)


def test_each_cause_is_told_and_traced_in_each_type_that_can_have_it(
    shown: Mapping[tuple[str, Cause], list[str]],
) -> None:
    lines = [
        f"{group_type} {cause}\n" + "".join(f"  {line}\n" for line in shown[group_type, cause])
        for group_type, cause in PAIRS
    ]
    text = "".join(lines)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        TRANSCRIPT.write_text(text)
    assert TRANSCRIPT.read_text() == text


def test_what_members_had_to_give_up_is_counted(
    led: Mapping[tuple[str, Cause], tuple[RebalanceStory, list[str]]],
) -> None:
    assert {pair: story.revoked for pair, (story, _) in led.items() if story.revoked} == REVOKED


@pytest.mark.parametrize(("group_type", "cause"), PAIRS)
def test_the_trace_has_the_cause_of_the_sentence(
    group_type: str, cause: Cause, shown: Mapping[tuple[str, Cause], list[str]]
) -> None:
    _, root, *_ = shown[group_type, cause]
    assert f" cause={cause} " in root


@pytest.mark.parametrize("group_type", TYPES)
def test_each_pair_is_shown_or_cannot_occur(group_type: str) -> None:
    possible, never = TYPES[group_type].keys(), NEVER[group_type].keys()
    assert possible | never == set(Cause)
    assert not possible & never
    assert all(NEVER[group_type].values())


def test_each_cause_that_is_known_occurs_in_some_group() -> None:
    assert {cause for _, cause in PAIRS} == {*Cause} - NOT_SEEN


def test_the_page_has_the_table_of_pairs() -> None:
    head = f"| Cause | {' | '.join(TYPES)} |\n|---|{'---|' * len(TYPES)}\n"
    table = head + "".join(
        f"| `{cause}` | {' | '.join(cell(name, cause) for name in TYPES)} |\n" for cause in Cause
    )
    assert table in PAGE.read_text(), f"the table of docs/explain.md is to be:\n{table}"


def cell(group_type: str, cause: Cause) -> str:
    return "yes" if cause in TYPES[group_type] else "-"
