"""Storms: how often, why, who does it, and which setting to change."""

import re
from typing import Final

import pytest

from protocol.groups.facts import RebalanceTrigger
from protocol.stories.causes import CAUSES, Cause, of_trigger
from protocol.stories.storms import RATE_MS_MIN, STORM_MIN, WINDOW_MS, find_storm, storm_lines
from protocol.stories.story import RebalanceStory, StoryOutcome, Who

NOW = 1_700_000_000_000
SETTING = re.compile(r"[a-z]+(?:\.[a-z]+)+")


def story(
    cause: Cause, before_ms: int, name: str = "web-1", outcome: StoryOutcome = StoryOutcome.STABLE
) -> RebalanceStory:
    return RebalanceStory(
        group_id="orders",
        node_id=0,
        number=before_ms,
        cause=cause,
        outcome=outcome,
        started_ms=NOW - before_ms,
        ended_ms=NOW - before_ms + 10,
        who=Who(name=name, member_id=f"{name}-{before_ms}", client_id=name, host="/10.0.0.4"),
    )


def test_a_member_that_expires_again_and_again_is_the_flapper() -> None:
    stories = [story(Cause.EXPIRED, each * 60_000, "web-3") for each in range(1, 5)]
    stories += [story(Cause.JOINED, each * 60_000 - 5, "web-3") for each in range(1, 4)]
    stories += [story(Cause.LEFT, 30_000, "web-9")]
    storm = find_storm(stories, NOW)
    assert storm is not None
    assert storm_lines(storm)[:2] == [
        "storm: 8 rebalances in 240.0 s: 4 x session-expired (60 an hour), 3 x joined (45 an hour),"
        " 1 x left (15 an hour)",
        'flapper: "web-3 at 10.0.0.4" caused 7 of 8',
    ]
    advice = "\n".join(storm_lines(storm)[2:])
    assert "session.timeout.ms" in advice
    assert "group.instance.id" in advice


def test_a_storm_that_a_clock_ahead_told_has_lasted_no_negative_time() -> None:
    stories = [story(Cause.JOINED, -each * 1_000) for each in range(STORM_MIN)]
    storm = find_storm(stories, NOW)
    assert storm is not None
    assert storm.window_ms == (STORM_MIN - 1) * 1_000 + 10


def test_a_member_that_comes_back_under_another_id_is_the_same() -> None:
    stories = [story(Cause.JOINED, each * 1_000) for each in range(1, STORM_MIN + 1)]
    storm = find_storm(stories, NOW)
    assert storm is not None
    assert storm.flapper_count == STORM_MIN
    assert storm.window_ms == STORM_MIN * 1_000
    assert storm.rates[0].per_hour == STORM_MIN * 3_600_000 / RATE_MS_MIN
    assert storm_lines(storm)[0] == "storm: 5 rebalances in 5.0 s: 5 x joined"


def test_many_members_that_do_the_same_are_no_flapper() -> None:
    stories = [story(Cause.EXPIRED, each * 1_000, f"web-{each}") for each in range(1, 10)]
    storm = find_storm(stories, NOW)
    assert storm is not None
    assert storm.flapper == ""
    assert not any("flapper" in line for line in storm_lines(storm))


@pytest.mark.parametrize(
    "stories",
    [
        [],
        [story(Cause.JOINED, each) for each in range(STORM_MIN - 1)],
        [story(Cause.JOINED, WINDOW_MS + each) for each in range(1, 20)],
        [story(Cause.STATIC_REPLACED, n, outcome=StoryOutcome.UNCHANGED) for n in range(20)],
    ],
    ids=["none", "few", "long ago", "nothing rebalanced"],
)
def test_a_calm_group(stories: list[RebalanceStory]) -> None:
    assert find_storm(stories, NOW) is None


SETTINGS: Final = {
    Cause.JOINED: "group.instance.id",
    Cause.REJOINED: "group.instance.id",
    Cause.LEFT: "group.instance.id",
    Cause.GONE: "group.instance.id",
    Cause.POLL_TIMEOUT: "max.poll.interval.ms",
    Cause.EXPIRED: "session.timeout.ms",
    Cause.NOT_REJOINED: "max.poll.interval.ms",
    Cause.NOT_SYNCED: "max.poll.interval.ms",
    Cause.NOT_REVOKED: "max.poll.interval.ms",
    Cause.UPDATED: "application.server",
    Cause.LEADER_REJOINED: "metadata.max.age.ms",
    Cause.GAVE_UP: "group.protocol",
    Cause.ENFORCED: "probing.rebalance.interval.ms",
    Cause.STATIC_REPLACED: "group.instance.id",
    Cause.STATIC_CHANGED: "partition.assignment.strategy",
    Cause.TOPICS_CHANGED: "metadata.max.age.ms",
    Cause.REGEX_RESOLVED: "group.consumer.regex.refresh.interval.ms",
    Cause.CONFIGS_CHANGED: "streams.num.standby.replicas",
    Cause.CONVERTED: "group.protocol",
    Cause.OVER_CAPACITY: "group.max.size",
}
WITHOUT: Final = {
    Cause.ADMIN_REMOVED: "people",
    Cause.SUBSCRIBED: "code",
    Cause.SHARE_STATE: "once",
    Cause.TOPOLOGY_READY: "topics",
    Cause.TOPOLOGY_NOT_READY: "topics",
    Cause.FAILOVER: "cluster",
    Cause.NOT_RECORDED: "unknown",
    Cause.UNKNOWN: "unknown",
}
"""Causes that no setting prevents, and what does in a word."""


@pytest.mark.parametrize("cause", Cause)
def test_the_advice_names_a_setting(cause: Cause) -> None:
    storm = find_storm([story(cause, each) for each in range(10)], NOW)
    assert storm is not None
    (advice,) = storm.advice
    assert (cause in SETTINGS) != (cause in WITHOUT)
    if cause in SETTINGS:
        assert SETTINGS[cause] in advice
    else:
        assert not SETTING.findall(advice), "it belongs to SETTINGS"


def test_what_finds_partitions_later_warns_of_records_that_are_skipped() -> None:
    """With auto.offset.reset=latest, what a partition got before it was found is never read."""
    for row in CAUSES.values():
        if "raise metadata" in row.advice or "raise group.consumer.regex" in row.advice:
            assert "auto.offset.reset=earliest" in row.advice


def test_streams_clients_that_probe_are_told_from_those_that_rejoin() -> None:
    reason = "triggered followup rebalance scheduled for 1700000000000"
    assert of_trigger(RebalanceTrigger.LEADER_REJOINED, reason) is Cause.ENFORCED
