"""``python -m engram``, where the command ``engram`` is not on the path."""

import sys

from engram.cli import main

if __name__ == "__main__":
    sys.exit(main())
