"""``python -m proofs_check``: the same as ``kvtheory check``."""

import sys

from kvtheory.cli import main

if __name__ == "__main__":
    sys.exit(main(["check", *sys.argv[1:]]))
