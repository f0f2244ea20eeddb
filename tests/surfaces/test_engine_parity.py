"""Both engines give the same answers to any sequence of operations."""

import json
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from engine_pair import START, Twin, Twins, comparable, twins
from four_surfaces import Json, Outcome
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engines import Postgres
from holdfast.kernel.context import Caller
from holdfast.kernel.records.link import RELATIONS
from holdfast.kernel.timestamps import SECOND

CALLERS = (
    Caller("ai:tester@here"),
    Caller("ai:other@here", right="write"),
    Caller("ai:confined@here", right="write", namespaces=("a/b",)),
)

which = st.integers(0, 5).map(lambda number: f"#{number}")
"""A memory: the first one made, the second, ..."""
namespaces = st.sampled_from(["a", "a/b", "a/b/c", "ab", "z"])
titles = st.sampled_from(["Plan", "plan", "Deploy day", "Ö", "\U0001f600"])
contents = st.sampled_from(
    ["We deploy on Tuesdays.", "Soup at noon.", "deploy, deploy! soup", "x" * 300, "Ünïcode 東京 %_\\"]
)
tags = st.lists(st.sampled_from(["ops", "Ops", "day", "é"]), max_size=3)
tiers = st.sampled_from(["short", "mid", "long"])
scopes = st.sampled_from(["private", "team", "unit", "org", "collective"])
agents = st.sampled_from([caller.agent for caller in CALLERS])
words = st.sampled_from(["deploy", "soup tuesdays", "東京", "plan", "nothing here", "%", "the"])
numbers = st.integers(1, 12)
moments = st.sampled_from(["2026-01-31T09:00:00Z", "2026-01-31T12:00:00Z", "2026-02-02", "2000-01-01"])
priorities = st.integers(1, 10)
metadata = st.dictionaries(st.sampled_from(["k", "ü", "scope"]), st.sampled_from([1, 0.1, None, "v", [1, {"a": 2}]]))


