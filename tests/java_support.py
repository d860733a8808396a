"""Java programs of the tests: compiled once against Kafka's own jars."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.servers.kafka_jars import HOME, NoJavaError, kafka_classpath
from tests.waiting import patient

SOURCES = Path(__file__).parent / "java"


def classpath_or_skip() -> str:
    """Find Kafka's jars; without Java or Maven the test is skipped, with the reason."""
    try:
        return kafka_classpath()
    except NoJavaError as error:
        pytest.skip(str(error))


def run_java(program: str, text: str = "") -> str:
    """Run ``tests/java/<program>.java`` with ``text`` on its input; give what it prints."""
    libs = classpath_or_skip()
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed: the Java checks need a JDK")
    classes = _compiled(program, libs)
    done = subprocess.run(
        ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{libs}", program],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(500),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _compiled(program: str, libs: str) -> Path:
    source = SOURCES / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    classes = HOME / "classes" / f"{program}-{digest}"
    if not (classes / f"{program}.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["javac", "-nowarn", "-cp", libs, "-d", str(classes), str(source)],
            check=True,
            capture_output=True,
            timeout=patient(500),
        )
    return classes
