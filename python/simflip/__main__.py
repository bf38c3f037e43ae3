"""The command line: ``simflip``, or ``python -m simflip``."""

import sys

from simflip._simflip import main as _main


def main() -> int:
    """Runs the command line with the arguments of the process. Gives the exit code: 0, 1 or 2."""
    return _main(["simflip", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
