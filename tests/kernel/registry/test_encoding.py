"""Answers are records: one declaration gives their form on the wire and their form in the library."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.records.fields import PRIVATE, SPARSE, ExportAs, Named, computed
from holdfast.kernel.registry.encoding import Result, ResultList, get_converter, library_type, to_wire, wire_type
from holdfast.kernel.timestamps import Time, TimeText

AT = 1_767_225_600_000_000
AT_TEXT = "2026-01-01T00:00:00.000000Z"
AT_DATETIME = datetime(2026, 1, 1, tzinfo=UTC)


class Lease(Struct, frozen=True):
    owner: str
    until: Time


class Task(Struct, frozen=True, kw_only=True):
    """A unit of work."""

    id: str
    agent: Annotated[str, Named("agent_id")]
    due_at: Time
    done_at: Time | None = None
    note: str | None = None
    tags: Annotated[tuple[str, ...], SPARSE] = ()
    channel: Annotated[str, SPARSE] = ""
    token: Annotated[int, PRIVATE] = 7
    lease: Lease | None = None
    runs: dict[str, Time] = {}

    @computed
    def is_done(self) -> bool:
        return self.done_at is not None

    @computed
    def title(self) -> str | None:
        return self.note and self.note.upper()


class Page(Struct, frozen=True, kw_only=True):
    tasks: list[Task]
    count: int
    next: str | UnsetType = UNSET


class View(Struct, frozen=True, kw_only=True):
    """An answer that is already as it is on the wire."""

    id: str
    at: TimeText
    until: TimeText | UnsetType = UNSET
    state: Literal["on", "off"] | None | UnsetType = UNSET
    inner: "list[View]" = []


def to_library(answer: Any) -> Any:
    return get_converter(type(answer), "library")(answer)


BARE = Task(id="a", agent="ai:x", due_at=AT)
FULL = Task(
    id="b", agent="ai:x", due_at=AT, done_at=AT, note="n", tags=("t",), lease=Lease("ai:y", AT), runs={"one": AT}
)
BARE_SENT = {"id": "a", "agent_id": "ai:x", "due_at": AT_TEXT, "runs": {}, "is_done": False}
FULL_SENT = {
    **BARE_SENT,
    "id": "b",
    "done_at": AT_TEXT,
    "note": "n",
    "tags": ["t"],
    "lease": {"owner": "ai:y", "until": AT_TEXT},
    "runs": {"one": AT_TEXT},
    "is_done": True,
    "title": "N",
}


def test_a_record_is_sent_without_what_it_does_not_have() -> None:
    sent = msgspec.json.decode(msgspec.json.encode(to_wire(Page(tasks=[BARE, FULL], count=2))))
    assert sent == {"tasks": [BARE_SENT, FULL_SENT], "count": 2}


def test_the_schema_is_that_of_what_is_sent() -> None:
    schema = msgspec.json.schema(wire_type(Task))["$defs"]["Task"]
    assert set(schema["properties"]) == {*FULL_SENT, "channel"}
    assert set(schema["required"]) == {"id", "agent_id", "due_at", "runs", "is_done"}
    assert schema["properties"]["done_at"] == {"type": "string"}
    assert schema["description"] == "A unit of work."


def test_the_library_has_datetimes_and_none() -> None:
    bare, full = to_library(Page(tasks=[BARE, FULL], count=2))
    assert (bare.due_at, bare.done_at, bare.note, bare.lease, bare.title) == (AT_DATETIME, None, None, None, None)
    assert (full.agent_id, full.done_at, full.is_done) == ("ai:x", AT_DATETIME, True)
    assert (full.lease.until, full.runs, full.tags) == (AT_DATETIME, {"one": AT_DATETIME}, ("t",))
    assert (bare.channel, to_library(Task(id="c", agent="ai:x", due_at=AT, channel="cli")).channel) == (None, "cli")
    assert not hasattr(bare, "token")


def test_to_dict_is_what_is_sent() -> None:
    for answer in (Page(tasks=[BARE, FULL], count=2), Page(tasks=[], count=0, next="x"), BARE, FULL):
        assert to_library(answer).to_dict() == msgspec.json.decode(msgspec.json.encode(to_wire(answer)))


def test_an_answer_that_is_as_it_is_sent_is_sent_as_it_is() -> None:
    view = View(id="a", at=AT_TEXT, inner=[View(id="b", at=AT_TEXT, until=AT_TEXT, state=None)])
    assert wire_type(View) is View
    assert to_wire(view) is view
    result = to_library(view)
    assert (result.at, result.until, result.state) == (AT_DATETIME, None, None)
    assert (result.inner[0].at, result.inner[0].until) == (AT_DATETIME, AT_DATETIME)


def test_the_types_of_the_library_are_derived_once_and_keep_their_names() -> None:
    assert library_type(Task) is library_type(Task)
    assert (library_type(Task).__name__, library_type(Task).__module__) == ("Task", "holdfast.types")
    assert issubclass(library_type(Page), ResultList)
    assert issubclass(library_type(Task), Result)
    assert not issubclass(library_type(Task), ResultList)
    fields = {field.name: field.type for field in msgspec.structs.fields(library_type(Task))}
    assert (fields["due_at"], fields["done_at"], fields["agent_id"]) == (datetime, datetime | None, str)


def test_a_type_is_derived_once_when_many_threads_need_it_first() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        derive_in_threads()
    finally:
        sys.setswitchinterval(interval)


def derive_in_threads() -> None:
    for number in range(20):
        name = f"Node{number}"
        node = msgspec.defstruct(name, [("at", Time), ("inner", Lease | None, None)], kw_only=True)
        threads = 8
        barrier = Barrier(threads)

        def derive(node: type[Struct] = node, barrier: Barrier = barrier) -> Any:
            barrier.wait()
            return library_type(node)

        with ThreadPoolExecutor(threads) as pool:
            derived = [task.result() for task in [pool.submit(derive) for _ in range(threads)]]
        assert all(one is derived[0] for one in derived)


def test_a_timestamp_beyond_the_calendar_is_clamped() -> None:
    assert to_library(Lease("x", 1 << 62)).until == datetime.max.replace(tzinfo=UTC)
    assert to_wire(Lease("x", -(1 << 62))).until == "0001-01-01T00:00:00.000000Z"


def test_a_value_with_a_text_form_is_sent_as_text() -> None:
    class Price(Struct, frozen=True):
        rate: Annotated[int, ExportAs(format=lambda rate: f"{rate / 100}")]
        tax: Annotated[int, ExportAs(format=str)] | None = None

    assert msgspec.to_builtins(to_wire(Price(150))) == {"rate": "1.5"}
    assert to_library(Price(150, 7)).to_dict() == {"rate": "1.5", "tax": "7"}
    assert [field.type for field in msgspec.structs.fields(wire_type(Price))] == [str, str | UnsetType]
