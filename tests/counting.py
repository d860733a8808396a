"""Count the Python functions that something runs."""

import gc
import sys
from collections.abc import Callable


def calls(do: Callable[[], object]) -> int:
    """Count the calls that ``do`` makes.

    What a process makes once (plans of messages, compiled functions, remembered bytes) counts, too.
    So call ``do``, or its like, before: else the count depends on the tests that ran earlier.
    """
    count = 0

    def tally(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    is_collecting = gc.isenabled()
    gc.disable()  # a collection runs other people's callbacks, which are no cost of ours
    sys.setprofile(tally)
    try:
        do()
    finally:
        sys.setprofile(None)
        if is_collecting:
            gc.enable()
    return count
