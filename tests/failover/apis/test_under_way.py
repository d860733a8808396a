"""What a group waits for is in the answer of the node that leads it, and in the command's lines."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from actors.cli import explain, stories
from failover.apis.stories import STORIES, UNDER_WAY_BYTES_MAX
from failover.catalogue.cluster_view import GROUP
from protocol.wire import messages as m
from storage.log import MemoryLog
from tests.failover.hosts import Driver


def described(driver: Driver, group_id: str) -> dict[str, Any]:
    resource = m.DescribeConfigsResource(
        resource_type=GROUP, resource_name=group_id, configuration_keys=(STORIES,)
    )
    request = m.DescribeConfigsRequest(resources=(resource,))
    (result,) = driver.ask(request.__api_key__, 4, request).results
    (entry,) = result.configs
    found: dict[str, Any] = json.loads(entry.value)
    return found


def joining(group_id: str, client_name: str = "range") -> Driver:
    """A node with a group that waits for more members."""
    driver = Driver(MemoryLog(), configs={"group.initial.rebalance.delay.ms": "3000"})
    driver.load()
    request = m.JoinGroupRequest(
        group_id=group_id,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=60),
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(m.JoinGroupRequestProtocol(name=client_name, metadata=b""),),
        reason=None,
    )
    assert driver.ask(request.__api_key__, 3, request) is None
    driver.wait(1_500)
    return driver


def test_the_leader_says_what_the_group_waits_for() -> None:
    found = described(joining("g"), "g")
    now = found["under_way"]
    assert (now["step"], now["cause"], now["waited_ms"]) == ("more-members", "joined", 1_500)
    assert now["who"]["client_id"] == "client"
    assert len(json.dumps(now)) < UNDER_WAY_BYTES_MAX


def test_a_group_at_rest_is_not_under_way() -> None:
    assert described(joining("g"), "another")["under_way"] is None


def test_the_command_says_it() -> None:
    answered = stories._merged([described(joining("g"), "g")], ())
    assert answered.now is not None
    line = explain._now_line(answered.now)
    assert line.endswith(
        "now  under way for 1.5 s: member client (127.0.0.1) joined; waits for more members"
    )


def test_what_a_node_of_another_version_says_is_no_error() -> None:
    answer = {"is_leader": True, "since_ms": 1, "dropped": 0, "stories": []}
    assert stories._merged([answer], ()).now is None
    odd = stories._merged([{**answer, "under_way": {"step": "of-the-future"}}], ())
    assert odd.now is None
