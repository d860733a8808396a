"""Compiles loops over arrays to machine code with Numba, and caches the code on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numba
import numpy as np

from protocol.assignors.spec import AssignorError, GroupSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.assignors.spec import Int32s

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call, without the interpreter lock; cache the code for later processes.

    The cache is next to the source, otherwise in the user's cache directory. Where neither is
    writable, every process compiles for itself (about forty seconds for all assignors).
    """
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no directory for the cache
        compiled = numba.njit(nogil=True)(function)
    return compiled


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile into each kernel that calls it.

    A real call would count references of every array argument, up and down again.
    """
    compiled: Callable[P, R] = numba.njit(inline="always", nogil=True)(function)
    return compiled


def uncounted(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that creates no arrays, to be called by a kernel without reference counts.

    Where a loop's body takes a tenth of a microsecond, counting references doubles the time.
    """
    no_counting: dict[str, Any] = {"_nrt": False}
    compiled: Callable[P, R] = numba.njit(nogil=True, **no_counting)(function)
    return compiled


def writable(array: Int32s) -> Int32s:
    """Return an array of the only type that kernels are compiled for.

    A read-only array, such as one read from a message, is another type to Numba, which would
    compile the kernel again for it.
    """
    own = np.ascontiguousarray(array, np.int32)
    return own if own.flags.writeable else own.copy()


def check_spec(spec: GroupSpec) -> None:
    """Raise AssignorError for invalid arrays: kernels do not check bounds."""
    starts = spec.partition_starts
    if len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) < 0):
        raise AssignorError("partition_starts is not a list of growing positions from 0")
    _check_rows("class", spec.class_starts, spec.class_topics, spec.topic_count)
    _check_range("member_class", spec.member_class, 0, spec.class_count)
    _check_length("previous_owner", spec.previous_owner, spec.partition_count)
    _check_range("previous_owner", spec.previous_owner, -1, spec.member_count)
    if len(spec.instance_rank):
        _check_length("instance_rank", spec.instance_rank, spec.member_count)
    if len(spec.member_rack):
        _check_length("member_rack", spec.member_rack, spec.member_count)
    if len(spec.is_assignable) not in (0, spec.partition_count):
        raise AssignorError(f"is_assignable has not {spec.partition_count} elements")
    if len(spec.previous_starts):
        _check_length("previous_starts", spec.previous_starts, spec.member_count + 1)
        starts, had = spec.previous_starts, spec.previous_partitions
        _check_rows("previous", starts, had, spec.partition_count)
    if len(spec.rack_starts):
        _check_length("rack_starts", spec.rack_starts, spec.partition_count + 1)
        _check_rows("rack", spec.rack_starts, spec.partition_racks, np.iinfo(np.int32).max)


def _check_rows(name: str, starts: Int32s, values: Int32s, end: int) -> None:
    if len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) < 0):
        raise AssignorError(f"{name}_starts is not a list of growing positions from 0")
    _check_length(f"what {name}_starts covers", values, int(starts[-1]))
    _check_range(f"what {name}_starts covers", values, 0, end)


def _check_length(name: str, array: Int32s, length: int) -> None:
    if len(array) != length:
        raise AssignorError(f"{name} has {len(array)} elements instead of {length}")


def _check_range(name: str, array: Int32s, first: int, end: int) -> None:
    if len(array) and not (array.min() >= first and array.max() < end):
        raise AssignorError(f"{name} holds a number below {first} or above {end - 1}")
