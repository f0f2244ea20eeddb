"""Random documents, ingested, edited and ingested again: nothing is lost, nothing is stored twice."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.kernel.errors import Invalid

numbers = count()
lines = st.sampled_from(
    [
        "# Handbook",
        "## Servers",
        "The harbour office opens at seven in the morning on working days.",
        "The harbour office opens at eight in the morning on working days.",
        "The harbour office does not open at seven in the morning on working days.",
        "None.",
        "- first item of the list",
        "- second item of the list",
        "```\nmake deploy\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "東京の天気は晴れです。明日は雨が降るでしょう。",
        "Ein Satz über die Brücke am Fluss, die seit gestern gesperrt ist.",
        "word " * 150,
    ]
)
documents = st.lists(lines, min_size=1, max_size=8)


@pytest.fixture
def engine() -> str:
    """Decisions are the same on both engines; storage on each is tested elsewhere."""
    return "sqlite"


def check_segments(ctx: Any, text: str, answer: Any) -> None:
    """Check that every segment is stored somewhere, verbatim if it has its own memory."""
    assert sum(answer.decisions.values()) == answer.total == len(answer.segments)
    for one in answer.segments:
        memory = ctx.get(one.memory_id)
        said = text.encode()[one.span.start : one.span.end].decode()
        if one.decision in ("new", "update", "conflict"):
            assert memory.content == said
        elif one.decision == "duplicate":
            assert memory.content.casefold().split() == said.casefold().split()


@given(documents, documents)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_document_is_stored_once_and_edits_are_accounted_for(
    hold: Any, first: list[str], second: list[str]
) -> None:
    where = {"namespace": f"any/{next(numbers)}", "source_uri": "doc:any"}
    kept: set[str] = set()
    for text in ("\n\n".join(first), "\n\n".join([*first[1:], *second])):
        try:
            answer = hold.ingest(content=text, **where)
        except Invalid:
            continue
        check_segments(hold, text, answer)
        there = {one.memory_id for one in answer.segments} | {one.memory_id for one in answer.vanished}
        assert kept <= there | {one.other_id for one in answer.segments}
        kept = {*answer.ingested_memory_ids}
        before = hold.verify().entries
        again = hold.ingest(content=text, **where)
        assert (again.outcome, again.decisions["new"], hold.verify().entries) == ("unchanged", 0, before)
        assert [one.memory_id for one in again.segments] == [one.memory_id for one in answer.segments]
    contents = [one.content for one in hold.list(namespace=where["namespace"], limit=100).memories]
    assert len(contents) == len({*contents}) or "None." in contents
