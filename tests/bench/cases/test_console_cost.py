"""What the console's benchmark makes of its rounds."""

import pytest

from bench.cases.console_cost import ADDED, ADDED_AT_EQUAL_SPEED, ASKED_PER_S, added
from bench.cases.console_questions import TIMES


def test_pages_cost_nothing_if_all_work_took_longer_alike() -> None:
    closed = {"server_cpu_percent": 20.0, "generator_cpu_s": 1.0}
    opened = {"server_cpu_percent": 25.0, "generator_cpu_s": 1.25}
    assert added(opened, closed) == pytest.approx({ADDED: 5.0, ADDED_AT_EQUAL_SPEED: 0.0})


def test_pages_cost_what_the_coordinators_alone_did_more() -> None:
    closed = {"server_cpu_percent": 20.0, "generator_cpu_s": 1.0}
    opened = {"server_cpu_percent": 25.0, "generator_cpu_s": 1.0}
    assert added(opened, closed) == pytest.approx({ADDED: 5.0, ADDED_AT_EQUAL_SPEED: 5.0})


def test_questions_that_are_asked_more_often_cost_as_much_less() -> None:
    closed = {"server_cpu_percent": 20.0, "generator_cpu_s": 1.0}
    asked = {"server_cpu_percent": 22.0, "generator_cpu_s": 1.25, ASKED_PER_S: 8.0}
    assert added(asked, closed) == pytest.approx({ADDED: 2.0 / TIMES})
