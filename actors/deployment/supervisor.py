"""Starts, watches and stops a cluster for ``rollcall up``, and handles its signals.

Ray waits in native code, where Python handles no signal, and forever if a process that it needs has
died. So everything that uses Ray runs in a child process that can be killed at any time. The
process that receives signals only waits: for its child, a signal or a timeout.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from actors.cluster import processes, ray_node, registry
from actors.errors import CommandError, ExitCode, FailureError, error_with
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.cluster.registry import RegisteredCluster

STOPPING_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
LOOK_S: Final = 1.0
LATE_SIGNAL_S: Final = 0.2
"""A signal to all processes may reach this one last."""

GRACE_S: Final = 20.0
"""How long coordinators may take to transfer leaderships; without it they lose nothing."""

SENTENCE_BYTES_MAX: Final = 8_000
RAY_STARTS_MAX: Final = 3


class RayNotStartedError(FailureError):
    """The cluster's own Ray did not start, or does not answer; it may do so when tried again."""


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended: its exit code, and a sentence about it."""

    code: int
    sentence: str


class Child:
    """A child process that runs one function in its own session and dies with its parent."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._sentence, said = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            _work(work, said, parent)
        os.close(said)

    def poll(self) -> ChildExit | None:
        """Return how it ended; None while it runs. Do not call it again after that."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        sentence = os.read(self._sentence, SENTENCE_BYTES_MAX).decode(errors="replace")
        os.close(self._sentence)
        return ChildExit(os.waitstatus_to_exitcode(status), sentence)

    def kill(self) -> None:
        """Kill it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._sentence)


def _work(work: Callable[[], None], said: int, parent: int) -> NoReturn:
    code, sentence = int(ExitCode.FAILURE), ""
    try:
        os.setsid()
        processes.die_with_parent(signal.SIGKILL, parent)
        for number in STOPPING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)
        work()
        code = 0
    except CommandError as error:
        code, sentence = error.exit_code, str(error)
    except SystemExit:
        pass  # how Ray handles SIGTERM
    except BaseException:
        sentence = traceback.format_exc()
    finally:
        sys.stderr.flush()
        os.write(said, sentence.encode()[-SENTENCE_BYTES_MAX:])
        os._exit(code)


class Signals:
    """The signals that stop the cluster, blocked from now on; callers poll for them.

    A process started under ``nohup`` ignores SIGHUP.
    """

    def __init__(self) -> None:
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._numbers = STOPPING_SIGNALS - ({signal.SIGHUP} if ignored else set())
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def within(self, wait_s: float) -> bool:
        """Wait for a signal; return False on timeout."""
        return signal.sigtimedwait(self._numbers, wait_s) is not None


def begin(
    signals: Signals,
    cluster: RegisteredCluster,
    work: Callable[[RegisteredCluster], None],
) -> RegisteredCluster | None:
    """Register the cluster and start it with ``work``; return None if a signal came first.

    Leaves nothing behind then, nor if the start fails, which raises CommandError. Our own Ray is
    tried again: it gives its parts fixed times to start in, which a busy machine may exceed.
    """
    processes.adopt_orphans()  # Ray's processes, when the child that started them ends
    for number in range(1, RAY_STARTS_MAX):
        try:
            return _begin_once(signals, cluster, partial(work, cluster))
        except RayNotStartedError as error:
            say(f"{error} Start {number + 1} of {RAY_STARTS_MAX} follows.")
            cluster = replace(cluster, node=ray_node.new())
    return _begin_once(signals, cluster, partial(work, cluster))


def _begin_once(
    signals: Signals, cluster: RegisteredCluster, work: Callable[[], None]
) -> RegisteredCluster | None:
    before = registry.load(cluster.data_dir)
    registry.save(cluster)
    child = Child(work)
    while (outcome := child.poll()) is None:
        if signals.within(processes.POLL_S):
            child.kill()
            _undo(cluster, before)
            return None
    if not outcome.code:
        return registry.load(cluster.data_dir)
    is_stopped = signals.within(LATE_SIGNAL_S)
    reached = registry.load(cluster.data_dir) or cluster
    _undo(cluster, before)
    if is_stopped:
        return None
    sentence = outcome.sentence or "The cluster could not be started: its process was killed."
    if cluster.node is not None and not reached.address:
        raise RayNotStartedError(_ray_not_started(sentence))
    raise error_with(outcome.code, sentence)


