"""Calls to actors by name, without Ray."""

import asyncio

import pytest

from actors.cluster.ray_peers import UNREACHED, Actors


def test_a_method_that_an_actor_of_another_version_lacks_is_not_reached() -> None:
    """During an upgrade processes of two versions ask each other."""
    actors = Actors()
    actors._found["coordinator-0"] = object()  # type: ignore[assignment]
    with pytest.raises(UNREACHED, match="coordinator-0 has no group_look"):
        asyncio.run(actors.ask("coordinator-0", "group_look"))
