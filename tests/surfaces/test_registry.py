"""The declaration of an operation: its fields, their parsing from words, and refusals."""

from importlib import import_module
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from holdfast.kernel.context import Caller, Context, Progress
from holdfast.kernel.errors import FilterRequired, Forbidden, Invalid
from holdfast.kernel.records.link import RELATIONS
from holdfast.kernel.registry.operation import Registry, Request
from holdfast.kernel.registry.words import parse_words
from holdfast.operations import REGISTRY, Effect, Operation


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    size: int


class Everything(Request, frozen=True):
    text: str = ""
    count: Annotated[int, Meta(ge=1, le=50)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    flag: bool = False
    word: Literal["short", "long"] | None = None
    words: list[str] = []
    numbers: list[int] = []
    map: dict[str, Any] = {}
    part: Part | None = None
    parts: list[Part] = []


class Answer(Struct, frozen=True):
    request: Everything


@pytest.fixture
def op() -> Operation:
    registry = Registry()

    @registry.operation(Effect.READ, "POST /api/v1/everything")
    def everything(ctx: Context, request: Everything) -> Answer:
        """Take everything.

        And say so.
        """
        return Answer(request)

    return registry["everything"]


def refusal_of(op: Operation, arguments: dict[str, Any]) -> Invalid:
    with pytest.raises(Invalid) as error:
        op.parse_request(arguments)
    return error.value


WORDS: dict[str, tuple[dict[str, list[str]], dict[str, Any]]] = {
    "text": ({"text": ["5"]}, {"text": "5"}),
    "text-true": ({"text": ["true"]}, {"text": "true"}),
    "text-json": ({"text": ['{"a": 1}']}, {"text": '{"a": 1}'}),
    "text-empty": ({"text": [""]}, {"text": ""}),
    "int": ({"count": ["5"]}, {"count": 5}),
    "int-sign": ({"count": ["-5"]}, {"count": -5}),
    "float": ({"share": ["0.5"]}, {"share": 0.5}),
    "float-whole": ({"share": ["1"]}, {"share": 1.0}),
    "bool": ({"flag": ["Yes"]}, {"flag": True}),
    "bool-off": ({"flag": ["off"]}, {"flag": False}),
    "word": ({"word": ["long"]}, {"word": "long"}),
    "words-commas": ({"words": ["a, b,c"]}, {"words": ["a", "b", "c"]}),
    "words-repeated": ({"words": ["a", "b"]}, {"words": ["a", "b"]}),
    "numbers": ({"numbers": ["[1, 2]"]}, {"numbers": [1, 2]}),
    "numbers-one": ({"numbers": ["1"]}, {"numbers": [1]}),
    "numbers-repeated": ({"numbers": ["1", "2"]}, {"numbers": [1, 2]}),
    "map-pairs": ({"map": ["a=1", "b=x=y"]}, {"map": {"a": "1", "b": "x=y"}}),
    "map-json": ({"map": ['{"a": [1, null]}']}, {"map": {"a": [1, None]}}),
    "part": ({"part": ['{"size": 3}']}, {"part": {"size": 3}}),
    "parts": ({"parts": ['[{"size": 3}]']}, {"parts": [{"size": 3}]}),
}


@pytest.mark.parametrize(("words", "arguments"), WORDS.values(), ids=WORDS.keys())
def test_words_are_typed_field_by_field(op: Operation, words: dict[str, list[str]], arguments: dict[str, Any]) -> None:
    typed = parse_words(op, words)
    assert typed == arguments
    assert [type(value) for value in typed.values()] == [type(value) for value in arguments.values()]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("count", ["five"]),
        ("count", ["5.0"]),
        ("count", ["1e3"]),
        ("count", [""]),
        ("count", ["٥"]),
        ("count", ["9" * 31]),
        ("count", ["1", "2"]),
        ("text", ["a", "b"]),
        ("word", ["short", "long"]),
        ("share", ["nan"]),
        ("share", ["inf"]),
        ("share", ["1e999"]),
        ("share", ["half"]),
        ("flag", ["maybe"]),
        ("flag", ["true", "true"]),
        ("numbers", ["one"]),
        ("map", ["novalue"]),
        ("map", ["{broken"]),
        ("part", ["{"]),
        ("part", ["\ud800"]),
        ("part", ["[" * 100_000]),
        ("nonsense", ["1"]),
    ],
    ids=lambda given: str(given)[:24],
)
def test_words_of_a_wrong_type_are_refused_by_field_name(op: Operation, field: str, words: list[str]) -> None:
    with pytest.raises(Invalid) as error:
        parse_words(op, {field: words})
    assert error.value.details == {"fields": [field]}
    assert error.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("nonsense", {"nonsense": 1}),
        ("count", {"count": "5"}),
        ("count", {"count": 5.5}),
        ("count", {"count": 0}),
        ("count", {"count": 51}),
        ("count", {"count": 51.0}),
        ("count", {"count": 1e308}),
        ("count", {"count": True}),
        ("share", {"share": float("nan")}),
        ("share", {"share": 1.1}),
        ("flag", {"flag": 1}),
        ("flag", {"flag": "true"}),
        ("text", {"text": 5}),
        ("text", {"text": None}),
        ("word", {"word": "LONG"}),
        ("words", {"words": "a"}),
        ("words[1]", {"words": ["a", 5]}),
        ("map", {"map": []}),
        ("map", {"map": {5: 1}}),
        ("part.size", {"part": {"size": "3"}}),
        ("part", {"part": {}}),
        ("part.nonsense", {"part": {"size": 3, "nonsense": 1}}),
        ("parts[1].size", {"parts": [{"size": 1}, {"size": 1.5}]}),
    ],
    ids=str,
)
def test_an_unknown_mistyped_or_excessive_field_is_refused_and_named(
    op: Operation, field: str, arguments: dict[str, Any]
) -> None:
    error = refusal_of(op, arguments)
    assert error.details == {"fields": [field]}
    assert error.message.startswith(f"{field}: ")


