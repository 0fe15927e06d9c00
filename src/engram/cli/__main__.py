"""``python -m engram.cli``, for where the ``engram`` script is not on the path."""

import sys

from engram.cli import main

sys.exit(main())
