"""The demo for continuous integration: one group of each application, and half of the time.

``python -m tests.bench.short_demo FILE`` writes the page to FILE.
"""

import sys

from bench import demo
from tests.bench.rehearsals.shortened import fewer, shortened

if __name__ == "__main__":
    whole = demo.found
    demo.found = lambda name: shortened(fewer(whole(name), 100), 2)
    sys.exit(demo.main(["--report", *sys.argv[1:]]))
