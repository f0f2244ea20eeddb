"""`holdfast` and `python -m holdfast`."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run a command and exit with its code."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # Garbage collection during imports and at exit takes a tenth of a short run.
    gc.disable()
    # Our numpy products are small: starting its threads would take longer.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from holdfast.surfaces.cli.app import run  # after gc.disable()

    gc.freeze()
    gc.enable()
    sys.exit(run(sys.argv[1:]))


def _exit_on_signal(number: int, _: object) -> None:
    """Exit through an exception, so that transactions are rolled back and child processes end."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
