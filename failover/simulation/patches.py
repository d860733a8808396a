"""Names of modules and classes that stand for something else for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Patch: TypeAlias = tuple[Any, str, Any]
"""Whose attribute of which name becomes what."""


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply patches, and undo them in the end."""
    patches = list(patches)
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
