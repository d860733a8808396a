"""The versions of Rollcall that the hosts of a drill run: wheels, each unpacked in a directory.

The newer one is built from this checkout. Without an older one, the checkout is the older one, and
the newer one is a copy in which a later version's changes are made: the peer protocol has one more
version, there is one more feature level, and values that processes exchange have more fields.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from actors.installation import DISTRIBUTION
from bench.hosts.host import ROOT
from bench.hosts.waiting import patient

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUILD_S: Final = patient(120)
SOURCES: Final = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
"""What a wheel is built from, beside the packages, which the build hook names."""

LINKS: Final = "actors/peers/versions.py"
NUMBER: Final = re.compile(r"PeerVersion\(number=(\d+),")


@dataclass(frozen=True, slots=True)
class Program:
    """A version of Rollcall: where Python imports it from, and the newest links that it speaks."""

    path: Path
    version: str
    newest_link: int


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A change of one place in a file."""

    file: str
    before: str
    after: str


CALL: Final = '''    async def status(self) -> dict[str, Any]:
        """Return the coordinator's status."""
'''
NEW_CALL: Final = '''    async def added(self) -> None:
        """Do nothing: older versions lack this call."""

'''
LEVELS_END: Final = ')\n"""By number."""'
ROWS_END: Final = ')\n"""The versions that this program speaks'


def later_changes(newest_link: int) -> Sequence[SourceChange]:
    """Return what a later version might change; ``newest_link`` is that of the present one."""
    row = f'    PeerVersion(number={newest_link + 1}, kinds=len(KINDS), about="a drill\'s"),\n'
    level = "    Level(records=_RECORDS, files=_FILES),\n"
    field = '    added: str = "by a later version"\n'
    return (
        SourceChange(LINKS, ROWS_END, row + ROWS_END),
        SourceChange("failover/catalogue/levels.py", LEVELS_END, level + LEVELS_END),
        SourceChange(
            "actors/cluster/spec.py", "    cluster_id: str\n", f"{field}    cluster_id: str\n"
        ),
        SourceChange(
            "actors/cluster/data_dir.py", "    cluster_id: str\n", f"{field}    cluster_id: str\n"
        ),
        SourceChange("actors/deployment/actors.py", CALL, NEW_CALL + CALL),
    )


def two_programs(directory: Path, older: Path | None = None) -> tuple[Program, Program]:
    """Return an older and a newer version, in ``directory``; raises BadInputError.

    ``older`` is a wheel. Without it, the newer version is made up.
    """
    present = directory / "present.src"
    _copy_sources(present)
    if older is not None:
        program = unpacked(older, directory)
        change_version(present, program.version)
        return program, unpacked(wheel_of(present), directory)
    program = unpacked(wheel_of(present), directory)
    return program, made_up_program(directory, program)


def made_up_program(directory: Path, present: Program) -> Program:
    """Make up a version that is later than the checkout's, which is ``present``.

    Call it after :func:`two_programs`, with the same directory; raises BadInputError.
    """
    later = directory / "later.src"
    shutil.copytree(directory / "present.src", later)
    make_later(later, present)
    return unpacked(wheel_of(later), directory)


def make_later(sources: Path, program: Program) -> None:
    """Change the sources of a version to those of a later one."""
    change_version(sources, program.version)
    for change in later_changes(program.newest_link):
        file = sources / change.file
        text = file.read_text()
        assert text.count(change.before) == 1, f"{change.before!r} is not once in {change.file}"
        file.write_text(text.replace(change.before, change.after))


def change_version(sources: Path, other: str) -> None:
    """Give sources that have the version of another program a later version."""
    file = sources / "pyproject.toml"
    mine, later = f'\nversion = "{other}"\n', f'\nversion = "{later_version(other)}"\n'
    file.write_text(file.read_text().replace(mine, later))


def later_version(version: str) -> str:
    """Return a later version, by PEP 440: with a local label, which any version may have."""
    return f"{version}{'.' if '+' in version else '+'}later"


def unpacked(wheel: Path, directory: Path) -> Program:
    """Unpack a wheel into a directory of its own; raises BadInputError."""
    version = wheel.name.split("-")[1] if wheel.name.startswith(f"{DISTRIBUTION}-") else ""
    path = directory / version
    try:
        if not version:
            raise ValueError("it is no wheel of Rollcall")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(path)
        numbers = NUMBER.findall((path / DISTRIBUTION / LINKS).read_text())
        return Program(path, version, int(numbers[-1]))
    except (OSError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise BadInputError(f"The wheel {wheel} cannot be used: {error}.") from error


def _copy_sources(directory: Path) -> None:
    """Copy what a wheel is built from; raises BadInputError."""
    try:
        directory.mkdir(parents=True)
        for name in SOURCES:
            shutil.copy(ROOT / name, directory)
    except OSError as error:
        raise BadInputError(
            f"The drill builds wheels, so run it in a checkout of Rollcall: {error}."
        ) from error
    ignored = shutil.ignore_patterns("__pycache__")
    for package in (path.parent for path in ROOT.glob("*/__init__.py")):
        if package.name != "tests":
            shutil.copytree(package, directory / package.name, ignore=ignored)


def wheel_of(sources: Path) -> Path:
    """Build the wheel of sources beside them; raises BadInputError."""
    out = sources.with_suffix(".wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=sources,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    wheels = list(out.glob("*.whl"))
    if built.returncode or not wheels:
        raise BadInputError(f"A wheel could not be built: {built.stderr.strip()[-200:]}")
    return wheels[0]
