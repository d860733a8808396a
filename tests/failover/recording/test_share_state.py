"""The state of a shard with share groups can be packed, in whatever state their topics are."""

from __future__ import annotations

import pytest

from failover.recording.pickles import pack, unpack
from failover.recording.shard import state_of
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk


@pytest.mark.parametrize("waits", [False, True])
def test_the_state_is_read_as_it_was_packed(*, waits: bool) -> None:
    talk = ShareTalk(holds_calls=waits)
    talk.join("A")
    talk.join("B")
    shared: list[object] = []
    packed = pack(state_of(talk.context), shared, 1 << 20)
    values, _, _ = unpack(packed, shared)
    group = values["groups"][GROUP]
    assert group.own_values() == talk.group.own_values()
    assert (group.epoch, group.targets) == (talk.group.epoch, talk.group.targets)
    assert values["share_calls"] == talk.context.share_calls
    assert bool(group.state_topics.initializing) is waits
    assert bool(values["share_calls"]) is waits
