"""Write the types of the library from the operations: methods.pyi, types.pyi and types.py.

python tools/make_stubs.py            # write them
python tools/make_stubs.py --check    # fail if they are not up to date
"""

import builtins
import inspect
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

from holdfast.kernel.registry.encoding import Result, ResultList, library_type
from holdfast.kernel.registry.library import argument_type, build_method
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces.attribute_docs import attribute_docs

FOLDER = Path(__file__).resolve().parents[1] / "src/holdfast"
WRITTEN_BY = "Written by tools/make_stubs.py: `make docs`."
TYPES_HEAD = f'''"""Types of results and of dictionaries that methods take, for annotations.

    from holdfast.types import RecallResult

{WRITTEN_BY}
"""
'''
TYPES_MODULE = '''
from importlib import import_module
from typing import Any

from holdfast.features.transfer.operations import Envelope
from holdfast.kernel.registry.encoding import Result, ResultList, library_type
from holdfast.kernel.registry.library import argument_type


def __getattr__(name: str) -> Any:
    """Derive a type on first use."""
    if name in _RESULTS:
        found = library_type(getattr(import_module(_RESULTS[name]), name))
    elif name in _ARGUMENTS:
        found = argument_type(getattr(import_module(_ARGUMENTS[name]), name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return __all__


def _list_homes(names: dict[str, str]) -> dict[str, str]:
    """Return the module of each name."""
    return {name: module for module, listed in names.items() for name in listed.split()}


'''
TYPES_STUB = """
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NotRequired, Required, TypedDict

from holdfast.features.transfer.operations import Envelope as Envelope
from holdfast.kernel.registry.encoding import Result as Result
from holdfast.kernel.registry.encoding import ResultList as ResultList
"""
METHODS_STUB = f'''"""The methods of the library, one for each operation. {WRITTEN_BY}"""

import builtins
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from holdfast.types import *
'''


def make_files() -> dict[str, str]:
    """Return the text of each file."""
    operations = list(REGISTRY)
    results = collect_types(library_type(op.answer) for op in operations)
    arguments = collect_types(argument_type(field.type) for op in operations for field in op.fields)
    if both := results.keys() & arguments.keys():
        raise ValueError(f"One name for a result and for an argument: {both}")
    return {
        "types.py": TYPES_HEAD + TYPES_MODULE + format_code(make_index(results, arguments), "types.py"),
        "types.pyi": format_code(TYPES_HEAD + TYPES_STUB + make_types(results | arguments), "types.pyi"),
        "methods.pyi": format_code(METHODS_STUB + make_methods(operations), "methods.pyi"),
    }


def collect_types(annotations: Iterable[Any]) -> dict[str, Any]:
    """Return the classes that annotations and the fields of these classes name, by their names."""
    found: dict[str, Any] = {}

    def visit(annotation: Any) -> None:
        for argument in get_args(annotation):
            visit(argument)
        if isinstance(annotation, type) and hasattr(annotation, "_source") and annotation.__name__ not in found:
            found[annotation.__name__] = annotation
            for inner in (*annotation.__annotations__.values(), *annotation.__bases__):
                visit(inner)

    for annotation in annotations:
        visit(annotation)
    return dict(sorted(found.items()))


def make_index(results: dict[str, Any], arguments: dict[str, Any]) -> str:
    lines = []
    for title, found in (("_RESULTS", results), ("_ARGUMENTS", arguments)):
        modules: dict[str, list[str]] = {}
        for name, type_ in found.items():
            modules.setdefault(type_._source.__module__, []).append(name)
        names = {module: " ".join(listed) for module, listed in sorted(modules.items())}
        lines.append(f"{title} = _list_homes({names!r})")
    return "\n".join([*lines, '__all__ = ["Envelope", "Result", "ResultList", *_RESULTS, *_ARGUMENTS]'])


def make_types(found: dict[str, Any]) -> str:
    return "\n\n".join(make_class(type_) for _, type_ in sorted(found.items()))


def make_class(type_: Any) -> str:
    """Return the declaration of a class with the descriptions of its fields."""
    is_result = issubclass(type_, Result)
    lines = [f"class {type_.__name__}({make_bases(type_)}):"]
    if type_.__doc__:
        lines.append(quote(type_.__doc__))
    docs = attribute_docs(type_._source)
    for name, annotation in type_.__annotations__.items():
        default = " = None" if is_result and name in type_._optional else ""
        lines.append(f"    {name}: {render_type(annotation)}{default}")
        lines += [quote(docs[name])] if name in docs else []
    return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"])


def make_bases(type_: Any) -> str:
    if not issubclass(type_, Result):
        return "TypedDict"
    base = type_.__bases__[0]
    item = f"[{render_type(get_args(type_.__annotations__[type_._list_field])[0])}]" if base is ResultList else ""
    return f"{base.__name__}{item}, frozen=True, kw_only=True"


def make_methods(operations: Sequence[Operation]) -> str:
    classes = [("Operations", "Every operation as a method.", "def")]
    classes.append(("AsyncOperations", "Every operation as a method that is awaited.", "async def"))
    return "\n\n".join(
        "\n\n".join([f"class {name}:\n{quote(text)}", *(make_method(op, keyword) for op in operations)])
        for name, text, keyword in classes
    )


def make_method(operation: Operation, keyword: str) -> str:
    method = build_method(operation)
    return f"    {keyword} {render_method(method)}:\n{quote(str(method.__doc__), 8)}\n        ..."


def render_method(method: Callable[..., Any]) -> str:
    """Return the name, parameters and result of a method, as a stub declares them."""
    signature = inspect.signature(method)
    parts, is_named = ["self"], False
    for parameter in list(signature.parameters.values()):
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            parts, is_named = [*parts, "*"], True
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{parameter.name}: {render_type(parameter.annotation, REGISTRY)}{default}")
    return f"{method.__name__}({', '.join(parts)}) -> {render_type(signature.return_annotation, REGISTRY)}"


def render_type(annotation: Any, hidden: Container[str] = ()) -> str:
    """Return an annotation as source text. Builtins that a method hides are named by their module."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    inner = partial(render_type, hidden=hidden)
    match annotation:
        case None | types.NoneType:
            return "None"
        case str():
            return annotation
        case ForwardRef():
            return annotation.__forward_arg__
    if annotation is Ellipsis:
        return "..."
    if origin in (Union, types.UnionType):
        return " | ".join(map(inner, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    name = getattr(origin or annotation, "__name__", str(annotation))
    if name in hidden and hasattr(builtins, name):
        name = f"builtins.{name}"
    return f"{name}[{', '.join(map(inner, arguments))}]" if arguments else name


def quote(text: str, indent: int = 4) -> str:
    """Return a docstring."""
    body = textwrap.indent(inspect.cleandoc(text), " " * indent).lstrip()
    end = "\n" + " " * indent if "\n" in body else ""
    return f'{" " * indent}"""{body}{end}"""'


def format_code(text: str, name: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(FOLDER / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603


def main() -> int:
    files = make_files()
    if "--check" not in sys.argv[1:]:
        for name, text in files.items():
            (FOLDER / name).write_text(text, "utf-8")
        return 0
    stale = [name for name, text in files.items() if not (FOLDER / name).is_file() or read(name) != text]
    if stale:
        print(f"{', '.join(stale)}: stale. Run `make docs` and commit the result.", file=sys.stderr)
    return 1 if stale else 0


def read(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main())
