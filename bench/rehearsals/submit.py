"""``rollcall rehearse`` as a program for ``spark-submit``: the members are on Spark's cluster.

``spark-submit --master spark://HOST:7077 .../bench/rehearsals/submit.py SCENARIO --spark N
--bootstrap HOST:PORT``: the options and exit codes are those of ``rollcall rehearse``.
"""

from __future__ import annotations

import sys

from bench.rehearse import main

if __name__ == "__main__":
    sys.exit(main())
