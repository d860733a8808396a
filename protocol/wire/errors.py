"""The one shape of a Kafka error inside the cluster."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ("ErrorCode", "KafkaError")


MESSAGE_MAX: Final = 4_000
"""Characters of a message: it may repeat what a client has sent, and some responses hold no more
than 32,767 bytes of it."""


class KafkaError(Exception):
    """A request is answered with ``code``; ``message`` where the response has room for one.

    Handlers raise it before their first record, never after. ``apis.error_response`` knows where
    each response keeps its error.
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
