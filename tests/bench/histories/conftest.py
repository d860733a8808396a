"""Spark, and a directory with two made runs: ``clean``, and ``planted`` with every fault."""

import shutil

import pytest

pytest.importorskip("pyspark")

from bench.histories.made import GROUPS_MIN, HistoryShape, made
from bench.histories.planted import with_faults
from bench.histories.session import check_settings
from bench.histories.store import write_run

SHAPE = HistoryShape(groups=GROUPS_MIN)


@pytest.fixture(scope="package")
def session():
    if shutil.which("java") is None:
        pytest.skip("PySpark needs Java 17")
    from bench.load.spark import local_session

    session = local_session(check_settings(rows=0))
    yield session
    session.stop()


@pytest.fixture(scope="package")
def runs(session, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs")
    clean = made(session, SHAPE)
    write_run(clean, SHAPE.facts("clean"), directory)
    write_run(with_faults(clean, SHAPE), SHAPE.facts("planted"), directory)
    return directory
