"""Fail if Holdfast's modules import each other in a cycle: at the top, inside functions or for types only.

python tools/check_imports.py            # cycles, and the number of imports inside functions
python tools/check_imports.py --inside   # list the imports inside functions
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "holdfast"


class Import(NamedTuple):
    """One module imports another."""

    importer: str
    imported: str
    line: int
    is_inside: bool
    """Within a function."""


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules() -> dict[str, ast.Module]:
    return {module_name(file): ast.parse(file.read_text("utf-8")) for file in sorted((SOURCES / PACKAGE).rglob("*.py"))}


def find_imports(modules: dict[str, ast.Module]) -> Iterator[Import]:
    """Yield every import of one of our modules by another."""
    for name, tree in modules.items():
        for node, is_inside in walk(tree, is_inside=False):
            for imported in names_of(node, modules):
                if imported != name:
                    yield Import(name, imported, node.lineno, is_inside)


def walk(node: ast.AST, *, is_inside: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, is_inside
        yield from walk(child, is_inside=is_inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def names_of(node: ast.Import | ast.ImportFrom, modules: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the modules that an import statement loads."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif node.level:
        raise SystemExit(f"line {node.lineno}: write the whole name of the module, not a relative one")
    elif node.module in modules:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in modules else node.module


def find_circles(imports: list[Import]) -> list[list[str]]:
    """Return the import cycles (Tarjan's strongly connected components)."""
    targets: dict[str, set[str]] = {}
    for one in imports:
        targets.setdefault(one.importer, set()).add(one.imported)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(targets.get(name, ())):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            place = stack.index(name)
            group = stack[place:]
            del stack[place:]
            if len(group) > 1:
                circles.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in sorted(targets):
        if name not in index:
            visit(name)
    return circles


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", action="store_true", help="list the imports inside functions")
    asked = parser.parse_args()
    modules = read_modules()
    imports = list(find_imports(modules))
    inside = [one for one in imports if one.is_inside]
    if asked.inside:
        for one in inside:
            print(f"{one.importer}:{one.line}: {one.imported}")
    circles = find_circles(imports)
    for circle in circles:
        print(f"These modules import each other in a circle: {', '.join(circle)}", file=sys.stderr)
    print(f"{len(modules)} modules, {len(circles)} import circles, {len(inside)} imports inside functions.")
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
