"""Unstorable values are refused alike on both engines, in every field of every operation."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_pair import Twins, comparable, twins
from four_surfaces import AGENT, Json, Outcome

from engines import Postgres
from holdfast.features.skills.model import build_file, compute_digest
from holdfast.kernel.registry.operation import bare_type
from holdfast.operations import REGISTRY, Effect, Operation

_letters = random.Random(7)


def noise(size: int, alphabet: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") -> str:
    """Return text that does not compress."""
    return "".join(_letters.choice(alphabet) for _ in range(size))


SWELLING = "\ufdfa\ufdfa\ufdfa\ufdfb\u3316\u3307\u3315\u3317\u3319\u331a\u3320\u332b\u332e\u3332\u3347\u334a\u3356"
"""Letters whose folded form is five to eleven times as long."""
WIDE = "".join(map(chr, range(0x10400, 0x10428)))
BAD_TEXTS = [
    "a\x00b",
    "\x00",
    "\ud800",
    "",
    " ",
    "a\nb",
    "\x7f",
    "\ufffe\U0010ffff",
    "%s %(id)s :id ? $1 {0} \\ ' \"",
    "e\u0301",
    "2026-02-30",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01",
    "*",
    "~nobody at all",
]
LONG_TEXTS = [
    *(noise(size) for size in (128, 512, 4096, 65_536)),
    *(noise(size // 4, WIDE) for size in (128, 512)),
    "doc:" + noise(4092),
    "doc:" + noise(1023, WIDE),
    noise(170, SWELLING),
    "/".join(noise(62) for _ in range(8)),
    noise(512, WIDE),
    " ".join(noise(2100) for _ in range(20)),
    "word " * 13_000,
]
BAD_NUMBERS: list[Any] = [
    -1,
    0,
    2**31,
    2**53 - 1,
    2**53,
    2**63,
    10**40,
    5e-324,
    1e308,
    float("nan"),
    float("inf"),
    True,
]
BAD_TYPES: list[Any] = [None, [], {}, [[]], {"a": {"b": None}}]

CITATION = {"uri": "doc:a", "accessed_at": "2026-01-31", "hash": "0" * 64, "span": {"start": 0, "end": 1}}
MEMORY = {
    "title": "T",
    "content": "deploy",
    "namespace": "team",
    "tags": ["ops"],
    "metadata": {"k": ["v", 1]},
    "citations": [CITATION],
    "source_uri": "doc:a",
    "speaker": "Ada",
    "thread": "t",
    "place": 1,
    "agent_id": AGENT,
}
SKILL = "---\nname: deploy\ndescription: How.\n---\n"
DIGEST = compute_digest("team", {"name": "deploy", "description": "How."}, [build_file("SKILL.md", SKILL.encode())])
TIMES = {"created_at": "2026-01-30", "updated_at": "2026-01-31", "origin": "elsewhere", "version": 3, "unknown": "x"}
ROWS: dict[str, Any] = {
    "memories": [MEMORY | TIMES | {"id": "new", "access_count": 3, "last_accessed_at": "2026-01-31", "scope": "team"}],
    "archived": [MEMORY | TIMES | {"id": "old", "archive_reason": "done", "archived_at": "2026-01-31"}],
    "agents": [{"agent_id": "ai:x", "agent_type": "ai:x", "capabilities": ["c"], "registered_at": "2026-01-30"}],
    "entities": [TIMES | {"entity_id": "m-1", "alias": "Ada"}],
    "links": [
        TIMES
        | {"source_id": "m-1", "target_id": "m-2", "relation": "related_to", "observed_by": "ai:x", "signature": "s"}
    ],
    "namespaces": [TIMES | {"namespace": "team", "standard_id": "m-1", "parent_namespace": "all"}],
    "grants": [TIMES | {"memory_id": "m-1", "agent_id": "ai:x", "permission": "read", "granted_by": AGENT}],
    "notices": [
        {"id": "n", "sender": "ai:x", "recipient": AGENT, "title": "t", "body": "b", "created_at": "2026-01-31"}
        | {"metadata": {"k": "v"}, "read_at": "2026-01-31", "priority": 5, "unknown": "x"}
    ],
    "invalidations": [
        TIMES
        | {"invalidated_id": "gone", "invalidating_id": "gone", "dependent_id": "m-1", "hop": 1, "cause": "deleted"}
        | {"status": "open", "reason": "r", "resolver": "ai:x", "created_at": "2026-01-31"}
    ],
    "skill_versions": [
        TIMES
        | {"namespace": "team", "name": "deploy", "digest": DIGEST, "registered_by": "ai:x", "signature": "0" * 128}
        | {"files": [{"path": "SKILL.md", "content": SKILL, "encoding": "utf-8"}], "created_at": "2026-01-31"}
    ],
    "skills": [TIMES | {"namespace": "team", "name": "deploy", "current": DIGEST, "registered_by": "ai:x"}],
    "made_by": "another program",
}

FIELDS: dict[str, Any] = {
    "agent_type": "human",
    "aliases": ["Countess"],
    "allowed_agents": ["ai:x"],
    "capabilities": ["search"],
    "citations": [CITATION],
    "change": 2,
    "embedding": {"model": "m", "vector": [0.5, 0.5]},
    "envelope": {"memories": []},
    "exclude_namespace": ["team"],
    "files": [{"path": "scripts/run.sh", "content": "make", "encoding": "utf-8"}],
    "from": "holdfast-20200101T000000.000000Z.db",
    "id": "m-1",
    "ids": ["m-1", "m-2"],
    "id_a": "m-1",
    "id_b": "m-2",
    "include": ["tools"],
    "include_namespace": ["team"],
    "inline_skill": SKILL,
    "inherit": ["max_reflection_depth"],
    "kinds": ["fact"],
    "memories": [MEMORY],
    "metadata": {"k": ["v", 1, {"deep": "x"}]},
    "name": "reader",
    "namespaces": ["team"],
    "parameters_schema": {"type": "object"},
    "pipeline": "plain",
    "pipeline_override": {"stages": [{"type": "segment"}, {"type": "helper", "kind": "fts_classifier"}]},
    "relation": "related_to",
    "relations": ["related_to"],
    "source_id": "m-1",
    "source_ids": ["m-1", "m-2"],
    "source_span": {"start": 0, "end": 1},
    "source_uri": "doc:a",
    "source_uri_prefix": "doc:",
    "steps": ["duplicates"],
    "tags": ["ops"],
    "take": ["team/**"],
    "target_id": "m-2",
    "tell": ["notes/*"],
    "timestamp_iso": "2026-01-31",
    "title": "T",
    "tool_calls": [{"tool": "Read", "brief": "a file"}],
    "valid_until": "2026-03-01",
    "verdicts": {"no-such-memory": "used"},
    "witness": "1:" + "0" * 64,
}
BY_TYPE: dict[type, Any] = {
    msgspec.inspect.StrType: "deploy",
    msgspec.inspect.IntType: 1,
    msgspec.inspect.FloatType: 0.5,
    msgspec.inspect.BoolType: True,
}
ELSEWHERE = {
    "peer_feed": "it tells what each store signs with a key of its own",
    "migrate": "it is told where another store is",
    "sync": "it is told where another store is",
    **dict.fromkeys(
        ("backup", "export_reflections", "import_kernex", "import_reflections", "recover", "peer_certificate"),
        "it is told a path, on which systems differ",
    ),
}
"""Operations that are not tried here, and why."""
PATHS = {"file", "folder_path", "target_folder", "path"}
"""Fields that are not: they name a place on this machine, of which an error tells."""


def corrupt_copies(value: Any, texts: list[str], numbers: list[Any]) -> Iterator[Any]:
    """Yield copies of a value, each with one bad text, bad number or unknown field inside."""
    match value:
        case bool():
            yield from ()
        case str():
            yield from texts
        case int() | float():
            yield from numbers
        case list():
            for at, item in enumerate(value):
                yield from ([*value[:at], bad, *value[at + 1 :]] for bad in corrupt_copies(item, texts, numbers))
        case dict():
            for name, item in value.items():
                yield from ({**value, name: bad} for bad in corrupt_copies(item, texts, numbers))
            yield from ({**value, bad: "x"} for bad in texts)


FEW_TEXTS = ["a\x00b", "\ud800", noise(512), noise(4096), noise(128, WIDE), noise(512, WIDE), noise(170, SWELLING)]
FEW_NUMBERS = [-1, 2**53, 2**63, 2**64, float("nan")]


def bad_values(good: Any, few: bool) -> Iterator[Any]:
    """Yield bad values of every kind for a plain field, and fewer for each part of a structured one."""
    if few or isinstance(good, dict) or len(str(good)) > 100:
        yield from corrupt_copies(good, FEW_TEXTS, FEW_NUMBERS)
    else:
        yield from corrupt_copies(good, BAD_TEXTS + LONG_TEXTS, BAD_NUMBERS)
    yield from BAD_TYPES


def good_value(op: Operation, field: msgspec.structs.FieldInfo) -> Any:
    if op.name == "import" and field.encode_name == "envelope":
        return {"memories": [], "links": []}
    if field.encode_name == "message":
        return op.examples[0].arguments["message"]
    if op.name == "sync_push":
        return {"sender_agent_id": AGENT}
    if op.name == "invalidations" and field.encode_name == "status":
        return ["open"]
    if field.encode_name in FIELDS:
        return FIELDS[field.encode_name]
    if field.encode_name.endswith("agent_id"):
        return AGENT
    return value_of(bare_type(msgspec.inspect.type_info(field.type)))


def value_of(info: Any) -> Any:
    """Return an example value of a type."""
    match info:
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.ListType(item_type=item):
            return [value_of(bare_type(item))]
        case msgspec.inspect.DictType(value_type=value):
            return {"k": value_of(bare_type(value))}
        case msgspec.inspect.StructType(fields=fields):
            return {field.encode_name: value_of(bare_type(field.type)) for field in fields if field.required}
        case msgspec.inspect.AnyType():
            return "deploy"
    return BY_TYPE[type(info)]


def cases(op: Operation, few: bool = False) -> Iterator[Json]:
    """Yield calls of an operation with one bad field each."""
    needed = {field.encode_name: good_value(op, field) for field in op.fields if field.required}
    for name in op.at_least_one[:1]:
        needed[name] = next(good_value(op, field) for field in op.fields if field.encode_name == name)
    for field in op.fields:
        if field.encode_name not in PATHS:
            for bad in bad_values(good_value(op, field), few):
                yield needed | {field.encode_name: bad}
    if op.name == "import":
        for name, rows in ROWS.items():
            for bad in corrupt_copies(rows, FEW_TEXTS, FEW_NUMBERS):
                yield {"envelope": {"memories": []} | {name: bad}}
        for bad in BAD_TEXTS + LONG_TEXTS:
            yield {"envelope": {"memories": [], bad: "x"}}


def begin(asked: Twins, number: int) -> None:
    """Two memories without further changes."""
    rows = [MEMORY | {"id": f"m-{number}-{which}", "title": f"deploy {number} {which}"} for which in (1, 2)]
    links = [{"source_id": rows[0]["id"], "target_id": rows[1]["id"], "relation": "related_to"}]
    assert asked.differing("import", {"envelope": {"memories": rows, "links": links}}) is None


def with_own_ids(value: Any, number: int) -> Any:
    """Return the arguments with the ids of those two memories."""
    match value:
        case "m-1" | "m-2":
            return f"m-{number}-{value[-1]}"
        case list():
            return [with_own_ids(item, number) for item in value]
        case dict():
            return {name: with_own_ids(item, number) for name, item in value.items()}
    return value


def is_removal(op: Operation) -> bool:
    return op.effect is Effect.DESTROY or op.name in ("archive", "consolidate")


def is_long(arguments: Json) -> bool:
    """Whether the values may have left a memory that makes every later answer as long."""
    return len(str(arguments)) > 4000


class BadValueCalls:
    """Two engines to call with bad values."""

    def __init__(self, asked: Twins) -> None:
        self._asked = asked
        self._turn = 0
        begin(asked, self._turn)

    def ask(self, op: Operation, few: bool = False) -> Iterator[tuple[str, Json, Outcome, Outcome]]:
        """Return all calls with different answers, or with a storage error."""
        for arguments in cases(op, few):
            one, other = self._asked.ask(op.name, with_own_ids(arguments, self._turn))
            differs = one != other and comparable(one) != comparable(other)
            if differs or "STORE_ERROR" in (one.code, other.code):
                yield op.name, arguments, one, other
            if one.error is None and (is_removal(op) or is_long(arguments)):
                self._turn += 1
                begin(self._asked, self._turn)


PARTS = 6
"""So many tests have an equal share of the operations each, for who runs several at once."""


@contextmanager
def open_bad_value_calls(postgres: Postgres, folder: Path) -> Iterator[BadValueCalls]:
    folder.mkdir()
    with twins(postgres, folder) as engines:
        yield BadValueCalls(engines)


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_a_bad_value_has_one_outcome_on_both_engines(postgres: Postgres, tmp_path: Path, part: int) -> None:
    """Reading operations share a store."""
    operations = [op for op in REGISTRY if op.fields and op.name not in ELSEWHERE][part::PARTS]
    differing = []
    with open_bad_value_calls(postgres, tmp_path / "read") as shared:
        for op in operations:
            if op.effect is Effect.READ:
                differing += shared.ask(op)
    for op in operations:
        if op.effect is not Effect.READ:
            with open_bad_value_calls(postgres, tmp_path / op.name) as own:
                differing += own.ask(op)
    assert differing == []


def test_a_bad_value_of_each_kind_has_one_outcome_on_both_engines(postgres: Postgres, tmp_path: Path) -> None:
    differing = []
    with open_bad_value_calls(postgres, tmp_path / "few") as shared:
        for name in ("store", "update", "recall", "link", "fact_set", "task_add"):
            differing += shared.ask(REGISTRY[name], few=True)
    assert differing == []
