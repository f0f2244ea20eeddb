"""Write src/holdfast/operation_index.py, which finds an operation without importing the others.

python tools/make_operation_index.py            # write it
python tools/make_operation_index.py --check    # fail if it is not up to date
"""

import sys
from pathlib import Path

from holdfast.kernel.registry.encoding import wire_type
from holdfast.operations import MODULES, REGISTRY, import_all

FILE = Path(__file__).resolve().parents[1] / "src/holdfast/operation_index.py"
HEAD = '''"""Every operation, and the module that declares it. Written by tools/make_operation_index.py: `make docs`."""

from holdfast.kernel.registry.operation import SURFACES, Entry

# fmt: off
ENTRIES = (
'''


def make_index() -> str:
    """Return the text of the index, ordered by module and declaration."""
    lines = []
    for op in import_all(REGISTRY, MODULES):
        surfaces = "SURFACES" if len(op.surfaces) == 4 else repr(tuple(sorted(op.surfaces)))
        module = op.run.__module__
        parts = [*map(quote, (op.name, module, op.cli, op.summary)), surfaces]
        parts += [quote(op.aliases)] if op.aliases else []
        parts += [] if wire_type(op.answer) is not op.answer else ["has_records=False"]
        lines.append(f"    Entry({', '.join(parts)}),\n")
    return HEAD + "".join(lines) + ")\n"


def quote(value: str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(quote, value))}{',' * (len(value) == 1)})"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    text = make_index()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text, "utf-8")
        return 0
    if not FILE.is_file() or FILE.read_text("utf-8") != text:
        print(f"{FILE.name} is stale: run `make docs` and commit the result.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
