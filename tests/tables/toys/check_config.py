"""Run in a copy of the project in which docs/how-to/add-a-config.md was followed."""

import pytest

from protocol.config import ConfigError, Configs
from protocol.wire import messages as m
from tests.failover.working import working_driver

NAME = "list.config.resources.max"


def test_it_has_an_effect() -> None:
    request = m.ListConfigResourcesRequest(resource_types=())
    all_of_them = working_driver().ask(74, 1, request).config_resources
    assert len(all_of_them) > 1
    few = working_driver(configs={NAME: "1"}).ask(74, 1, request).config_resources
    assert few == all_of_them[:1]


def test_it_is_checked() -> None:
    with pytest.raises(ConfigError, match=NAME):
        Configs({NAME: "0"})
