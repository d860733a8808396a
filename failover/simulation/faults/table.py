"""Every class of faults that a simulation injects: its effect, and what it must not break."""

from __future__ import annotations

from typing import Final, NamedTuple

from failover.columns import aligned
from failover.simulation.settings import (
    ClockFaults,
    DiskFaults,
    Faults,
    GroupFaults,
    SectorFaults,
    TermFaults,
)

SAFE: Final = "nothing acknowledged is lost, one leader per epoch"
LEASE: Final = "one leader answers at a time"
ANSWERS: Final = "answers rest on committed records"
MEMBERS: Final = "no member loses its place early, no partition has two owners"
ALIVE: Final = "every partition answers again within five election timeouts"
EXPIRY: Final = "what nobody uses expires, and no sooner than it may"
SOURCES: Final = (
    Faults(), DiskFaults(), ClockFaults(), SectorFaults(), GroupFaults(), TermFaults(),
)  # fmt: skip
ROUGH_MS: Final = {
    name: mean_ms
    for faults in SOURCES
    for name in faults.__dataclass_fields__
    if isinstance(mean_ms := getattr(faults, name), int)
}


ONE_IN: Final = frozenset({"kill_voter", *TermFaults.__dataclass_fields__})
"""Settings that say which share of the votes, questions or changes a fault hits."""


class FaultClass(NamedTuple):
    """One class; ``setting`` names its rate in the settings, empty where it accompanies others."""

    name: str
    setting: str
    what: str
    promise: str

    @property
    def mean_ms(self) -> int | None:
        """The mean time between two of them in a seed of medium severity, if it has one."""
        return ROUGH_MS.get(self.setting)


FAULTS: Final = tuple(
    FaultClass(*row)
    for row in (
        ("kill", "kill", "a process dies, or its whole machine: unsynced writes are torn", SAFE),
        ("kill mid turn", "kill_mid_turn", "it dies between two steps of a turn", SAFE),
        ("kill voter", "kill_voter", "it dies right after a vote (one vote in so many)", SAFE),
        ("voter stalls", "stall_voter", "a process stands still right after its vote", SAFE),
        ("vote asked again", "repeat_question", "a candidate asks twice", SAFE),
        ("change alone", "lone_changer", "who changes the voters is cut off at once", SAFE),
        ("change and death", "lone_changer", "who changes the voters dies at once", SAFE),
        ("lose disk", "lose_disk", "a disk is gone", SAFE),
        ("two disks lost", "lose_disk", "two of five disks are gone at once", SAFE),
        ("database gone", "database", "the database is gone under its directory", SAFE),
        ("rotten disk", "rot", "a checksum in synced data is wrong when it is opened", SAFE),
        ("stale copy", "stale_copy", "an older copy of a directory is put back", SAFE),
        ("stale machine", "stale_copy", "a whole machine is put back as it was", SAFE),
        ("log set aside", "", "such a log is moved away: the others have everything", SAFE),
        ("slow disk", "slow_disk", "syncs take up to ten thirds of a lease, for a while", ALIVE),
        ("slow disk stays", "slow_disk", "one disk is slow after the last fault, too", ALIVE),
        ("slow writes", "slow_write", "a write holds its process for up to 500 ms", LEASE),
        ("slow writes stay", "slow_write", "one disk's writes are slow after that, too", ALIVE),
        ("full disk", "full_disk", "a disk takes no writes for a while", SAFE),
        ("failed write", "failed_write", "a write fails: the process ends", SAFE),
        ("failed sync", "failed_sync", "a sync fails: the process ends", SAFE),
        ("failed read", "failed_read", "a sector cannot be read: the process ends", SAFE),
        ("misdirected read", "misdirected", "a batch is read where another was written", SAFE),
        (
            "misdirected write",
            "misdirected",
            "it lands on another; its own place has a third",
            SAFE,
        ),
        ("pause", "pause", "a process stands still, its clock does not", LEASE),
        ("machine freezes", "freeze", "a machine stands still, and its steady clock", LEASE),
        ("clock drifts", "drift", "a clock changes its speed, within 5 % of the true one", LEASE),
        ("clock wild", "wild_clock", "a clock is up to 25 % wrong, more than leases allow", SAFE),
        (
            "handler raises",
            "handler",
            "a handler raises, before its first record or after",
            ANSWERS,
        ),
        ("wall clock set", "wall_clock", "a wall clock is wrong by up to three days", EXPIRY),
        ("clock starts wrong", "wrong_start", "it is wrong when its machine starts", EXPIRY),
        ("two clocks wrong", "two_wrong", "two are at once: no majority is right", EXPIRY),
        ("cut", "cut_node", "a node is cut off from its peers", LEASE),
        ("cut pair", "cut_pair", "two nodes are cut off from each other", LEASE),
        ("cut one way", "cut_one_way", "messages pass in one direction only", LEASE),
        ("cut from clients", "cut_clients", "a node is cut off from its clients", MEMBERS),
        ("slow link", "slow_link", "a peer takes too little: it is sent no records", ALIVE),
        ("message too large", "oversize", "a request exceeds limits: Kafka's code", ANSWERS),
        ("link reset", "link_reset", "a link breaks and comes back", SAFE),
        ("message lost", "", "a message between replicas is lost", SAFE),
        ("message repeated", "", "it comes twice", SAFE),
        ("message overtaken", "", "it comes up to 12 s late: later than a promise lasts", LEASE),
        ("controller dead", "controller", "there is no controller", ALIVE),
        ("controller stale", "controller", "what it hears and orders is late", ALIVE),
        ("controller doubled", "controller", "there are two", ALIVE),
        ("controller mad", "controller", "its orders are nonsense", ALIVE),
        ("member restarts", "member", "a client restarts", MEMBERS),
        ("member crashes", "member", "a client is gone for up to two sessions", MEMBERS),
        ("member leaves", "member", "a client leaves its group: it stays gone", MEMBERS),
        ("member doubled", "member", "two clients have one instance id", MEMBERS),
        ("subscription", "subscription", "a member subscribes to something else", MEMBERS),
        ("protocol", "migration", "a member changes its protocol", MEMBERS),
        ("group converted", "migration", "all leave, and return with another type", MEMBERS),
        ("group migrates", "migration", "all members of a group do, one by one", MEMBERS),
        ("group flaps", "migration", "a group is migrated to and fro", MEMBERS),
        ("topic created", "topic", "a topic comes", MEMBERS),
        ("topic grows", "topic", "a topic has more partitions", MEMBERS),
        ("topic deleted", "topic", "a topic goes", MEMBERS),
        ("worker dies", "worker", "an assignor worker is gone for a while", MEMBERS),
        ("run answered twice", "", "an assignor's answer comes twice, or late", MEMBERS),
        ("run lost", "", "it never comes", MEMBERS),
        ("run fails", "", "the assignor fails", MEMBERS),
        ("quiet hours, off", "", "all machines are off for hours", EXPIRY),
        ("quiet hours, asleep", "", "all machines sleep for hours", EXPIRY),
        ("quiet hours, idle", "", "nobody is there for half an hour", EXPIRY),
        ("quiet hours, attended", "", "members stay for hours, little changes", EXPIRY),
    )
)


def lines() -> list[str]:
    """Return the table as text."""
    rows = [[each.name, _mean(each), f"{each.what}; {each.promise}"] for each in FAULTS]
    return aligned(rows, right={1}).splitlines()


def _mean(each: FaultClass) -> str:
    if each.mean_ms is None:
        return ""
    if each.setting in ONE_IN:
        return f"1 in {each.mean_ms}"
    return f"{each.mean_ms / 1000:.0f} s"
