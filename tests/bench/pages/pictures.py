"""Takes the pictures of ``docs/reports.md``: reports of ready scenarios, in a real Chromium.

.venv/bin/python -m tests.bench.pages.pictures

What the pictured runs cost is written beside the pictures (``reports.json``): a test compares it
with what the command gives today.
"""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.rehearse import main
from tests.browser import chromium, opened

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
FIGURES = PICTURES / "reports.json"
SIZE_BYTES_MAX = 200_000
SIZE = {"width": 1200, "height": 1240}


class ReportPicture(NamedTuple):
    """A picture: the scenario, the colour scheme, what is shown (ms), and where the mouse points.

    The mouse is over the first group's picture, at these shares of its width and height.
    ``variants``: those that are compared; usually the scenario alone is run.
    """

    scenario: str
    scheme: str
    shown: tuple[int, int] | None = None
    points: tuple[float, float] | None = None
    variants: tuple[str, ...] = ("base",)


TAKEN = {
    "report-rolling-deploy": ReportPicture("rolling-deploy", "light"),
    "report-bad-application": ReportPicture("bad-application", "light", (15_000, 60_000)),
    "report-leader-loss": ReportPicture(
        "leader-loss-in-deploy", "dark", (20_000, 80_000), (0.58, 0.5)
    ),
    "report-which-deploy": ReportPicture(
        "which-deploy", "light", variants=("base", "one-by-one", "static-set", "consumer")
    ),
}


def figures(picture: ReportPicture, report: Path) -> dict[str, dict[str, list[float]]]:
    """Rehearse what is pictured, write its page, and return what each group of each run paid.

    These are the rebalances, and the member-seconds without an assignment.
    """
    data = report.with_suffix(".json")
    words = ["--simulate", picture.scenario, "--report", str(report), "--report", str(data)]
    for variant in picture.variants:
        words += ["--variant", variant]
    if main(words):
        raise SystemExit(f"{picture.scenario} is not clean: there is no picture of it.")
    found: dict[str, dict[str, list[float]]] = {}
    for run in json.loads(data.read_text())["runs"]:
        paid = found.setdefault(run["name"], {})
        for row in run["costs"]:
            values = {each["name"]: each["value"] for each in row["figures"]}
            paid[row["group"]] = [
                values["rebalances"], round(values["unavailable member-s"], 1),
            ]  # fmt: skip
    return found


def take(directory: Path) -> None:
    """Take every picture into a directory."""
    found = {}
    with tempfile.TemporaryDirectory() as reports, chromium() as browser:
        for name, picture in TAKEN.items():
            report = Path(reports) / f"{name}.html"
            found[name] = figures(picture, report)
            with opened(
                browser, report.as_uri(), viewport=SIZE, color_scheme=picture.scheme
            ) as watched:
                page = watched.page
                page.wait_for_function("document.documentElement.dataset.drawn")
                if picture.shown:
                    page.evaluate("([from, to]) => view.show(from, to)", picture.shown)
                if picture.points:
                    box = page.locator(".picture canvas").first.bounding_box()
                    x, y = picture.points
                    page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
                page.screenshot(path=directory / f"{name}.png")
    (directory / FIGURES.name).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    take(PICTURES)
