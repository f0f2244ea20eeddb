"""`holdfast` and `python -m holdfast`."""

import gc
import sys


def main() -> None:
    """Run a command and exit with its code."""
    # Looking for garbage in what is being loaded, and at exit, takes a tenth of a short run.
    gc.disable()
    from .surfaces.cli import run

    gc.freeze()
    gc.enable()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
