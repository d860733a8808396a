"""What ends the watching of a cluster, or only delays it: librdkafka's errors as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.errors import BadInputError, CommandError, FailureError, NoClusterError
from protocol.stories.sentence import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOPIC: Final = "__consumer_offsets"

_LOGINS: Final = frozenset(
    {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
)
_REFUSED: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
_MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
_TRUNCATED: Final = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"})
_AWAY: Final = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
_UNREACHABLE: Final = "_ALL_BROKERS_DOWN"
"""Other errors of connections are of one broker: librdkafka says this when it was the last one."""


def is_refused_login(error: Any) -> bool:
    """Whether the brokers do not accept who we are."""
    return error.name() in _LOGINS


def is_truncated(error: Any) -> bool:
    """Whether the log no longer has our offset."""
    return error.name() in _TRUNCATED


def is_missing(error: Any) -> bool:
    """Whether the topic is not there, as far as a broker knows."""
    return error.name() in _MISSING


def is_away(error: Any) -> bool:
    """Whether a request has no answer because a broker is away."""
    return error.name() in _AWAY


def is_unreachable(error: Any) -> bool:
    """Whether no broker answers."""
    return bool(error.name() == _UNREACHABLE)


def fatal(error: Any, bootstrap: str) -> CommandError | None:
    """Return what ends the watching; None: the consumer tries again by itself."""
    if is_refused_login(error):
        return FailureError(
            f"the brokers at {bootstrap} refuse the connection: {said(error)}; give the security"
            " settings with --command-config"
        )
    if error.name() in _REFUSED:
        return FailureError(f"not allowed to read {TOPIC}: {RIGHTS}")
    if error.fatal():
        return FailureError(f"the consumer cannot go on: {said(error)}")
    return None


def first_fatal(errors: Iterable[Any], bootstrap: str) -> CommandError | None:
    """Return what the first of these errors that ends the watching means, if any does."""
    return next(filter(None, (fatal(each, bootstrap) for each in errors)), None)


def is_other(known: str, found: str) -> bool:
    """Whether an id is another one than before; "" is one that brokers do not tell."""
    return bool(known and found and known != found)


class NotNowError(FailureError):
    """A partition has no leader at the moment, or another trouble that passes."""


def passes(error: CommandError) -> bool:
    """Whether it is worth to try again: no broker answers, or a partition cannot be read now."""
    return isinstance(error, NoClusterError | NotNowError)


def unreadable(partition: int, errors: Sequence[Any], bootstrap: str) -> CommandError:
    """Return the error when a partition cannot be read at the start."""
    return first_fatal(errors, bootstrap) or NotNowError(
        f"partition {partition} of {TOPIC} cannot be read now: {said(errors[-1])}."
    )


RIGHTS: Final = f"it takes the rights Describe and Read on the topic {TOPIC}, and no others"


def unreachable(bootstrap: str, seconds: float) -> NoClusterError:
    """Return the error when no broker has answered at the start."""
    return NoClusterError(f"no broker answers at {bootstrap} within {seconds:g} s.")


def missing(bootstrap: str) -> FailureError:
    """Return the error when there is no topic at the start."""
    return FailureError(
        f"the cluster at {bootstrap} has no {TOPIC} that this user may see: it is created with the"
        f" first group; {RIGHTS}."
    )


def deleted() -> FailureError:
    """Return the error when the topic is gone, or is another one."""
    return FailureError(f"{TOPIC} was deleted, and with it the groups: start again.")


def bad_setting(error: Any) -> BadInputError:
    """Return the error for settings that the consumer does not accept."""
    return BadInputError(f"a setting of the consumer is wrong: {said(error)}")


def said(error: Any) -> str:
    """Return what an error says, on one line."""
    return plain(str(error.str()).strip().splitlines()[0] if str(error.str()).strip() else "")
