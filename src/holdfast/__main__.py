"""`holdfast` and `python -m holdfast`."""

import gc
import os
import sys


def main() -> None:
    """Run a command and exit with its code."""
    # Looking for garbage in what is being loaded, and at exit, takes a tenth of a short run.
    gc.disable()
    # What numpy multiplies here is small: starting its threads would take longer than the whole of it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from .surfaces.cli import run

    gc.freeze()
    gc.enable()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