def _ray_not_started(why: str) -> str:
    """Return a sentence about a failed start of Ray; ``why`` may be a traceback."""
    *_, last = why.strip().splitlines()
    return f"The cluster's Ray did not start; the machine may be too busy for it. It said: {last}"


def _undo(cluster: RegisteredCluster, before: RegisteredCluster | None) -> None:
    """Stop what was started; if that is nothing, register again what was ``before``.

    A cluster that already ran on this directory and another Ray refused this one.
    """
    begun = registry.load(cluster.data_dir) or cluster
    stop(begun)
    if before is not None and not begun.address:
        registry.save(before)


def stay(signals: Signals, cluster: RegisteredCluster) -> bool:
    """Wait for a signal, then stop the cluster; return False if its own Ray died before that.

    If only Ray's control store dies, it is started again. A Ray of others may come back.
    """
    is_missed = False
    while not signals.within(LOOK_S):
        processes.reap()
        cluster = registry.revived(cluster)
        if cluster.is_whole:
            is_missed = False
        elif cluster.node is not None and not signals.within(LATE_SIGNAL_S):
            stop(cluster)
            return False
        elif cluster.node is None and not is_missed:
            is_missed = True
            say(f"No Ray answers at {cluster.address}. The coordinators go on without it.")
    stop(cluster)
    return True


def say(sentence: str) -> None:
    """Print a sentence to standard error: standard output is for READY."""
    sys.stderr.write(f"rollcall: {sentence}\n")
    sys.stderr.flush()


def stop(cluster: RegisteredCluster) -> None:
    """Stop a cluster: its coordinators transfer leaderships if they can, then all is killed.

    A cluster on our own Ray that was not READY yet is killed at once. Raises FailureError if
    something is left.
    """
    is_ours = cluster.node is not None
    has_actors = bool(cluster.address) and not (is_ours and not cluster.is_ready)
    said = _stop_actors(cluster) if has_actors and cluster.is_whole else ""
    if said and not is_ours:
        raise FailureError(said)
    registry.kill_cluster(cluster)


def _stop_actors(cluster: RegisteredCluster) -> str:
    """Stop the actors; return a sentence if that failed.

    If this process is already connected to Ray, a forked child would hang in Ray's threads.
    """
    if "ray" in sys.modules:
        try:
            _destroy(cluster)
        except CommandError as error:
            return str(error)
        return ""
    child = Child(partial(_destroy, cluster))
    outcome = poll(
        child.poll,
        GRACE_S,
        is_done=lambda outcome: outcome is not None or not cluster.is_whole,
        every_s=processes.POLL_S,
    )
    if outcome is None:
        child.kill()
        return (
            f"The Ray at {cluster.address} did not stop the cluster of {cluster.data_dir} "
            f"within {GRACE_S:g} s. Run `rollcall down` again."
        )
    if outcome.code and not outcome.sentence:
        return f"The cluster of {cluster.data_dir} could not be stopped. Run `rollcall down` again."
    return outcome.sentence


def _destroy(cluster: RegisteredCluster) -> None:
    cluster.prepare_to_connect()
    from actors.deployment.actors import connected
    from actors.deployment.starting import destroy

    with connected(cluster.address):
        left = destroy(cluster.partitions, cluster.workers)
    if cluster.node is None:  # our own Ray's processes are killed anyway
        left += [f"the listener {one}" for one in registry.still_listening(cluster)]
        if left:
            raise FailureError(
                f"The cluster of {cluster.data_dir} did not stop: {', '.join(left)} did not end. "
                "Run `rollcall down` again."
            )
