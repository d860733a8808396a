"""The form of a Kafka error inside the cluster."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ("ErrorCode", "KafkaError")


MESSAGE_MAX: Final = 4_000
"""Characters of a message: it may repeat a client's text, and some responses hold no more than
32,767 bytes of it."""


class KafkaError(Exception):
    """A request is answered with ``code``; ``message`` is added if the response has a field for it.

    Handlers raise it before their first record, never after. ``apis.error_response`` knows the
    place of the error in each response.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        if message is not None and len(message) > MESSAGE_MAX:
            message = message[:MESSAGE_MAX] + "..."
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        name = self.code.name.upper()
        return f"{name}: {self.message}" if self.message else name
