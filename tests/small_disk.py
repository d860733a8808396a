"""A small file system of its own, to be filled up."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def mounted(place: Path, size_mib: int = 8) -> Iterator[Path]:
    """Mount a file system for as long as the ``with`` lasts; only the superuser may."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted without root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path, left: int = 0, name: str = "filler") -> Path:
    """Leave so many bytes of room; return the file to remove for more."""
    filler = place / name
    room = os.statvfs(place)
    filler.write_bytes(bytes(max(room.f_bavail * room.f_bsize - left, 0)))
    return filler
