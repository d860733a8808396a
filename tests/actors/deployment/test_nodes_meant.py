"""Which coordinators a command means: one by its number, or those of a host."""

import pytest

from actors.deployment.actors import _nodes_meant
from actors.errors import BadInputError
from tests.actors.deployment.test_host_watch import ON_HOSTS, place


def test_a_number_is_a_coordinator_and_an_address_is_a_host() -> None:
    both = ON_HOSTS.with_place(2, place("a"))
    assert _nodes_meant("1", both) == [1]
    assert _nodes_meant("a", both) == [0, 2]


@pytest.mark.parametrize(
    ("which", "said"),
    [("3", "There is no coordinator 3"), ("c.example", "No coordinator is on a host c.example")],
)
def test_what_is_not_there_is_said(which: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        _nodes_meant(which, ON_HOSTS)
