"""Log lines in both forms: UTC times, one line each, and fields of their own in JSON."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.logs.file import log_to_file
from actors.logs.line_format import CONFIG, FIELDS, FORMATS, JSON, TEXT, format_of, utc
from protocol.config import CONFIGS, Configs

UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Undo what a log file does to the logger of this process."""
    root = logging.getLogger("rollcall")
    before = root.level, list(root.handlers), root.propagate
    yield root
    for handler in set(root.handlers) - set(before[1]):
        root.removeHandler(handler)
        handler.close()
    root.level, root.propagate = before[0], before[2]


def test_times_are_utc_with_milliseconds() -> None:
    assert utc(1_795_512_058_123) == "2026-11-24T09:20:58.123Z"
    assert utc(1_795_512_058_000.4) == "2026-11-24T09:20:58.000Z"


def test_a_line_of_text_begins_with_its_time_in_utc(root: logging.Logger, tmp_path: Path) -> None:
    log_to_file(tmp_path / "logs" / "coordinator-2.log")
    logging.getLogger("rollcall.coordinator").info("loaded in %d ms", 7)
    text = (tmp_path / "logs" / "coordinator-2.log").read_text()
    assert re.fullmatch(f"{UTC} INFO rollcall.coordinator: loaded in 7 ms\n", text)


def test_json_is_an_object_a_line_with_the_process_the_group_and_the_member(
    root: logging.Logger, tmp_path: Path
) -> None:
    path = tmp_path / "coordinator-2.log"
    log_to_file(path, JSON)
    log = logging.getLogger("rollcall.groups")
    log.info('say "%s"\n→', "hi", extra={"group": "orders\n", "member": "web-1"})
    try:
        raise OSError("no\nroom")
    except OSError as error:
        log.critical("it restarts", exc_info=error)
    log.info("lone \udcff surrogate")
    first, second, third = map(json.loads, path.read_text().splitlines())
    assert re.fullmatch(UTC, first.pop("time"))
    assert first == {
        "level": "INFO",
        "node": "coordinator-2",
        "logger": "rollcall.groups",
        "message": 'say "hi"\n→',
        "group": "orders\n",
        "member": "web-1",
    }
    assert second["level"] == "CRITICAL"
    assert second["exception"].endswith("OSError: no\nroom")
    assert not second.keys() & set(FIELDS)
    assert third["message"] == "lone \udcff surrogate"


def test_the_config_chooses_among_all_formats() -> None:
    row = next(row for rows in CONFIGS.values() for row in rows.values() if row.name == CONFIG)
    assert set(row.choices) == FORMATS.keys()
    assert format_of({}) == row.default == TEXT
    assert format_of({CONFIG: JSON}) == JSON
    assert Configs({}).text(CONFIG) == TEXT
