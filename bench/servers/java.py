"""Finds Java: Kafka's peer benchmark and PySpark both need it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from typing import Final

from bench.servers.server import StartError

JAVA_MIN: Final = 17


def java_command() -> str:
    """Return the ``java`` to run; raise a one-sentence error if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise StartError(f"Java {JAVA_MIN} is needed here and no java was found.")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < JAVA_MIN:
        raise StartError(f"Java {JAVA_MIN} is needed here; {java} is {found[1] if found else '?'}.")
    return java


def need_spark() -> None:
    """Raise a one-sentence error if PySpark, or the Java that it needs, is missing."""
    java_command()
    if find_spec("pyspark") is None:
        raise StartError("PySpark is needed here: install rollcall[load].")
