"""``kill -9`` at random points under load: what was acknowledged is there afterwards.

``ROLLCALL_CRASH_ROUNDS`` says how many rounds (200 before a release), ``ROLLCALL_CRASH_SEED``
repeats the choices of an earlier run.
"""

import os
import random
import threading
from collections.abc import Callable

import pytest

from tests.clients.confluent import create_topics
from tests.clients.servers import Server
from tests.crash.committer import Committer

Closing = Callable[[Callable[[], object]], object]

ROUNDS = int(os.environ.get("ROLLCALL_CRASH_ROUNDS", "10"))
GROUPS, PARTITIONS = 6, 3
LOAD_S = (0.05, 1.0)
KILL_EVERYTHING_ODDS = 0.05


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_no_acknowledged_write_is_lost_by_kill_9(
    doomed: Server, name: str, closing: Closing
) -> None:
    seed = int(os.environ.get("ROLLCALL_CRASH_SEED", random.randrange(2**32)))
    rng = random.Random(seed)
    print(f"ROLLCALL_CRASH_SEED={seed} ROLLCALL_CRASH_ROUNDS={ROUNDS}")  # noqa: T201
    create_topics(doomed.bootstrap, [name], PARTITIONS)
    committers = [
        Committer(doomed.bootstrap, f"{name}-{i}", name, PARTITIONS) for i in range(GROUPS)
    ]
    for committer in committers:
        closing(committer.stop)
        committer.join_first()
    for number in range(ROUNDS):
        one_round(doomed, committers, rng)
        violations = [v for c in committers for v in c.doubt.violations]
        assert not violations, f"seed {seed}, round {number}: {violations}"
    answers = sum(c.doubt.answers for c in committers)
    print(f"{answers} commits acknowledged, none lost")  # noqa: T201
    assert answers > ROUNDS


def one_round(server: Server, committers: list[Committer], rng: random.Random) -> None:
    """Load, a kill in the middle of it, recovery, comparison."""
    for committer in committers:
        committer.run(rng.randrange(2**32))
    threading.Event().wait(rng.uniform(*LOAD_S))
    if rng.random() < KILL_EVERYTHING_ODDS:
        server.kill_everything()
        server.start()
    else:
        server.kill_coordinator(rng.choice(committers).group_id)
    for committer in committers:
        committer.stop()
    for committer in committers:
        committer.check()
