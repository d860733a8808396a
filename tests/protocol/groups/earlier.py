"""An earlier version, as far as records go: it replays none of share groups."""

from protocol.groups.dispatch import merge
from protocol.groups.group_types import EDGES, PARTS
from protocol.groups.share.group_type import SHARE

EARLIER = merge(tuple(part for part in PARTS if part is not SHARE), EDGES)
"""The tables of a version without share groups."""
