"""A static member that commits as fast as it is answered and remembers what was acknowledged.

One thread, one request in flight, frames made here: what is in doubt after a crash is therefore at
most the one request that was not answered.
"""

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.clients import wire
from tests.clients.wire import Wire
from tests.waiting import LONG_SESSION_MS, patient, until

OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP = 8, 11, 14
REJOIN_ODDS = 0.03
SESSION = timedelta(milliseconds=LONG_SESSION_MS)


class CoordinatorGoneError(Exception):
    """The connection broke or the server says that it does not coordinate the group (now)."""


@dataclass
class Doubt:
    """What one member sent and what it was promised; written by its own thread only."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1
    is_rejoining: bool = False
    answers: int = 0
    violations: list[str] = field(default_factory=list)


class Committer:
    """One group with one static member."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self.group_id = group_id
        self.instance_id = f"{group_id}-instance"
        self._topic = topic
        self._partitions = partitions
        self.doubt = Doubt()
        self._wire: Wire | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- a round --------------------------------------------------------------------------------

    def run(self, seed: int) -> None:
        """Start to commit, and now and then to join again, until the coordinator goes."""
        self._stop.clear()
        rng = random.Random(seed)
        self._thread = threading.Thread(target=self._load, args=(rng,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load; a request under way is still waited for."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(patient(30))
            assert not self._thread.is_alive(), f"{self.group_id} waits for an answer for ever"
        self._disconnect()

    def _load(self, rng: random.Random) -> None:
        with suppress(CoordinatorGoneError):
            while not self._stop.is_set() and not self.doubt.violations:
                if rng.random() < REJOIN_ODDS:
                    self.join()
                else:
                    self._commit(rng.randrange(self._partitions))

    # -- what the member says -------------------------------------------------------------------

    def join(self) -> None:
        """Join with an unknown member id, as a restarted static member does."""
        self.doubt.is_rejoining = True
        joined = self._call(
            JOIN_GROUP,
            9,
            lambda m: m.JoinGroupRequest(
                group_id=self.group_id,
                session_timeout=SESSION,
                rebalance_timeout=SESSION,
                member_id="",
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=(m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0"),),
                reason="restarted",
            ),
        )
        if not self._is_fine(joined.error_code, "JoinGroup"):
            return
        before, self.doubt.generation = self.doubt.generation, joined.generation_id
        self.doubt.member_id = joined.member_id
        if before not in (-1, joined.generation_id):
            self.doubt.violations.append(
                f"{self.group_id}: generation {before} became {joined.generation_id}"
            )
        synced = self._call(
            SYNC_GROUP,
            5,
            lambda m: m.SyncGroupRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=()
                if joined.skip_assignment
                else (
                    m.SyncGroupRequestAssignment(
                        member_id=joined.member_id, assignment=b"mine alone"
                    ),
                ),
            ),
        )
        self.doubt.is_rejoining = False
        if self._is_fine(synced.error_code, "SyncGroup") and synced.assignment != b"mine alone":
            self.doubt.violations.append(f"{self.group_id}: assignment {synced.assignment!r}")

    def _commit(self, partition: int) -> None:
        offset = self.doubt.sent.get(partition, 0) + 1
        self.doubt.sent[partition] = offset
        answer = self._call(
            OFFSET_COMMIT,
            9,
            lambda m: m.OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.doubt.generation,
                member_id=self.doubt.member_id,
                group_instance_id=self.instance_id,
                topics=(
                    m.OffsetCommitRequestTopic(
                        name=self._topic,
                        partitions=(
                            m.OffsetCommitRequestPartition(
                                partition_index=partition,
                                committed_offset=offset,
                                committed_metadata="",
                            ),
                        ),
                    ),
                ),
            ),
        )
        if self._is_fine(answer.topics[0].partitions[0].error_code, "OffsetCommit"):
            self.doubt.acknowledged[partition] = offset
            self.doubt.answers += 1

    def _is_fine(self, code: int, what: str) -> bool:
        if code in wire.NOT_NOW:
            raise CoordinatorGoneError
        if code != wire.NONE:
            self.doubt.violations.append(f"{self.group_id}: {what} was answered with error {code}")
        return code == wire.NONE

    # -- what is found afterwards ---------------------------------------------------------------

    def check(self) -> None:
        """Compare what the coordinator, back again, knows with what was acknowledged."""
        fetched = wire.offsets_once_back(self._bootstrap, self.group_id)
        for partition, acknowledged in self.doubt.acknowledged.items():
            found, sent = fetched.get((self._topic, partition), -1), self.doubt.sent[partition]
            if not acknowledged <= found <= sent:
                self.doubt.violations.append(
                    f"{self.group_id} partition {partition}: acknowledged {acknowledged},"
                    f" sent {sent}, found {found}"
                )
        self._check_membership()
        if self.doubt.is_rejoining:
            # Whether the last join was carried out is unknown: join again, the generation stays.
            self.join_first()

    def _check_membership(self) -> None:
        group = wire.describe(self._bootstrap, self.group_id)
        found = [(m.group_instance_id, m.member_id, m.member_assignment) for m in group.members]
        instances = [instance for instance, _, _ in found]
        if group.group_state != "Stable" or instances != [self.instance_id]:
            self.doubt.violations.append(f"{self.group_id} is {group.group_state}: {found}")
            return
        _, member_id, assignment = found[0]
        if not self.doubt.is_rejoining and member_id != self.doubt.member_id:
            self.doubt.violations.append(
                f"{self.group_id}: member id {self.doubt.member_id} became {member_id}"
            )
        if assignment != b"mine alone":
            self.doubt.violations.append(f"{self.group_id}: assignment became {assignment!r}")

    def join_first(self) -> None:
        """Join, however long it takes until there is a coordinator."""

        def done() -> bool:
            with suppress(CoordinatorGoneError):
                self.join()
                return True
            return False

        until(done, patient(60), f"{self.group_id} joins again")

    # -- the connection -------------------------------------------------------------------------

    def _call(self, api_key: int, version: int, build: Any) -> Any:
        try:
            if self._wire is None:
                found = wire.coordinator_of(self._bootstrap, self.group_id)
                if found is None:
                    raise CoordinatorGoneError
                self._wire = Wire(found[1], timeout_s=patient(20))
            return self._wire.call(api_key, version, build)
        except OSError as error:
            self._disconnect()
            raise CoordinatorGoneError from error

    def _disconnect(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