def test_an_integral_float_is_an_integer_everywhere(op: Operation) -> None:
    arguments = {
        "count": 5.0,
        "part": {"size": 3.0},
        "parts": [{"size": float(n)} for n in range(100)],
        "numbers": [1.0, 2, 3.0],
        "map": {"kept": 5.0},
    }
    request = op.parse_request(arguments)
    assert request == Everything(
        count=5, part=Part(3), parts=[Part(n) for n in range(100)], numbers=[1, 2, 3], map={"kept": 5.0}
    )
    assert isinstance(request.map["kept"], float)  # type: ignore[attr-defined]
    assert isinstance(arguments["part"]["size"], float)  # type: ignore[index]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"map": deep(100_000)},
        {"text": "\ud800"},
        {"map": {"\ud800": 1}},
        {"map": {"a": 10**5000}},
        {"map": {"a": {1, 2}.pop}},
    ],
    ids=["depth", "surrogate", "surrogate-key", "digits", "object"],
)
def test_a_value_that_is_not_json_is_refused(op: Operation, arguments: dict[str, Any]) -> None:
    refusal_of(op, arguments)


def test_every_missing_field_is_named() -> None:
    error = refusal_of(REGISTRY["store"], {})
    assert error.details == {"fields": ["title", "content"]}


@pytest.mark.parametrize("nothing", [{}, {"namespace": None, "pattern": "", "tier": None}, {"dry_run": True}], ids=str)
def test_one_of_several_fields_can_be_required(nothing: dict[str, Any]) -> None:
    with pytest.raises(FilterRequired) as error:
        REGISTRY["forget"].parse_request(nothing)
    assert error.value.details == {"fields": ["namespace", "pattern", "tier"]}


