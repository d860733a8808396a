"""Reasons for one line of the log: bounded, whatever a client has sent."""

from __future__ import annotations

from typing import Final

TEXT_MAX: Final = 100
"""Characters kept of a name that a client chose."""

SENTENCE_MAX: Final = 300
"""Characters kept of an exception's message."""


def shown(text: str) -> str:
    """Return a client's text in a form that fits into a log line: short and printable."""
    short = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."
    return short if short.isprintable() else ascii(short)[1:-1]


def reason(error: BaseException) -> str:
    """Return the type, the message and the innermost location of an exception."""
    sentence = str(error)
    if len(sentence) > SENTENCE_MAX:
        sentence = sentence[:SENTENCE_MAX] + "..."
    if not sentence.isprintable():
        sentence = ascii(sentence)[1:-1]
    place = ""
    frames = error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        place = f" ({code.co_filename.rpartition('/')[2]}:{frames.tb_lineno})"
        frames = frames.tb_next
    return (
        f"{type(error).__name__}: {sentence}{place}" if sentence else type(error).__name__ + place
    )
