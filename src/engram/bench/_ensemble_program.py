"""One of the two workers of ``engram bench ensemble``: trains the runs that it is told to, one after the other.

Requests come as lines of JSON on standard input; each is answered by a line when it is done.
"""

import json
import sys
from collections.abc import Callable

from engram.bench.ensemble import steps_of_each
from engram.train import without_denormals


def main() -> None:
    call: Callable[[], None] | None = None
    with without_denormals(1):
        for line in sys.stdin:
            what, model, seeds = json.loads(line)
            if what == "prepare":
                call = steps_of_each(model, seeds)
            if call is not None:
                call()
            print("done", flush=True)


if __name__ == "__main__":
    main()