def test_unknown_fields_of_a_citation_or_a_span_are_refused_too() -> None:
    cited = {"uri": "doc:a", "accessed_at": "2026-01-31"}
    store = {"title": "x", "content": "y"}
    for field, more in {
        "citations[0].page": {"citations": [cited | {"page": 5}]},
        "citations[0].span.unit": {"citations": [cited | {"span": {"start": 0, "end": 1, "unit": "b"}}]},
        "source_span.unit": {"source_span": {"start": 0, "end": 1, "unit": "b"}},
    }.items():
        assert refusal_of(REGISTRY["store"], store | more).details == {"fields": [field]}


def test_a_declaration_is_derived_from_the_function(op: Operation) -> None:
    assert (op.name, op.method, op.path, op.cli) == ("everything", "POST", "/api/v1/everything", ("everything",))
    assert (op.summary, op.description) == ("Take everything.", "Take everything.\n\nAnd say so.")
    assert (REGISTRY["recall"].family, REGISTRY.entries["import_kernex"].family) == ("recall", "kernex")
    assert (op.request, op.answer, op.reports, op.right) == (Everything, Answer, False, "read")


def test_an_operation_with_a_third_parameter_reports_progress() -> None:
    assert {op.name for op in REGISTRY if op.reports} >= {"gc", "verify", "export", "import"}


def test_an_operation_name_is_declared_once() -> None:
    registry = Registry()

    def twice(ctx: Context, request: Everything) -> Answer:
        return Answer(request)

    registry.operation(Effect.READ, "GET /a")(twice)
    with pytest.raises(ValueError, match="twice is declared twice"):
        registry.operation(Effect.READ, "GET /b")(twice)


def test_the_right_required_of_a_key_follows_from_the_effect() -> None:
    rights = {op.name: "admin" if op.admin else "read" if op.effect is Effect.READ else "write" for op in REGISTRY}
    assert {op.name: op.right for op in REGISTRY} == rights


def test_every_operation_has_a_one_sentence_description() -> None:
    assert [op.summary for op in REGISTRY if not op.summary.endswith(".") or len(op.summary) > 100] == []


def test_every_renderer_named_by_an_operation_exists() -> None:
    def is_missing(renderer: str) -> bool:
        module, function = renderer.split(":")
        return not hasattr(import_module(module), function)

    assert [op.name for op in REGISTRY if op.human and is_missing(op.human)] == []


def test_no_two_operations_share_a_route_or_a_command() -> None:
    operations = list(REGISTRY)
    assert len({(op.method, op.path) for op in operations}) == len(operations)
    words = [name for op in operations for name in (" ".join(op.cli), *op.aliases)]
    assert sorted(words) == sorted(set(words))


def test_every_path_parameter_is_a_required_field() -> None:
    assert [
        (op.path, part)
        for op in REGISTRY
        for part in op.path.split("/")
        if part.startswith("{") and part[1:-1] not in {field.encode_name for field in op.fields if field.required}
    ] == []


def test_a_call_checks_the_right_before_anything_else(hold: Any) -> None:
    with pytest.raises(Forbidden):
        REGISTRY["store"].call(hold.ctx, Caller("ai:a", right="read"), {"nonsense": 1})


def test_a_cancelled_call_has_written_nothing(hold: Any) -> None:
    from threading import Event

    from holdfast.kernel.errors import OperationCancelled

    stop = Event()
    stop.set()
    with pytest.raises(OperationCancelled):
        hold.call("store", {"title": "x", "content": "y"}, progress=Progress(stop=stop))
    assert hold.list().count == 0
    assert hold.store(title="x", content="y").outcome == "created"


def test_relations_are_one_list_everywhere(hold: Any) -> None:
    with pytest.raises(Invalid) as error:
        REGISTRY["link"].parse_request({"source_id": "a", "target_id": "b", "relation": "likes"})
    assert error.value.details == {"fields": ["relation"]}
    for relation in RELATIONS:
        REGISTRY["link"].parse_request({"source_id": "a", "target_id": "b", "relation": relation})