def step(name: str, needed: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[tuple[str, Json]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(needed or {}, optional=optional))


STORED = {"tags": tags, "tier": tiers, "scope": scopes, "priority": priorities, "metadata": metadata}
FILTERS = {"namespace": namespaces, "tier": tiers, "tags": tags, "since": moments, "until": moments}
MAKING = step(
    "store",
    {"title": titles, "content": contents},
    namespace=namespaces,
    on_conflict=st.sampled_from(["merge", "error", "version"]),
    **STORED,
)
STEPS = st.one_of(
    MAKING,
    MAKING,
    step(
        "update",
        {"id": which},
        title=titles,
        content=contents,
        namespace=namespaces,
        expected_version=numbers,
        **STORED,
    ),
    step("delete", {"id": which}),
    step("archive", {"ids": st.lists(which, min_size=1, max_size=3, unique=True)}),
    step("archive_restore", {"id": which}),
    step("archive_purge", {"ids": st.lists(which, min_size=1, max_size=2, unique=True)}),
    step("archive_list", {}, namespace=namespaces),
    step("promote", {"id": which}, to_namespace=namespaces),
    step("forget", {"pattern": words}, namespace=namespaces, dry_run=st.booleans()),
    step("gc"),
    step("link", {"source_id": which, "target_id": which}, relation=st.sampled_from(RELATIONS)),
    step("kg_invalidate", {"source_id": which, "target_id": which, "relation": st.sampled_from(RELATIONS)}),
    step("kg_query", {"source_id": which}, max_depth=st.integers(1, 3)),
    step("find_paths", {"source_id": which, "target_id": which}),
    step("lineage", {"id": which}),
    step("consolidate", {"ids": st.lists(which, min_size=2, max_size=3, unique=True), "title": titles}),
    step("get", {"id": which}, as_of=moments, known_at=moments),
    step("list", {}, min_priority=priorities, agent_id=agents, **FILTERS),
    step("search", {"query": words, "limit": st.just(1000)}, include_archived=st.booleans(), **FILTERS),
    step("recall", {"context": words, "limit": st.just(50)}, include_archived=st.booleans(), **FILTERS),
    step("history", {"id": which}, after=numbers, limit=numbers),
    step("events", {}, after=numbers, limit=numbers),
    step("undo", {"change": numbers}),
    step("grant", {"id": which, "agent_id": agents}, permission=st.sampled_from(["read", "write", "admin"])),
    step("revoke", {"id": which, "agent_id": agents}),
    step(
        "entity_register", {"canonical_name": titles, "namespace": namespaces, "aliases": st.lists(titles, max_size=2)}
    ),
    step("entity_get_by_alias", {"alias": titles}, namespace=namespaces),
    step("namespace_set_standard", {"namespace": namespaces, "id": which}, parent=namespaces),
    step("namespace_get_standard", {"namespace": namespaces, "inherit": st.booleans()}),
    step("stats"),
    step("namespaces"),
    step("get_taxonomy"),
    step("verify"),
)


class EnginePair:
    """Both stores with the same random numbers, so that new ids are equal; `#0` is the first memory created."""

    def __init__(self, both: Twins) -> None:
        self._both = both
        self._ids: list[str] = []
        self._steps = count()
        both.ask("agent_register", {"agent_id": "ai:first@here", "agent_type": "human"})

    def ask(self, name: str, arguments: Json, caller: Caller) -> tuple[Any, Any]:
        step, aimed = next(self._steps), self._with_ids(arguments)
        one, other = (
            self._answer(twin, step, name, aimed, caller) for twin in (self._both.sqlite, self._both.postgres)
        )
        for field in ("id", "entity_id", "clone_id"):
            made = one.answer.get(field) if isinstance(one.answer, dict) else None
            if isinstance(made, str) and made not in self._ids:
                self._ids.append(made)
        return comparable(self._with_numbers(one)), comparable(self._with_numbers(other))

    def _answer(self, twin: Twin, step: int, name: str, arguments: Json, caller: Caller) -> Outcome:
        with patch.object(os, "urandom", Random(step).randbytes):
            return twin.ask(name, arguments, caller)

    def _with_ids(self, value: Any) -> Any:
        match value:
            case str() if value.startswith("#") and int(value[1:]) < len(self._ids):
                return self._ids[int(value[1:])]
            case list():
                return [self._with_ids(item) for item in value]
            case dict():
                return {key: self._with_ids(item) for key, item in value.items()}
        return value

    def _with_numbers(self, outcome: Outcome) -> Outcome:
        text = json.dumps(outcome)
        for number, id in enumerate(self._ids):
            text = text.replace(id, f"#{number}")
        return Outcome(*json.loads(text))


def timed_steps(steps: st.SearchStrategy[tuple[str, Json]]) -> st.SearchStrategy[tuple[tuple[str, Json], Caller, int]]:
    """A step, its caller, and the seconds since the previous one."""
    return st.tuples(steps, st.sampled_from(CALLERS), st.sampled_from([1, 60, 7 * 3600, 8 * 24 * 3600]))


LOOKS = ("list", "archive_list", "archive_stats", "stats", "namespaces", "get_taxonomy", "events", "inbox")
LAST = [((name, {}), caller, 0) for name in LOOKS for caller in CALLERS] + [(("export", {}), CALLERS[0], 0)]
"""What everybody sees of it all in the end."""


def settings_for(examples: int, phases: Iterable[Phase] = tuple(Phase)) -> settings:
    health = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, phases=phases, suppress_health_check=health)


SEQUENCES = given(
    first=st.lists(timed_steps(MAKING), min_size=3, max_size=6),
    then=st.lists(timed_steps(STEPS), min_size=5, max_size=25),
)


@pytest.mark.full
@settings_for(40)
@SEQUENCES
def test_any_sequence_of_operations_gets_the_same_answers_from_both_engines(
    postgres: Postgres, first: list[Any], then: list[Any]
) -> None:
    compare_answers(postgres, [*first, *then, *LAST])


@settings_for(8, [Phase.generate])
@SEQUENCES
def test_a_few_sequences_of_operations_get_the_same_answers_from_both_engines(
    postgres: Postgres, first: list[Any], then: list[Any]
) -> None:
    """The test above also minimises failing sequences, which takes minutes."""
    compare_answers(postgres, [*first, *then, *LAST])


def compare_answers(postgres: Postgres, steps: list[tuple[tuple[str, Json], Caller, int]]) -> None:
    moment = [START]
    with TemporaryDirectory() as folder, twins(postgres, Path(folder), now=lambda: moment[0]) as both:
        engines = EnginePair(both)
        for (name, arguments), caller, seconds in steps:
            moment[0] += seconds * SECOND
            expected, actual = engines.ask(name, arguments, caller)
            assert (name, arguments, actual) == (name, arguments, expected)
