"""Methods of the library: signature, documentation and names, at run time and in the stub."""

import ast
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import holdfast
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.operation import python_name
from holdfast.operations import REGISTRY

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import make_stubs

STUB = Path(holdfast.__file__).with_name("methods.pyi")


def read_stub(name: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the methods that the stub declares in a class."""
    (class_,) = [
        node for node in ast.parse(STUB.read_text("utf-8")).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    for node in class_.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def normalize(source: str) -> str:
    """Return a declaration without its body, written as `ast` writes it."""
    node = ast.parse(f"def {source}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or ast.Constant(None))}"


@pytest.mark.parametrize(
    ("class_", "stub", "is_async"),
    [(holdfast.Holdfast, "Operations", False), (holdfast.AsyncHoldfast, "AsyncOperations", True)],
)
def test_the_stub_declares_every_method_as_it_is(class_: Any, stub: str, is_async: bool) -> None:
    declared = dict(read_stub(stub))
    assert set(declared) == {python_name(name) for name in REGISTRY.entries}
    for name, node in declared.items():
        method = getattr(class_, name)
        arguments = f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or ast.Constant(None))}"
        assert normalize(make_stubs.render_method(method)) == arguments
        assert inspect.getdoc(method) == ast.get_docstring(node)
        assert inspect.iscoroutinefunction(method) == isinstance(node, ast.AsyncFunctionDef) == is_async


def test_the_committed_types_are_those_of_the_operations() -> None:
    check = [sys.executable, make_stubs.__file__, "--check"]
    assert subprocess.run(check, capture_output=True, text=True).stderr == ""


def test_a_method_has_its_parameters_types_defaults_and_documentation(hold: holdfast.Holdfast) -> None:
    signature = inspect.signature(hold.recall)
    assert list(signature.parameters)[:3] == ["context", "namespace", "limit"]
    assert signature.parameters["limit"].default == 10
    assert signature.parameters["since"].annotation == datetime | str | None
    assert str(signature.return_annotation) == "<class 'holdfast.types.RecallResult'>"
    assert get_type_hints(hold.recall)["limit"] is int
    assert hold.recall.__doc__ is not None
    assert hold.recall.__doc__.startswith(
        "Search memories by meaning and keywords.\n\nArgs:\n    context: What to look"
    )
    assert "    limit: Maximum number of hits (1 to 50).\n" in hold.recall.__doc__
    assert (hold.recall.__name__, hold.import_.__name__) == ("recall", "import_")


def test_help_on_the_class_shows_every_method() -> None:
    for class_ in (holdfast.Holdfast, holdfast.AsyncHoldfast):
        text = pydoc.render_doc(class_, renderer=pydoc.plaintext)
        assert [name for name in REGISTRY.entries if f" {python_name(name)}(self, /" not in text] == []


def test_positional_arguments_are_those_of_the_command_line_then_what_is_required() -> None:
    def positional(name: str) -> list[str]:
        parameters = inspect.signature(getattr(holdfast.Holdfast, name)).parameters.values()
        return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]

    assert (positional("store"), positional("search")) == (["title", "content"], ["query"])
    assert positional("outcome_record") == ["what"]
    for op in REGISTRY:
        on_the_command_line = [
            python_name(field.encode_name) for field in op.fields if op.field_option(field.encode_name, "argument")
        ]
        assert positional(python_name(op.name))[: len(on_the_command_line)] == on_the_command_line


def test_a_mistyped_operation_is_an_attribute_error_with_the_near_name(hold: Any) -> None:
    with pytest.raises(AttributeError, match=r"There is no operation 'recal'\. Did you mean 'recall'"):
        hold.recal("deploy")
    assert not hasattr(holdfast.Holdfast, "nonsense")
    assert not hasattr(hold, "_nonsense")


@pytest.mark.parametrize(
    "call", [lambda hold: hold.store(titel="x"), lambda hold: hold.call("get", {"id": "x", "idd": 1})]
)
def test_a_mistyped_parameter_is_refused_with_the_near_name(hold: Any, call: Any) -> None:
    with pytest.raises(Invalid, match="unknown field; did you mean") as refused:
        call(hold)
    assert refused.value.code == "VALIDATION_FAILED"
    assert refused.value.details["fields"][0] in ("titel", "idd")


def test_names_that_python_reserves_end_with_an_underscore(hold: Any) -> None:
    assert {"import_", "list"} <= set(dir(hold))
    assert "import" not in dir(holdfast.Holdfast)
    assert "from_" in inspect.signature(hold.migrate).parameters
    with pytest.raises(Invalid, match="from"):
        hold.migrate(from_="", to="")


def test_a_time_is_a_datetime_or_text(hold: holdfast.Holdfast) -> None:
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert hold.store("a", "x", valid_from=start).valid_from == start
    assert hold.store("b", "x", valid_from="2026-01-01T10:00:00+01:00").valid_from == start
    nested = [{"title": "c", "content": "x", "valid_from": start}]
    assert hold.get(hold.bulk_store(nested).ids[0]).valid_from == start
    with pytest.raises(Invalid, match="valid_from: a datetime needs a time zone"):
        hold.store("d", "x", valid_from=datetime(2026, 1, 1, 9))


def test_tuples_and_results_are_arguments(hold: Any) -> None:
    assert hold.store("a", "x", tags=("one", "two")).tags == ("one", "two")
    with pytest.raises(Invalid, match="NUL"):
        hold.store("b", "x", tags=("one\x00",))
