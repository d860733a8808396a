"""Build the wheel: every package of this repository as a part of one package, ``rollcall``.

The repository's packages have short names (``protocol``, ``storage``), which other distributions
have too. So the wheel has them as ``rollcall.protocol``, ``rollcall.storage`` and so on, and this
hook of hatchling rewrites the imports of the copies (see ``docs/decisions/wheel.md``).

An editable install takes the packages as they are.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE: Final = "rollcall"
PACKAGES: Final = ("protocol", "storage", "failover", "actors", "bench")
"""What the repository has beside :data:`NAMESPACE` and the wheel has below it."""


class UnfitImportError(Exception):
    """A module names another one in a way that cannot be rewritten; the sentence says where."""


class NamespaceHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is not exported
    """Put copies of our packages into the wheel, with their imports rewritten."""

    _directory = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the copies, unless the install is editable."""
        if version == "editable":
            return
        self._directory = tempfile.mkdtemp(prefix="rollcall-wheel-")
        made = Path(self._directory) / NAMESPACE
        write_namespace(Path(self.root), made)
        build_data["force_include"][str(made)] = NAMESPACE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        del version, build_data, artifact_path
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)


def write_namespace(root: Path, made: Path) -> None:
    """Write the packages of the repository at ``root`` as one package into ``made``.

    Raises :class:`UnfitImportError`.
    """
    for package in (NAMESPACE, *PACKAGES):
        for path in _files(root / package):
            copy = made / path.relative_to(root / NAMESPACE if package == NAMESPACE else root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            copy.write_bytes(in_namespace(data, str(path)) if path.suffix == ".py" else data)


def _files(package: Path) -> Iterator[Path]:
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def in_namespace(source: bytes, name: str) -> bytes:
    """Return ``source`` with its imports of our packages below :data:`NAMESPACE`.

    Raises :class:`UnfitImportError` for ``import protocol.x`` without ``as``, which binds a name
    that would change, and for a string that names one of our modules: those are built from
    ``__package__`` or ``__name__``.
    """
    tree = ast.parse(source, name)
    lines = source.splitlines(keepends=True)
    places: set[tuple[int, int]] = set()
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module):
            places.add((node.lineno - 1, node.col_offset + len("from ")))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if not _is_ours(alias.name):
                    continue
                if alias.asname is None:
                    raise UnfitImportError(
                        f"{name}:{node.lineno}: `import {alias.name}` cannot be rewritten for the "
                        "wheel: write `from ... import ...`"
                    )
                places.add((alias.lineno - 1, alias.col_offset))
        elif isinstance(node, ast.Constant) and node not in docstrings and _names_module(node):
            raise UnfitImportError(
                f"{name}:{node.lineno}: the string {node.value!r} names a module, whose name is "
                "another one in the wheel: build it from `__package__` or from the module"
            )
    for line, column in sorted(places, reverse=True):
        text = lines[line]
        lines[line] = text[:column] + NAMESPACE.encode() + b"." + text[column:]
    return b"".join(lines)


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in PACKAGES


_MODULE: Final = re.compile(rf"(?:^|\s)(?:{'|'.join(PACKAGES)})(?:\.[a-z_]\w*)+(?:$|[\s:])")


def _names_module(node: ast.Constant) -> bool:
    return isinstance(node.value, str) and _MODULE.search(node.value) is not None


def _docstrings(tree: ast.Module) -> set[ast.Constant]:
    """Return the constants that stand alone as a statement: docstrings, also of values."""
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
