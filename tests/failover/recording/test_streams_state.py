"""The state of a shard with streams groups can be packed, whatever their topology lacks."""

from __future__ import annotations

from typing import Any

import pytest

from failover.recording.pickles import pack, unpack
from failover.recording.shard import state_of
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import TOPICS, StreamsTalk


@pytest.mark.parametrize("topics", [{}, {"in": 3}, TOPICS])
def test_the_state_is_read_as_it_was_packed(topics: Any) -> None:
    talk = StreamsTalk({"group.streams.num.standby.replicas": "1"}, topics=topics)
    talk.join("A")
    talk.join("B")
    shared: list[object] = []
    packed = pack(state_of(talk.context), shared, 1 << 20)
    values, cached, _ = unpack(packed, shared)
    group = values["groups"][GROUP]
    assert group.own_values() == talk.group.own_values()
    assert (group.configured.problem is None) == (topics == TOPICS)
    assert (group.epoch, group.state) == (talk.group.epoch, talk.group.state)
    assert cached[GROUP].targets == talk.group.targets
