"""Replace names of modules and classes for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Patch: TypeAlias = tuple[Any, str, Any]
"""The object, the attribute's name, and its replacement."""


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply patches, and undo them at the end."""
    patches = list(patches)
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
