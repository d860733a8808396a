"""Tells a torn tail of RocksDB's write-ahead log from a damaged log.

A process or machine that dies while it appends leaves its last record incomplete: cut short by the
end of the file, or with zeros where blocks never reached the disk. That record was never
acknowledged, and it may go. Anything else that does not match its checksum was once whole, so the
log is corrupt and nobody may guess.

RocksDB's format: blocks of 32 KiB; each holds fragments of ``crc (4) length (2) type (1) payload``,
little-endian, the masked CRC32C being over type and payload. A fragment never crosses a block.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

BLOCK = 32 * 1024
HEADER = struct.Struct("<IHB")
SECTOR = 512
KNOWN_TYPES = range(1, 14)


def torn_at(content: bytes) -> int | None:
    """Return where the torn tail of a write-ahead log begins; None if it is not torn but damaged.

    A log without any fault is torn at its end: nothing is to be cut. A full disk can end it between
    two fragments of one record.
    """
    at = _first_fault(content)
    if at == len(content):
        return _record_start(content, at)
    if _whole_fragment_after(content, at + 1) or not _is_incomplete(content, at):
        return None
    return _record_start(content, at)


def _fragment_end(content: bytes, at: int) -> int | None:
    """Return the end of the whole fragment at ``at``, None if there is none."""
    block_end = at - at % BLOCK + BLOCK
    if at + HEADER.size > min(block_end, len(content)):
        return None
    masked, length, kind = HEADER.unpack_from(content, at)
    end = at + HEADER.size + length
    if kind not in KNOWN_TYPES or end > min(block_end, len(content)):
        return None
    crc = crc32c(content[at + HEADER.size - 1 : end])
    rotated = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    return end if (rotated + 0xA282EAD8) & 0xFFFFFFFF == masked else None


def _walk(content: bytes, until: int) -> list[int]:
    """Return where the whole fragments before ``until`` begin, and where the walk ended."""
    at, starts = 0, []
    while at < until:
        room = BLOCK - at % BLOCK
        if room < HEADER.size:
            at += room  # the rest of a block too small for a header is padding
            continue
        starts.append(at)
        end = _fragment_end(content, at)
        if end is None:
            return starts
        at = end
    starts.append(min(at, len(content)))
    return starts


def _first_fault(content: bytes) -> int:
    at = _walk(content, len(content))[-1]
    return len(content) if not content[at:].strip(b"\0") and _all_zero_is_fine(content, at) else at


def _all_zero_is_fine(content: bytes, at: int) -> bool:
    """Tell whether the log ends at ``at``: nothing but preallocated zeros follows."""
    return at == len(content) or content[at : at + HEADER.size] == bytes(
        min(HEADER.size, len(content) - at)
    )


def _whole_fragment_after(content: bytes, start: int) -> bool:
    """Tell whether a whole fragment begins anywhere in this block or at a later block's start."""
    block_end = start - start % BLOCK + BLOCK
    here = range(start, min(block_end, len(content)))
    later = range(block_end, len(content), BLOCK)
    return any(_fragment_end(content, at) is not None for at in (*here, *later))


def _is_incomplete(content: bytes, at: int) -> bool:
    """Tell whether the fragment at ``at`` was never finished: too short, or zeros at its end."""
    rest = content[at:]
    if len(rest) < HEADER.size:
        return True
    length = HEADER.unpack_from(rest)[1]
    if len(rest) < HEADER.size + length:
        return True
    written = len(rest.rstrip(b"\0"))
    return written <= len(rest) - SECTOR or not rest[:-1].strip(b"\0")


def _record_start(content: bytes, at: int) -> int:
    """Return the start of the record whose fragment at ``at`` is torn (it may have begun before).

    Fragment types 1 full, 2 first, 3 middle, 4 last: a torn record goes with its earlier fragments.
    """
    start = at
    for earlier in reversed(_walk(content, at)[:-1]):
        if HEADER.unpack_from(content, earlier)[2] not in (2, 3):
            break
        start = earlier
    return start
