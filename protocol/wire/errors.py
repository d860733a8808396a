"""The one shape of a Kafka error inside the cluster."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = ("ErrorCode", "KafkaError")


class KafkaError(Exception):
    """A request is answered with ``code``; ``message`` where the response has room for one.

    Handlers raise it before their first record, never after. ``apis.error_response`` knows where
    each response keeps its error.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        name = self.code.name.upper()
        return f"{name}: {self.message}" if self.message else name
