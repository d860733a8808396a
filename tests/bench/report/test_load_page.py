"""docs/load.md computes from the figures of docs/performance.md, and its arithmetic is right."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "load.md").read_text()
PERFORMANCE = (DOCS / "performance.md").read_text()
DRIFT = 0.25
"""How far a figure may be from that of the newest measurement before the page is computed anew."""


def measured(title: str, case: str, figure: str, unit: str) -> float:
    """Return our figure of a row of the generated page."""
    section = PERFORMANCE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if len(cells) > 3 and case in cells[0] and cells[1:3] == [figure, unit]:
            return float(cells[3].replace(",", ""))
    raise AssertionError(title, case, figure)


def micros(title: str, case: str) -> float:
    """Return what a request costs, in microseconds of CPU."""
    return 1e6 / measured(title, case, "requests", "1/s of CPU")


CLASSIC, CONSUMER = "Heartbeats of classic groups", "Heartbeats of consumer groups"


@pytest.mark.parametrize(
    ("told", "now"),
    [
        (r"few wait at a time \| ([\d.]+) µs", lambda: micros(CLASSIC, "paced")),
        (r"few wait at a time \| .*?, ([\d.]+) µs", lambda: micros(CONSUMER, "paced")),
        (r"many wait \| ([\d.]+) µs", lambda: micros(CLASSIC, "closed loop")),
        (r"many wait \| .*?, ([\d.]+) µs", lambda: micros(CONSUMER, "closed loop")),
        (
            r"three replicas \| ([\d.]+) µs",
            lambda: micros("Offset commits with three replicas", "three replicas"),
        ),
        (
            r"and ([\d.]+) KiB for each member",
            lambda: measured(
                "Resident memory of 10,000 members", "10000", "added per member kib", ""
            ),
        ),
    ],
)
def test_a_cost_is_that_of_the_newest_measurement(told, now):
    (figure,) = re.findall(told, PAGE)
    assert float(figure) == pytest.approx(now(), rel=DRIFT), "compute docs/load.md anew"


def test_every_product_and_quotient_is_right():
    text = PAGE.replace(",", "")
    found = 0
    for left, right, unit, result in re.findall(
        r"([\d.]+) x ([\d.]+)( µs| KiB| MiB|) = ([\d.]+)", text
    ):
        scale = {" µs": 1e6, " KiB": 1 << 20, " MiB": 1 << 10, "": 1}[unit]
        product = float(left) * float(right) / scale
        assert product == pytest.approx(float(result), rel=0.03), (left, right, unit, result)
        found += 1
    for left, right, result in re.findall(r"([\d.]+) / ([\d.]+) = ([\d.]+)", text):
        assert float(left) / float(right) == pytest.approx(float(result), rel=0.03)
        found += 1
    assert found >= 8


def test_the_sum_of_the_requests_is_that_of_its_parts():
    parts = [float(each) for each in re.findall(r" µs = ([\d.]+) CPUs", PAGE)]
    (total,) = re.findall(r"CPUs of all coordinators \| ([\d.]+) \|", PAGE)
    assert len(parts) == 3
    assert sum(parts) == pytest.approx(float(total), rel=0.01)
