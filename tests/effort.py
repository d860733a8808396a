"""How much a test does: all of it in ``make test``, a share in ``make test-core``."""

import os
from typing import Final

IS_CORE: Final = os.environ.get("ROLLCALL_TESTS") == "core"

CORE_SHARE: Final = 10


def examples(count: int) -> int:
    """Return how many of ``count`` examples to try: a tenth, but one at least, in the core run."""
    return max(count // CORE_SHARE, 1) if IS_CORE else count
