"""Waiting for a condition: what is returned, and when it ends."""

import asyncio

import pytest

from actors.waiting import is_answered, poll, poll_async
from bench.hosts.waiting import HostError, until
from tests.waiting import WITHIN_S


class Answers:
    """Gives one answer after the other, the last one again and again; raises exceptions."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self) -> object:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_it_returns_the_first_answer_that_is_true() -> None:
    look = Answers(0, None, "there")
    assert poll(look, WITHIN_S, every_s=0) == "there"
    assert look.asked == 3
    assert asyncio.run(poll_async(Answers(0, None, "there"), WITHIN_S, every_s=0)) == "there"


def test_it_asks_once_more_when_the_time_is_up_and_returns_that_answer() -> None:
    assert poll(Answers([]), 0, every_s=0) == []
    assert asyncio.run(poll_async(Answers([]), -1)) == []


def test_what_is_waited_for_may_be_another_thing_than_truth() -> None:
    assert poll(Answers([1], []), WITHIN_S, is_done=lambda left: not left, every_s=0) == []
    look = poll_async(Answers([1], []), WITHIN_S, is_done=lambda left: not left, every_s=0)
    assert asyncio.run(look) == []


def test_an_exception_is_tried_again_until_the_time_is_up() -> None:
    look = Answers(OSError("busy"), None)
    assert poll(look, WITHIN_S, is_done=is_answered, every_s=0, retry=(OSError,)) is None
    assert look.asked == 2
    with pytest.raises(OSError, match="busy"):
        poll(Answers(OSError("busy")), 0, every_s=0, retry=(OSError,))
    with pytest.raises(ValueError, match="wrong"):
        poll(Answers(ValueError("wrong")), WITHIN_S, retry=(OSError,))


def test_hosts_have_no_longer_than_they_were_given() -> None:
    must_be_so_now = 0.0
    with pytest.raises(HostError, match="not within 0 s: it is there"):
        until(Answers(None), must_be_so_now, "it is there")
