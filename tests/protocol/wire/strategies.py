"""Random messages of any class in kio's entity form."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from protocol.wire.convert import unwrap
from protocol.wire.errors import ErrorCode

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": TEXT,
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.none() | st.uuids(version=4),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda n: timedelta(milliseconds=n)),
    "datetime_i64": st.none()
    | st.integers(0, 2**40).map(lambda n: EPOCH + timedelta(milliseconds=n)),
    "timedelta_i64": st.integers(-(10**12), 10**12).map(lambda n: timedelta(milliseconds=n)),
}


@cache
def messages(shape: type) -> st.SearchStrategy[Any]:
    """Any message of a class, nulls where they are allowed."""
    return st.builds(shape, **{each.name: _values(each) for each in fields(shape)})


def _values(column: Any) -> st.SearchStrategy[Any]:
    kind, is_array, nullable = unwrap(column)
    one = messages(kind) if is_dataclass(kind) else PRIMITIVES[column.metadata["kafka_type"]]
    values = st.lists(one, max_size=3).map(tuple) if is_array else one
    return st.none() | values if nullable else values
