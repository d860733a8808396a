"""Lets the event loop go on soon while another thread of the process computes.

Telemetry and stories are made in threads. The event loop gives up the interpreter with each read
and write of a socket; a thread that computes then keeps it for Python's switch interval: 5 ms by
default, so a turn with three writes waited for 15.
"""

from __future__ import annotations

import sys
from typing import Final

SWITCH_S: Final = 0.0005
"""A switch takes some microseconds, and happens only while two threads have work."""


def favour_event_loop() -> None:
    """Shorten this process's switch interval; a shorter one is kept."""
    sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
