"""That the last member of a group is gone: its trace, its log lines, and no run of an assignor."""

from __future__ import annotations

import pytest

from actors.telemetry.log_messages import log_message
from actors.telemetry.metrics import RUNS, BackgroundMetrics
from protocol.groups.facts import TargetAssigned
from tests.actors.telemetry.causes import told
from tests.protocol.stories.test_emptied_groups import GOES, MODERN, ONE_MEMBER, facts_of


@pytest.mark.parametrize("group_type", MODERN)
@pytest.mark.parametrize("how", GOES)
def test_a_group_that_is_emptied_has_a_trace(group_type: str, how: str) -> None:
    facts = facts_of(group_type, ONE_MEMBER[group_type], GOES[how][0])
    *_, story = told.stories(facts)
    root, *spans = told.tree_of(story, told.spans(facts))
    assert f" cause={story.cause} trigger=member-{how} outcome=empty" in root
    trigger, *late = spans
    assert trigger == f"  trigger 0 ms trigger=member-{how} id=A"
    assert late == ["  replicate 2 ms"]


@pytest.mark.parametrize("group_type", MODERN)
def test_it_is_logged_and_counts_as_no_run(group_type: str) -> None:
    facts = facts_of(group_type, ONE_MEMBER[group_type], "leave A")
    emptied, reconciled = facts[-2:]
    assert isinstance(emptied, TargetAssigned)
    before, after = emptied.epoch_before, emptied.epoch_after
    assert log_message(emptied).startswith(f"group g: epoch {before}→{after}: member ")
    assert log_message(emptied).endswith(" left")
    assert log_message(reconciled) == "group g: no members are left"
    metrics = BackgroundMetrics(1)
    metrics.observe(emptied)
    assert metrics.status()[RUNS] == 0
