"""The table of feature levels has every record and file that this program writes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.backup import manifest
from actors.cluster import data_dir
from failover.catalogue import records as catalogue_records
from failover.catalogue.levels import LEVELS
from failover.partition_kinds import CATALOG, GROUPS, KINDS, SHARE_STATE
from protocol.records import RECORD_TYPES, SHARE_STATE_TYPES, RecordType
from storage.disk import identity
from tests.effort import examples
from tests.protocol.wire.strategies import messages

ROWS = [
    *((GROUPS.name, row) for row in RECORD_TYPES.values()),
    *((SHARE_STATE.name, row) for row in SHARE_STATE_TYPES.values()),
]
CATALOGUE = {
    (CATALOG.name, number): value.__version__
    for number, (_, value) in catalogue_records.RECORD_TYPES.items()
}


def test_the_newest_level_has_every_record_type_and_file_format_that_is_known() -> None:
    newest = LEVELS[-1]
    rows = {(kind, row.number) for kind, row in ROWS}
    assert newest.records.keys() == rows | CATALOGUE.keys(), "add a level to LEVELS"
    assert {key: newest.records[key] for key in CATALOGUE} == CATALOGUE, "add a level to LEVELS"
    assert newest.files == {
        "cluster.json": data_dir.FORMAT,
        "meta.properties": identity.FORMAT_VERSION,
        manifest.MANIFEST: manifest.FORMAT,
    }, "add a level to LEVELS"


@pytest.mark.parametrize("kind, row", ROWS, ids=[row.value.__name__ for _, row in ROWS])
@settings(
    max_examples=examples(40),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_no_record_is_written_in_a_version_that_the_oldest_level_does_not_have(
    kind: str, row: RecordType, data: st.DataObject
) -> None:
    """What a later level permits must be written only once it is finalized."""
    version = row.written(data.draw(messages(row.value)))
    assert version <= LEVELS[0].records[kind, row.number]


def test_a_later_level_only_adds() -> None:
    for before, after in pairwise(LEVELS):
        assert all(after.records[key] >= version for key, version in before.records.items())
        assert all(after.files[name] >= version for name, version in before.files.items())
    kinds = {kind for level in LEVELS for kind, _ in level.records}
    assert kinds == {kind.name for kind in KINDS}
