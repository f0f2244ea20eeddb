"""Find the benchmarks, which are in the source tree, not in the installed package."""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import holdfast
from holdfast.kernel.errors import NotFound

CHECKOUT = Path(holdfast.__file__).parents[2]
"""The checkout if Holdfast runs from source; the benchmarks are beside src/."""
MODULE = "measure_machine"


def load_measure_machine() -> Callable[..., Any]:
    """Import the benchmarks from the checkout that runs, else from sys.path. Raises NotFound with how to get them."""
    if (CHECKOUT / "benchmarks" / f"{MODULE}.py").is_file():
        sys.path.insert(0, str(CHECKOUT))
    elif not _is_importable():
        raise NotFound(
            "`holdfast bench` requires the benchmarks, which the installed package does not contain: "
            "clone the Holdfast repository and run `make bench` there. "
            "`holdfast bench quality` and `holdfast bench firing` work without them."
        )
    measure: Callable[..., Any] = import_module(f"benchmarks.{MODULE}").measure_machine
    return measure


def _is_importable() -> bool:
    """Check without importing: another project may have a package of this name."""
    spec = find_spec("benchmarks")
    folders = spec.submodule_search_locations if spec else None
    return any((Path(folder) / f"{MODULE}.py").is_file() for folder in folders or ())
