"""``python -m kvtheory``: the command line."""

import sys

from kvtheory.cli import main

if __name__ == "__main__":
    sys.exit(main())
