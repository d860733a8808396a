"""No string of a request is longer than Kafka's formats hold: 32,767 bytes, in every version."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from protocol.wire.apis import API
from protocol.wire.convert import blank, unwrap
from protocol.wire.frames import BadFrame, decode_request, encode_request
from protocol.wire.readers import TEXT_BYTES_MAX
from protocol.wire.versions import request_plan

LONGEST = "é" * (TEXT_BYTES_MAX // 2) + "x"
TOO_LONG = "é" * (TEXT_BYTES_MAX // 2 + 1)


def paths(shape: type, *above: str) -> list[tuple[str, ...]]:
    """Every string field of a message, by the names that lead to it."""
    found: list[tuple[str, ...]] = []
    for column in fields(shape):  # type: ignore[arg-type]
        kind, _, _ = unwrap(column)
        if is_dataclass(kind):
            assert isinstance(kind, type)
            found += paths(kind, *above, column.name)
        elif column.metadata["kafka_type"] == "string":
            found.append((*above, column.name))
    return found


def with_text(shape: type, path: tuple[str, ...], text: str) -> Any:
    """A message whose only interesting field is the one at the end of the path."""
    name, *rest = path
    column = next(each for each in fields(shape) if each.name == name)  # type: ignore[arg-type]
    kind, is_array, _ = unwrap(column)
    value: Any = with_text(kind, tuple(rest), text) if rest else text
    return blank(shape, **{name: (value,) if is_array else value})


CASES = [
    pytest.param(api.key, version, path, id=f"{api.name}-{version}-{'.'.join(path)}")
    for api in API.values()
    for version in range(api.min_version, api.max_version + 1)
    if request_plan(api.key, version).shape.__flexible__
    for path in paths(request_plan(api.key, version).shape)
]


@pytest.mark.parametrize(("api_key", "version", "path"), CASES)
def test_a_compact_string_of_a_request_is_no_longer_than_any_other(
    api_key: int, version: int, path: tuple[str, ...]
) -> None:
    plan = request_plan(api_key, version)
    for text, is_refused in ((LONGEST, False), (TOO_LONG, True)):
        message = plan.up(with_text(plan.shape, path, text))
        frame = encode_request(api_key, version, 1, "client", message)[4:]
        assert len(text.encode()) <= TEXT_BYTES_MAX or is_refused
        if is_refused:
            with pytest.raises(BadFrame, match="a string is longer than 32767 bytes"):
                decode_request(frame)
        else:
            decode_request(frame)
