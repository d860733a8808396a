"""Writes the modules of ``protocol/wire/kafka_4_4`` from Kafka's schemas, in the form of kio's own.

    .venv/bin/python .ci/generate_messages.py

kio's generator is not in its package. This one writes the newest version of each schema in
``protocol/wire/kafka_4_4/schemas`` and knows the parts of the schema language that they use; it
fails on others. A test compares what it makes of older versions with kio's classes.
"""

from __future__ import annotations

import builtins
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "protocol" / "wire" / "kafka_4_4"
SCHEMAS = FOLDER / "schemas"
NUMBERS = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16"}
PLAIN = {"string": "str", "bool": "bool", "bytes": "bytes", "uuid": "UUID | None"}
ERROR_CODES = {"ErrorCode", "PartitionErrorCode"}
HEADERS = {"request": ("RequestHeader", 1, 2), "response": ("ResponseHeader", 0, 1)}
"""The header's class, and its version before and since messages are flexible."""
API_VERSIONS = 18
IMPORTS = """\
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.{header}.v{header_version}.header import {header_class}
from kio.schema.types import GroupId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, i64Timedelta, u16
"""


class Versions(NamedTuple):
    """A range of versions as schemas write it: ``0+``, ``1-3``, ``2``, ``none``."""

    first: int
    last: int

    @staticmethod
    def parse(text: str) -> Versions:
        """Read a range."""
        if text == "none":
            return Versions(0, -1)
        if text.endswith("+"):
            return Versions(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


def read(path: Path) -> dict[str, Any]:
    """Read a schema; its comments are lines of their own."""
    lines = path.read_text().splitlines()
    schema: dict[str, Any] = json.loads("\n".join(x for x in lines if not re.match(r"\s*//", x)))
    return schema


def snake(name: str) -> str:
    """Write a schema's field name as kio does."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name).lower()
    return text + "_" if hasattr(builtins, text) else text


class Module:
    """The module of one message in one version."""

    def __init__(self, schema: dict[str, Any], version: int) -> None:
        self.schema, self.version = schema, version
        self.is_flexible = version in Versions.parse(schema["flexibleVersions"])
        self.common = {each["name"]: each for each in schema.get("commonStructs", ())}
        self.classes: dict[str, str] = {}

    def source(self) -> str:
        """Return the text, not yet formatted."""
        schema = self.schema
        kind: str = schema["type"]
        header_class, old, new = HEADERS[kind]
        header_version = new if self.is_flexible else old
        if schema["apiKey"] == API_VERSIONS and kind == "response":
            header_version = 0  # a client that knows none of the versions can read it
        imports = IMPORTS.format(
            header=f"{kind}_header", header_version=header_version, header_class=header_class
        )
        self.header = header_class
        self.add(schema["name"], schema["fields"], kind)
        title = f'"""Version {self.version} of {schema["name"]}, generated from its schema."""'
        return "\n\n".join([title, imports, *self.classes.values()]) + "\n"

    def add(self, name: str, columns: list[dict[str, Any]], kind: str) -> None:
        """Write a class after those of its fields."""
        lines = [
            "@dataclass(frozen=True, slots=True, kw_only=True)",
            f"class {name}:",
            '    """As in Kafka\'s schema."""',
            "",
            f"    __type__: ClassVar[EntityType] = EntityType.{kind}",
            f"    __version__: ClassVar[i16] = i16({self.version})",
            f"    __flexible__: ClassVar[bool] = {self.is_flexible}",
            f"    __api_key__: ClassVar[i16] = i16({self.schema['apiKey']})",
            f"    __header_schema__: ClassVar[type[{self.header}]] = {self.header}",
        ]
        for column in columns:
            if self.version in Versions.parse(column.get("versions", column.get("taggedVersions"))):
                lines.append("    " + self.column(column))
        self.classes[name] = "\n".join(lines)

    def column(self, column: dict[str, Any]) -> str:
        """Return the line of one field."""
        name, kind = column["name"], column["type"]
        is_array = kind.startswith("[]")
        kind = kind.removeprefix("[]")
        nullable = self.version in Versions.parse(column.get("nullableVersions", "none"))
        metadata: dict[str, Any] = {}
        if self.version in Versions.parse(column.get("taggedVersions", "none")):
            metadata["tag"] = column["tag"]
        if kind[0].isupper():
            fields = column.get("fields") or self.common[kind]["fields"]
            if kind not in self.classes:
                self.add(kind, fields, "nested")
            hint, default = kind, self.struct_default(column, is_array=is_array)
        else:
            name, kafka_type, hint = self.primitive(name, kind, column.get("entityType"))
            metadata = {"kafka_type": kafka_type, **metadata}
            default = self.default(column, kafka_type, hint, is_array=is_array)
            nullable &= is_array or hint not in {*NUMBERS.values(), PLAIN["uuid"]}
        if is_array:
            hint = f"tuple[{hint}, ...]"
        given = [f"metadata={metadata}"] if metadata else []
        given += [] if default is None else [f"default={default}"]
        end = f" = field({', '.join(given)})" if given else ""
        return f"{snake(name)}: {hint}{' | None' if nullable else ''}{end}"

    @staticmethod
    def primitive(name: str, kind: str, entity: str | None) -> tuple[str, str, str]:
        """Return the field's name, its kafka_type and its type in Python."""
        if name in ERROR_CODES:
            return name, "error_code", "ErrorCode"
        if name.endswith("Ms"):
            bits = {"int32": "i32", "int64": "i64"}[kind]
            return name.removesuffix("Ms"), f"timedelta_{bits}", f"{bits}Timedelta"
        named = {"groupId": "GroupId", "topicName": "TopicName"}.get(entity or "")
        return name, kind, named or NUMBERS.get(kind) or PLAIN[kind]

    @staticmethod
    def struct_default(column: dict[str, Any], *, is_array: bool) -> str | None:
        """Return the default of a struct, or of an array of them; None: there is none."""
        if "tag" in column:
            assert is_array
            return "()"
        if is_array or "default" not in column:
            return None
        assert column["default"] == "null"
        return "None"

    @staticmethod
    def default(
        column: dict[str, Any], kafka_type: str, hint: str, *, is_array: bool
    ) -> str | None:
        """Return the default of a plain value, or of an array of them; None: there is none."""
        given = column.get("default")
        if given == "null":
            return "None"
        if is_array:
            return "()"
        if given is None:
            return None
        if kafka_type.startswith("timedelta"):
            return f"{hint}.parse(timedelta(milliseconds={int(given)}))"
        if kafka_type == "bool":
            return str(given).capitalize()
        return f"{hint}({int(given)})" if hint in NUMBERS.values() else repr(given)


def formatted(text: str) -> str:
    """Remove the imports that are not used, sort the others, and format."""
    ruff = [sys.executable, "-m", "ruff"]
    check = [*ruff, "check", "--quiet", "--select", "F401,I", "--fix", "--exit-zero"]
    for command in (check, [*ruff, "format", "--quiet"]):
        name = str(FOLDER / "module.py")
        done = subprocess.run(
            [*command, "--stdin-filename", name, "-"], input=text, capture_output=True, check=True,
            text=True,
        )  # fmt: skip
        text = done.stdout
    return text


def modules() -> dict[str, str]:
    """Return the text of each module by its file name."""
    made = {}
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = read(path)
        version = Versions.parse(schema["validVersions"]).last
        name = f"{snake(schema['name'])}.py"
        made[name] = formatted(Module(schema, version).source())
    return made


if __name__ == "__main__":
    for name, text in modules().items():
        (FOLDER / name).write_text(text)
