"""Tells a torn tail of RocksDB's write-ahead log from a damaged log.

A process or machine that dies during an append leaves an incomplete last record: cut short by the
end of the file, or with zeros where blocks never reached the disk. That record was never
acknowledged, and may be dropped. Anything else that does not match its checksum was once complete,
so the log is corrupt and must not be guessed at.

A machine that loses power may also lose several writes that no sync covered, and keep later ones: a
hole of zeros with complete records behind it. Each write records how far the last sync before it
reached (:data:`SYNCED_KEY`), so a hole that no later record calls synced is a torn tail too.

RocksDB's format: blocks of 32 KiB; each holds fragments of ``crc (4) length (2) type (1) payload``,
little-endian; the masked CRC32C covers type and payload. A fragment never crosses a block.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

BLOCK = 32 * 1024
HEADER = struct.Struct("<IHB")
SECTOR = 512
KNOWN_TYPES = range(1, 14)

SYNCED_KEY = b"synced-wal"
SYNCED = struct.Struct(">QQ")
"""A file's number, and the byte before which it is durable; older files are durable entirely."""

_MARK = bytes([len(SYNCED_KEY)]) + SYNCED_KEY + bytes([SYNCED.size])
"""How RocksDB encodes key and value in a write batch: each preceded by its length."""


def torn_at(content: bytes, number: int = -1) -> int | None:
    """Return where the torn tail of a write-ahead log begins; None if the log is damaged instead.

    A log without any fault is torn at its end: nothing has to be cut. A full disk can end it
    between two fragments of one record. ``number`` is that of the file; without it no hole is
    accepted.
    """
    at = _first_fault(content)
    if at == len(content):
        return _record_start(content, at)
    after = _whole_fragment_after(content, at + 1)
    if after is None:
        return _record_start(content, at) if _is_incomplete(content, at) else None
    is_torn = number >= 0 and _is_hole(content, at, after) and not _is_synced(content, at, number)
    return _record_start(content, at) if is_torn else None


def _is_hole(content: bytes, at: int, after: int) -> bool:
    """Return whether a whole sector of zeros lies between a fault and the next fragment."""
    first = -(-at // SECTOR) * SECTOR
    sectors = (content[start : start + SECTOR] for start in range(first, after, SECTOR))
    return any(not sector.strip(b"\0") for sector in sectors)


def _is_synced(content: bytes, at: int, number: int) -> bool:
    """Return whether a record behind the fault says that a sync had covered it.

    Also True if no record of the file says anything: another program wrote it.
    """
    if _MARK not in content:
        return True
    found = content.find(_MARK, at)
    while found >= 0 and len(content) - found >= len(_MARK) + SYNCED.size:
        synced_number, synced_bytes = SYNCED.unpack_from(content, found + len(_MARK))
        if synced_number > number or (synced_number == number and synced_bytes > at):
            return True
        found = content.find(_MARK, found + 1)
    return False


def _fragment_end(content: bytes, at: int) -> int | None:
    """Return the end of the intact fragment at ``at``, None if there is none."""
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
    """Return where the intact fragments before ``until`` begin, and where the walk ended."""
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
    """Return whether the log ends at ``at``: only preallocated zeros follow."""
    return at == len(content) or content[at : at + HEADER.size] == bytes(
        min(HEADER.size, len(content) - at)
    )


def _whole_fragment_after(content: bytes, start: int) -> int | None:
    """Return where an intact fragment begins in this block or at a later block's start, if any."""
    block_end = start - start % BLOCK + BLOCK
    here = range(start, min(block_end, len(content)))
    later = range(block_end, len(content), BLOCK)
    places = (at for at in (*here, *later) if _fragment_end(content, at) is not None)
    return next(places, None)


def _is_incomplete(content: bytes, at: int) -> bool:
    """Return whether the fragment at ``at`` was never finished: too short, or zeros at its end."""
    rest = content[at:]
    if len(rest) < HEADER.size:
        return True
    length = HEADER.unpack_from(rest)[1]
    if len(rest) < HEADER.size + length:
        return True
    written = len(rest.rstrip(b"\0"))
    return written <= len(rest) - SECTOR or not rest[:-1].strip(b"\0")


def _record_start(content: bytes, at: int) -> int:
    """Return the start of the record whose fragment at ``at`` is torn (it may begin earlier).

    Fragment types 1 full, 2 first, 3 middle, 4 last: a torn record includes its earlier fragments.
    """
    start = at
    for earlier in reversed(_walk(content, at)[:-1]):
        if HEADER.unpack_from(content, earlier)[2] not in (2, 3):
            break
        start = earlier
    return start
