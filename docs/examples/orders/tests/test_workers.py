"""What becomes of the workers when others come, go or fail. Nothing is mocked."""

from contextlib import ExitStack

import pytest
from orders import Worker

PARTITIONS = 4


class Team:
    """Some workers of one group, and the topic that they share."""

    def __init__(self, cluster, stack):
        self.cluster, self._stack = cluster, stack
        self.topic, self.group = cluster.topic(PARTITIONS), cluster.group()
        self.workers = []

    def add(self, **settings):
        worker = Worker(self.cluster.bootstrap, self.group, self.topic, **settings)
        self._stack.callback(worker.close)
        self.workers.append(worker)
        return worker

    def poll(self):
        for worker in self.workers:
            worker.poll()

    def settle(self, members=None):
        """Wait until the workers have the partitions, and know it."""
        wanted = members or len(self.workers)
        return self.cluster.await_assigned(
            self.group, members=wanted, partitions=PARTITIONS, poll=self.poll, until=self._agree
        )

    def _agree(self):
        owned = [partition for worker in self.workers for partition in worker.owned]
        return sorted(owned) == list(range(PARTITIONS))


@pytest.fixture
def team(rollcall_cluster):
    with ExitStack() as stack:
        yield Team(rollcall_cluster, stack)


def test_a_second_worker_takes_half_and_the_first_keeps_the_rest(team):
    first = team.add()
    team.settle()
    second = team.add()
    team.settle()
    assert len(first.owned) == len(second.owned) == PARTITIONS // 2
    assert [how for how, _ in first.history] == ["given"] * 4 + ["revoked"] * 2


def test_a_worker_that_falls_silent_is_told_that_it_lost_its_partitions(team):
    silent, other = (team.add(**{"client.id": name}) for name in ("silent", "other"))
    (member,) = (each for each in team.settle() if each.client_id == "silent")
    team.cluster.expire(member)
    team.settle()
    assert "lost" in {how for how, _ in silent.history}
    assert "lost" not in {how for how, _ in other.history}
    assert "sent no heartbeat within its session timeout" in team.cluster.explain(team.group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_done_survives_the_coordinator_and_nothing_is_revoked(team, protocol):
    worker = team.add(protocol=protocol)
    team.settle()
    worker.done(0, 10)
    team.cluster.kill_coordinator(team.group)
    worker.done(0, 11)
    assert worker.committed(0) == 11
    assert {how for how, _ in worker.history} == {"given"}


def test_a_commit_is_tried_again_while_the_coordinator_loads(team):
    worker = team.add()
    team.settle()
    team.cluster.fault("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2, group=team.group)
    worker.done(1, 5)
    assert worker.committed(1) == 5
    assert team.cluster.faults_left() == 0


def test_a_worker_that_restarts_with_its_instance_id_comes_back_without_a_rebalance(team):
    stays, restarts = (team.add(**{"group.instance.id": name}) for name in ("a", "b"))
    team.settle()
    before, told = set(restarts.owned), list(stays.history)
    team.workers.remove(restarts)
    restarts.close()
    again = team.add(**{"group.instance.id": "b"})
    team.settle()
    assert again.owned == before
    assert stays.history == told
