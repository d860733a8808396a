"""How much a test does: all of it in ``make test``, a share in ``make test-core``.

Properties draw other examples in each run, but in continuous integration (``.ci/run``), where a
failure is to mean that the change is wrong.
"""

import os
from typing import Final

IS_CORE: Final = os.environ.get("ROLLCALL_TESTS") == "core"

IS_SETTLED: Final = os.environ.get("ROLLCALL_TESTS") == "settled"
"""Whether properties try the same examples in every run: in continuous integration."""

CORE_SHARE: Final = 10


def examples(count: int) -> int:
    """Return how many of ``count`` examples to try: a tenth, but one at least, in the core run."""
    return max(count // CORE_SHARE, 1) if IS_CORE else count
