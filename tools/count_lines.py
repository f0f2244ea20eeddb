"""Count the lines of the sources, and the lines of each operation outside its service.

python tools/count_lines.py              # lines by part, and the median per operation
python tools/count_lines.py --operations # each operation

The lines of an operation are its function, its request and answer types, and everything in the modules of its feature's
operations and renderers that these use. A definition that several operations use counts for each in equal parts.
Generated files do not count.
"""

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

from holdfast.kernel.registry.operation import Operation
from holdfast.operations import REGISTRY

SOURCES = Path(__file__).resolve().parents[1] / "src/holdfast"
GENERATED = ("operation_index.py", "types.py", "*.pyi")
Definition = tuple[str, str]
"""A module, and a name in it."""


def list_sources() -> list[Path]:
    files = (file for suffix in ("py", "pyi") for file in SOURCES.rglob(f"*.{suffix}"))
    return sorted(file for file in files if not any(file.match(pattern) for pattern in GENERATED))


def count_parts() -> Counter[str]:
    """Count lines by feature, kernel part or surface."""
    counts: Counter[str] = Counter()
    for file in list_sources():
        place = file.relative_to(SOURCES).parts
        counts["/".join(place[:2]) if len(place) > 2 else place[0]] += len(file.read_text("utf-8").splitlines())
    return counts


@cache
def read_definitions(module: str) -> dict[str, ast.stmt]:
    """Return the definitions of a module at its top level, by name."""
    path = SOURCES.joinpath(*module.split(".")[1:]).with_suffix(".py")
    found: dict[str, ast.stmt] = {}
    for one in ast.parse(path.read_text("utf-8")).body:
        match one:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = one
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = one
    return found


@cache
def read_imports(module: str) -> dict[str, Definition]:
    """Return the names that a module imports from operations or renderers, with their definitions."""
    path = SOURCES.joinpath(*module.split(".")[1:]).with_suffix(".py")
    found: dict[str, Definition] = {}
    for one in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(one, ast.ImportFrom) and one.module and is_outside_service(one.module):
            found |= {name.asname or name.name: (one.module, name.name) for name in one.names}
    return found


def is_outside_service(module: str) -> bool:
    return ".operations" in module or module.endswith((".render", ".views"))


def collect_definitions(start: Definition) -> set[Definition]:
    """Return a definition and all that it uses, directly or not."""
    found: set[Definition] = set()
    waiting = [start]
    while waiting:
        module, name = waiting.pop()
        if (module, name) in found or name not in read_definitions(module):
            continue
        found.add((module, name))
        used = list_names(read_definitions(module)[name])
        waiting += [read_imports(module).get(one, (module, one)) for one in used]
    return found


def list_names(definition: ast.stmt) -> Iterator[str]:
    for node in ast.walk(definition):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def count_definition(module: str, name: str) -> int:
    node = read_definitions(module)[name]
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    assert node.end_lineno is not None
    return node.end_lineno - first + 1


def definitions_of(op: Operation) -> set[Definition]:
    found = collect_definitions((op.run.__module__, op.run.__name__))
    if op.human:
        module, _, name = op.human.partition(":")
        found |= collect_definitions((module, name))
    return found


def count_operations() -> dict[str, float]:
    """Count the lines of each operation outside its service."""
    used = {op.name: definitions_of(op) for op in REGISTRY}
    users: defaultdict[Definition, int] = defaultdict(int)
    for definitions in used.values():
        for one in definitions:
            users[one] += 1
    return {name: sum(count_definition(*one) / users[one] for one in some) for name, some in used.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", action="store_true", help="print the lines of each operation")
    options = parser.parse_args()
    operations = count_operations()
    rows = sorted(operations.items(), key=lambda one: -one[1]) if options.operations else count_parts().most_common()
    for name, lines in rows:
        print(f"{round(lines):7} {name}")
    print(f"\nsrc: {sum(count_parts().values()):,} lines in {len(list_sources())} modules, without generated ones")
    print(f"Lines of an operation outside its service: median {median(operations.values()):.0f}")


if __name__ == "__main__":
    main()
