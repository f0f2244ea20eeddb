"""Fail if modules of Holdfast import each other in a cycle, at the top, inside functions or for types alone.

Fails too if an import inside a function gives no reason, or if there are more than MAX_LATE_IMPORTS of them.

python tools/check_imports.py           # check
python tools/check_imports.py --late    # list the imports inside functions
"""

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "holdfast"
MAX_LATE_IMPORTS = 40
"""Import statements inside functions: only to start fast without a heavy package, each with a comment that says why."""


class Import(NamedTuple):
    """One module imports another."""

    importer: str
    imported: str


class LateImport(NamedTuple):
    """An import statement inside a function, of any module."""

    place: str
    statement: str
    reason: str


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules() -> dict[str, ast.Module]:
    return {module_name(file): ast.parse(file.read_text("utf-8")) for file in sorted((SOURCES / PACKAGE).rglob("*.py"))}


def find_late_imports() -> Iterator[LateImport]:
    """Every import statement inside a function, with its reason: the comment on its lines."""
    for file in sorted((SOURCES / PACKAGE).rglob("*.py")):
        text = file.read_text("utf-8")
        late = [node for node, is_late in walk(ast.parse(text), is_inside=False) if is_late]
        comments = read_comments(text) if late else {}
        for node in late:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            reason = " ".join(comments[line] for line in lines if line in comments)
            yield LateImport(f"{file.relative_to(SOURCES.parent)}:{node.lineno}", ast.unparse(node), reason)


def read_comments(text: str) -> dict[int, str]:
    """The comments by line, except those that only silence a tool."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    return {line: said for line, said in comments.items() if said and not said.startswith(("noqa", "type:"))}


def find_imports(modules: dict[str, ast.Module]) -> Iterator[Import]:
    """Yield every import of one of our modules by another."""
    for name, tree in modules.items():
        for node, _ in walk(tree, is_inside=False):
            yield from (Import(name, imported) for imported in names_of(node, modules) if imported != name)


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
    parser.add_argument("--late", action="store_true", help="list the imports inside functions")
    asked = parser.parse_args()
    modules = read_modules()
    circles = find_circles(list(find_imports(modules)))
    late = list(find_late_imports())
    if asked.late:
        for one in late:
            print(f"{one.place}: {one.statement}  # {one.reason}")
    errors = [f"These modules import each other in a circle: {', '.join(circle)}" for circle in circles]
    errors += [
        f"{one.place}: import at the top of the module, or say in a comment on the same line why not."
        for one in late
        if not one.reason
    ]
    if len(late) > MAX_LATE_IMPORTS:
        errors.append(f"{len(late)} imports inside functions; at most {MAX_LATE_IMPORTS} are allowed (list: --late).")
    for error in errors:
        print(error, file=sys.stderr)
    print(f"{len(modules)} modules, {len(circles)} import circles, {len(late)} imports inside functions.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
