"""Takes the pictures of ``docs/reports.md``: reports of ready scenarios, in a real Chromium.

.venv/bin/python -m tests.bench.pages.pictures
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.rehearse import main
from tests.browser import chromium, opened

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SIZE_BYTES_MAX = 200_000
SIZE = {"width": 1200, "height": 1240}


class ReportPicture(NamedTuple):
    """A picture: the scenario, the colour scheme, what is shown (ms), and where the mouse points.

    The mouse is over the first group's picture, at these shares of its width and height.
    """

    scenario: str
    scheme: str
    shown: tuple[int, int] | None = None
    points: tuple[float, float] | None = None


TAKEN = {
    "report-rolling-deploy": ReportPicture("rolling-deploy", "light"),
    "report-bad-application": ReportPicture("bad-application", "light", (15_000, 60_000)),
    "report-leader-loss": ReportPicture(
        "leader-loss-in-deploy", "dark", (20_000, 80_000), (0.58, 0.5)
    ),
}


def take(directory: Path) -> None:
    """Take every picture into a directory."""
    with tempfile.TemporaryDirectory() as reports, chromium() as browser:
        for name, picture in TAKEN.items():
            report = Path(reports) / f"{name}.html"
            if main(["--simulate", picture.scenario, "--report", str(report)]):
                raise SystemExit(f"{picture.scenario} is not clean: there is no picture of it.")
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


if __name__ == "__main__":
    take(PICTURES)
