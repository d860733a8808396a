"""Traces in files, as tests of runs read them."""

import json
from pathlib import Path
from typing import Any

from actors.telemetry.root_names import PREFIX

Span = dict[str, Any]


def spans_in(directory: Path) -> list[Span]:
    """Return the spans of all processes that wrote files of traces here."""
    return [
        span
        for path in sorted(directory.iterdir())
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes(span: Span) -> dict[str, str]:
    """Return the attributes that are texts."""
    return {
        each["key"]: each["value"]["stringValue"]
        for each in span["attributes"]
        if "stringValue" in each["value"]
    }


def the_run(spans: list[Span], name: str) -> Span:
    """Return the one root span with this name; its trace has no other root."""
    (root,) = (span for span in spans if span["name"] == name)
    assert not root.get("parentSpanId")
    return root


def children(spans: list[Span], root: Span) -> list[Span]:
    """Return the spans below a root, in order; each is within the time of the root."""
    own = [each for each in spans if each["traceId"] == root["traceId"] and each is not root]
    for each in own:
        assert each["parentSpanId"] == root["spanId"]
        assert int(root["startTimeUnixNano"]) <= int(each["startTimeUnixNano"])
        assert int(each["endTimeUnixNano"]) <= int(root["endTimeUnixNano"])
    return sorted(own, key=lambda each: int(each["startTimeUnixNano"]))


def is_rebalance_root(span: Span) -> bool:
    """Whether a span is the root of a rebalance's trace."""
    return span["name"].startswith(PREFIX) and not span.get("parentSpanId")
