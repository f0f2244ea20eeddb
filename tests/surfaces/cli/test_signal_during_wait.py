"""A signal ends a wait at any moment."""

import subprocess
import sys

from timeouts import TIMEOUT

HELD = """
import os, signal, threading
from holdfast.surfaces.cli.stop_signal import on_stop_signal

stop = threading.Event()
on_stop_signal(stop.set)
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
stop.wait()
"""


def test_a_signal_during_the_lock_of_a_wait_is_handled() -> None:
    assert subprocess.run([sys.executable, "-c", HELD], timeout=TIMEOUT).returncode == 0
