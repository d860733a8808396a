"""The messages of Kafka 4.4 that kio lacks: generated from Kafka's schemas, in kio's form."""

import importlib.util
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kio.index import UnknownEntity, load_request_schema, load_response_schema

from protocol.wire.apis import API
from protocol.wire.convert import unwrap
from protocol.wire.kafka_4_4.index import GENERATED, request_shape, response_shape

ROOT = Path(__file__).parents[3]
LEGACY = "acceptable_recovery_lag_legacy"
"""Kafka 4.4's name of a field of version 0 that was called otherwise before."""


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / ".ci/generate_messages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
SCHEMAS = {path.stem: GENERATOR.read(path) for path in sorted(GENERATOR.SCHEMAS.glob("*.json"))}
OLDER = [
    (name, version)
    for name, schema in SCHEMAS.items()
    for version in range(GENERATOR.Versions.parse(schema["validVersions"]).last)
]


def traits(cls: Any) -> Any:
    """Return all that kio reads of a message's class, and of the classes of its fields."""
    columns = []
    for column in fields(cls):
        kind, is_array, nullable = unwrap(column)
        inner = traits(kind) if is_dataclass(kind) else kind
        name = column.name.removesuffix("_legacy") if column.name == LEGACY else column.name
        columns.append((name, inner, is_array, nullable, dict(column.metadata), column.default))
    names = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
    return cls.__name__, [getattr(cls, each) for each in names], columns


@pytest.mark.parametrize(("name", "version"), OLDER)
def test_the_generator_makes_of_older_versions_what_kio_has(name: str, version: int) -> None:
    schema = SCHEMAS[name]
    made: dict[str, Any] = {"__name__": "made"}
    exec(GENERATOR.Module(schema, version).source(), made)
    load = load_request_schema if schema["type"] == "request" else load_response_schema
    assert traits(made[name]) == traits(load(schema["apiKey"], version))


def test_the_modules_are_what_the_generator_makes() -> None:
    for name, text in GENERATOR.modules().items():
        assert (GENERATOR.FOLDER / name).read_text() == text, "run .ci/generate_messages.py"


def test_the_schemas_have_their_licence() -> None:
    for path in GENERATOR.SCHEMAS.iterdir():
        assert "Apache License, Version 2.0" in path.read_text()


@pytest.mark.parametrize(("key", "version"), GENERATED)
def test_what_is_generated_is_served_in_its_newest_version_and_kio_lacks_it(
    key: int, version: int
) -> None:
    assert API[key].max_version == version
    request, response = GENERATED[key, version]
    assert request_shape(key, version) is request
    assert response_shape(key, version) is response
    assert issubclass(API[key].request, request)
    assert issubclass(API[key].response, response)
    for shape in (request, response):
        schema = SCHEMAS[shape.__name__]
        assert GENERATOR.Versions.parse(schema["validVersions"]).last == version
    for load in (load_request_schema, load_response_schema):
        with pytest.raises(UnknownEntity):  # remove the row once it has it
            load(key, version)
