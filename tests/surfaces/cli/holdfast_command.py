"""The program, and the type of its call in this process."""

import sys
from collections.abc import Callable
from pathlib import Path

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
Run = Callable[..., tuple[int, str, str]]
