"""What a segment is compared with, and the results of helpers."""

from typing import Any

import pytest
from ingest_text import ingest_text

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.ingest import plan as ingest_plan
from holdfast.features.ingest.helpers import HELPERS
from holdfast.helpers import MemoryHandle, cosine_pre_filter, fts_classifier, jaccard_overlap


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_candidates_come_from_the_store(hold: Any) -> None:
    hold.store(title="Port", content="The server listens on port 8080 by default.", namespace="team", tier="long")
    answer = ingest_text(hold, "The server listens on port 8080 by default, says Ann.")
    overlap = next(stage for stage in answer.stages if stage.name == "jaccard_overlap")
    assert (overlap.payload["candidates_scored"], overlap.payload["candidates_above"]) == (1, 1)


def test_helper_results_are_returned_once_for_the_first_segments(hold: Any) -> None:
    there = hold.store(title="Port", content="The server listens on port 8080.", namespace="team", tier="long").id
    text = "\n\n".join(["The server listens on port 8080, says Ann.", *(f"Ship {n} left at {n}." for n in range(30))])
    answer = ingest_text(hold, text)
    kind, overlap, near = answer.segments[0].helpers
    assert [one.kind for one in (kind, overlap, near)] == ["fts_classifier", "jaccard_overlap", "cosine_pre_filter"]
    assert (kind.payload["namespace"], kind.payload["tokens"]) == ("team", 8)
    assert [one["id"] for one in overlap.payload["top_candidates"]] == [there]
    assert overlap.summary == "1 of 1 candidates overlap by 0.40"
    assert [one["id"] for one in near.payload["candidates"]] == [there]
    told = [one.helpers is not None for one in answer.segments]
    assert told == [place < ingest_plan.MAX_HELPER_REPORTS for place in range(31)]
    assert not any(one.helpers for one in ingest_text(hold, text).segments)


def test_candidates_with_equal_overlap_are_sorted_by_title(hold: Any) -> None:
    said = (
        "Every Tuesday {} restarts the small grey server behind the kitchen door, waits until its green lamp burns "
        "again, reads the last page of the log, and writes the hour into the yellow book beside the window."
    )
    for title, name in (("B", "Ann"), ("A", "Bob"), ("C", "Cid")):
        hold.store(title=title, content=said.format(name), namespace="team", tier="long")
    (one,) = ingest_text(hold, said.format("Dan")).segments
    rows = one.helpers[1].payload["top_candidates"]
    assert len({row["overlap"] for row in rows}) == 1
    assert [hold.get(row["id"]).title for row in rows] == ["A", "B", "C"]


def test_exact_duplicates_have_no_comparison_results(hold: Any) -> None:
    said = "The small server keeps its backups for thirty days."
    hold.store(title="Backups", content=said, namespace="team", tier="long")
    (one,) = ingest_text(hold, said).segments
    assert (one.decision, [helper.kind for helper in one.helpers]) == ("duplicate", ["fts_classifier"])


@pytest.mark.parametrize("compat", [False, True], ids=["ours", "literal"])
def test_a_pipeline_stage_returns_what_the_public_function_does(vectors_made: None, db: str, compat: bool) -> None:
    text = "First, stop the old server. Then run `make deploy` on the new one."
    others = [text.replace("deploy", "rollback"), f"{text} Call Ann.", "Soup is at noon."]
    params = {"compat": compat, "cosine_threshold": 0.5}
    stages = [{"type": "helper", "kind": kind, "params": params} for kind in HELPERS]
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        for number, content in enumerate(others):
            hold.store(title=f"Note {number}", content=content, namespace="team", tier="long")
        hold.reembed()
        (one,) = ingest_text(hold, text, pipeline_override={"stages": stages}, dry_run=True).segments
        kind, overlap, near = one.helpers
        found = [hold.get(row["id"]) for row in overlap.payload["top_candidates"]]
        (asked, *vectors) = hold.ctx.embedder.embed([text, *(memory.content for memory in found)])
    assert {memory.content for memory in found} == {*others[:2]}
    handles = [
        MemoryHandle(memory.id, memory.content, numbers_of(vector))
        for memory, vector in zip(found, vectors, strict=True)
    ]
    assert read_helper(kind) == read_helper(fts_classifier(text, namespace="team", compat=compat))
    assert read_helper(overlap) == read_helper(jaccard_overlap(text, handles, compat=compat))
    alone = cosine_pre_filter(numbers_of(asked), handles, threshold=0.5, compat=compat)
    assert (near.kind, near.summary) == (alone.kind, alone.summary)
    assert all(row["score"] == round(row["score"], 6) for row in near.payload["candidates"])
    assert near.payload.pop("candidates") == [
        row | {"score": pytest.approx(row["score"], abs=1e-5)} for row in alone.payload.pop("candidates")
    ]
    assert near.payload == alone.payload


def read_helper(found: Any) -> tuple[str, str, dict[str, Any]]:
    return found.kind, found.summary, found.payload


def numbers_of(vector: bytes) -> list[float]:
    return list(memoryview(vector).cast("f"))


def test_a_helper_with_compat_returns_what_ai_memory_does(hold: Any) -> None:
    stages = [{"type": "helper", "kind": "fts_classifier", "params": {"compat": compat}} for compat in (False, True)]
    said = [
        ingest_text(hold, "We strengthen the wall.", pipeline_override={"stages": [one]}).stages[0] for one in stages
    ]
    assert [one.payload["fact_kind"] for one in said] == ["declarative", "procedural"]
    assert [one.summary for one in said] == ["1 declarative; 1 of them weak", "1 procedural"]
