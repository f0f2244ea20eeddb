"""Fail if the modules of Holdfast break a rule of their layout. See "Anatomy of a feature" in docs/architecture.md.

- A store (`store.py`, `*_store.py`) is private: no other feature imports it.
- In a feature, imports point down: operations > services > stores > models. Only operations import operations; a store
  imports stores and pure modules; a model imports pure modules. Pure is what takes no context, transaction or session.
- A module has at most 500 lines, a folder at most 20 modules.
- A module with one function that only one other module imports belongs in that module.

python tools/check_layout.py
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from check_imports import PACKAGE, SOURCES, find_imports, read_modules

MAX_LINES = 500
MAX_MODULES = 20
FEATURES = f"{PACKAGE}.features."
EFFECTS = {"Context", "Transaction", "Session", "Store"}
"""A module that imports one of these reads or writes."""


def is_operations(name: str) -> bool:
    return "operations" in name.split(".")[3:]


def is_pure(tree: ast.Module) -> bool:
    return not EFFECTS & {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def is_store(name: str) -> bool:
    return name.rpartition(".")[2] == "store" or name.endswith("_store")


def feature_of(name: str) -> str | None:
    return name.removeprefix(FEATURES).split(".")[0] if name.startswith(FEATURES) else None


def find_wrong_imports(modules: dict[str, ast.Module]) -> Iterator[str]:
    """Yield imports of another feature's store, and imports that point up within a feature."""
    for one in dict.fromkeys(find_imports(modules)):
        feature, other = feature_of(one.importer), feature_of(one.imported)
        if feature is None or other is None:
            continue
        if feature != other:
            if is_store(one.imported):
                yield f"{one.importer} imports {one.imported}, the store of another feature: use a service or a model."
        elif is_operations(one.imported) and not is_operations(one.importer) and not one.importer.endswith(".render"):
            yield f"{one.importer} imports {one.imported}: only operations import operations."
        elif is_store(one.importer) and not (is_store(one.imported) or is_pure(modules[one.imported])):
            yield f"{one.importer} imports {one.imported}: a store imports only stores and pure modules."
        elif one.importer.endswith(".model") and not is_pure(modules[one.imported]):
            yield f"{one.importer} imports {one.imported}: a model imports only pure modules."


def find_large() -> Iterator[str]:
    """Yield modules with too many lines, and folders with too many modules."""
    folders = Counter[Path]()
    for file in sorted((SOURCES / PACKAGE).rglob("*.py")):
        lines = len(file.read_text("utf-8").splitlines())
        folders[file.parent] += file.name != "__init__.py"
        if lines > MAX_LINES and file.name != "operation_index.py":
            yield f"{file.relative_to(SOURCES)} has {lines} lines; at most {MAX_LINES} are allowed."
    for folder, count in folders.items():
        if count > MAX_MODULES:
            yield f"{folder.relative_to(SOURCES)} has {count} modules; at most {MAX_MODULES} are allowed."


def find_small(modules: dict[str, ast.Module]) -> Iterator[str]:
    """Yield modules that define one function alone and that only one other module imports."""
    users: dict[str, set[str]] = {}
    for one in find_imports(modules):
        users.setdefault(one.imported, set()).add(one.importer)
    for name, tree in modules.items():
        defined = [
            node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        public = [node for node in defined if not node.name.startswith("_")]
        is_small = [type(node) for node in public] == [ast.FunctionDef] and len(defined) == 1
        if is_small and len(users.get(name, ())) == 1 and not public[0].decorator_list:
            yield f"{name} has one function and one user, {min(users[name])}: move it there."


def main() -> int:
    modules = read_modules()
    errors = [*find_wrong_imports(modules), *find_large(), *find_small(modules)]
    for error in errors:
        print(error, file=sys.stderr)
    print(
        f"{len(modules)} modules, {len(errors)} of which break a rule of their layout."
        if errors
        else f"{len(modules)} modules follow the layout."
    )
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
