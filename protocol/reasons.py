"""What went wrong, for one line of the log: bounded, whatever a client has sent."""

from __future__ import annotations

from typing import Final

TEXT_MAX: Final = 100
"""Characters of a name that a client has chosen."""

SENTENCE_MAX: Final = 300
"""Characters of an exception's own sentence."""


def shown(text: str) -> str:
    """Return a client's text as a line of the log can hold it: short, and printable."""
    short = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."
    return short if short.isprintable() else ascii(short)[1:-1]


def reason(error: BaseException) -> str:
    """Return the type, the sentence and the innermost place of an exception."""
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
