"""Threads that use an operation for the first time concurrently all get an answer."""

import subprocess
import sys

import pytest

CROWD = """
import sys, threading
from holdfast.operations import REGISTRY
from holdfast.kernel.errors import HoldfastError

sys.setswitchinterval(1e-6)
for op in REGISTRY:
    ready = threading.Barrier(8)

    def use():
        ready.wait()
        try:
            op.admit({field.encode_name: None for field in op.fields if field.required})
        except HoldfastError:
            pass

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all answered")
"""


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.full)])
def test_concurrent_first_uses_of_every_operation_all_succeed(times: int) -> None:
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "all answered\n"), done.stderr
