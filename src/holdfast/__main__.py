"""`holdfast` and `python -m holdfast`."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run a command and exit with its code."""
    signal.signal(signal.SIGTERM, _told_to_end)
    # Looking for garbage in what is being loaded, and at exit, takes a tenth of a short run.
    gc.disable()
    # What numpy multiplies here is small: starting its threads would take longer than the whole of it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from holdfast.surfaces.cli.app import run

    gc.freeze()
    gc.enable()
    sys.exit(run(sys.argv[1:]))


def _told_to_end(number: int, _: object) -> None:
    """End as by an error, so that what was begun is undone and what was started for it does not outlive it."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
