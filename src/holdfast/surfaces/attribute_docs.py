"""Docstrings of the fields of structs, read from the sources: Python keeps none for a field."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


@cache
def attribute_docs(type_: type) -> dict[str, str]:
    """Return the docstring of each field of a class under its name outside, including inherited and computed fields."""
    texts: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        if base.__module__.startswith("holdfast."):
            parsed = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(parsed, ast.ClassDef)
            texts |= _texts_below(parsed.body)
    return texts


def _texts_below(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for field, below in pairwise([*body, ast.Pass()]):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=type_), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                found[_outer_name(name, type_)] = inspect.cleandoc(text)
            case ast.FunctionDef(name=name, returns=ast.expr() as type_), _ if doc := ast.get_docstring(field):
                found[_outer_name(name, type_)] = doc
    return found


def _outer_name(name: str, annotation: ast.expr) -> str:
    """Return the name that `Named` gives a field, or its own."""
    calls = [part for part in ast.walk(annotation) if isinstance(part, ast.Call)]
    names = [str(ast.literal_eval(call.args[0])) for call in calls if ast.unparse(call.func) == "Named"]
    return names[0] if names else name
