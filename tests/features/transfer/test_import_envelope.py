"""Imports: every row is validated, every rejected row reported, a transaction all or nothing."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from envelopes import Clock, Open, counts, import_envelope, memory, text_of

import holdfast
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import Invalid, OperationCancelled
from holdfast.kernel.registry.words import parse_words
from holdfast.operations import REGISTRY
from holdfast.surfaces import error_responses


@pytest.mark.parametrize(
    ("envelope", "field"),
    [
        ({"schema_version": "v2", "memories": []}, "schema_version"),
        ({"schema_version": None, "memories": []}, "schema_version"),
        ({"db_schema_version": 6, "memories": []}, "db_schema_version"),
        ({"db_schema_version": "x", "memories": []}, "db_schema_version"),
        ({"links": []}, "memories"),
        ({"memories": {}}, "memories"),
        ({"memories": [], "links": None}, "links"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_envelope_is_refused(hold: holdfast.Holdfast, envelope: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        import_envelope(hold, envelope)
    assert refused.value.details == {"fields": [field]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"content": " "}, "content: must not be empty"),
        ({"title": "x" * 513}, "title: must be at most 512 bytes, got 513"),
        ({"priority": 11}, "priority: must be between 1 and 10, got 11"),
        ({"tier": "eternal"}, "tier: Invalid enum value 'eternal'"),
        ({"created_at": "yesterday"}, "created_at: not a time; write 2026-01-31T09:00:00Z or 2026-01-31"),
        ({"id": "../etc"}, "id: Expected `str` matching regex"),
        ({"version": 0}, "version: Expected `int` >= 1"),
        ({"namespace": "a//b"}, "namespace: must not have empty, . or .. segments, or start or end with /"),
        ({"metadata": {"agent_id": "no blanks"}}, "metadata.agent_id: must be 1 to 128 letters"),
        ({"metadata": {"scope": "galaxy"}}, "metadata.scope: must be one of"),
        ({"unknown": "a\x00b"}, "unknown: must not contain NUL"),
        ({"unknown": "x" * 300_000}, "unknown fields: must not exceed 262144 bytes as JSON"),
        ({"confidence": float("nan")}, "confidence: numbers must be finite"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_rejected_row_is_named_and_all_others_are_imported(hold: holdfast.Holdfast, wrong: Any, said: str) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(20)]
    rows[7] |= wrong
    answer = import_envelope(hold, {"memories": rows})
    assert counts(answer) == (19, 0, 0, 0, 1)
    (error,) = answer.errors
    assert (error.array, error.index, error.code) == ("memories", 7, "VALIDATION_FAILED")
    assert error.error.startswith(said)
    assert hold.stats().total == 19


@pytest.mark.parametrize("row", [None, 5, "text", [], {}], ids=repr)
def test_a_value_that_is_not_a_row_is_named(hold: holdfast.Holdfast, row: Any) -> None:
    arrays = ("memories", "archived", "agents", "entities", "links", "namespaces", "grants", "notices")
    answer = import_envelope(hold, {name: [row] for name in arrays})
    assert [(error.array, error.code) for error in answer.errors] == [(name, "VALIDATION_FAILED") for name in arrays]


def test_links_to_themselves_or_to_missing_memories_are_named(hold: holdfast.Holdfast) -> None:
    links = [
        ("m-1", "m-1", "related_to"),
        ("m-1", "m-9", "related_to"),
        ("m-9", "m-1", "related_to"),
        ("m-1", "m-2", "x"),
    ]
    rows = [{"source_id": source, "target_id": target, "relation": relation} for source, target, relation in links]
    answer = import_envelope(hold, {"memories": [memory(), memory(id="m-2", title="Two")], "links": rows})
    assert [(error.index, error.code, error.error) for error in answer.errors] == [
        (0, "VALIDATION_FAILED", "target_id: must differ from source_id"),
        (1, "NOT_FOUND", "target_id: there is no memory 'm-9'."),
        (2, "NOT_FOUND", "source_id: there is no memory 'm-9'."),
        (3, "VALIDATION_FAILED", "relation: Invalid enum value 'x'"),
    ]


def test_cyclic_links_are_imported(hold: holdfast.Holdfast) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(3)]
    circle = [
        {"source_id": f"m-{number}", "target_id": f"m-{(number + 1) % 3}", "relation": "related_to"}
        for number in range(3)
    ]
    assert import_envelope(hold, {"memories": rows, "links": circle}).arrays["links"].imported == 3


def test_an_imported_memory_cannot_reflect_on_itself(hold: holdfast.Holdfast) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(3)]
    circle = [
        {"source_id": f"m-{number}", "target_id": f"m-{(number + 1) % 3}", "relation": "reflects_on"}
        for number in range(3)
    ]
    answer = import_envelope(hold, {"memories": rows, "links": circle})
    assert [(error.array, error.index, error.code) for error in answer.errors] == [
        ("links", 2, "REFLECTION_CYCLE_DETECTED")
    ]


def test_memories_of_an_untrusted_source_belong_to_the_importer(rich: holdfast.Holdfast, open_store: Open) -> None:
    fresh = open_store("fresh", "ai:importer@here")  # type: ignore[call-arg]
    answer = import_envelope(fresh, rich.export(), trust_source=False)
    assert (answer.imported, answer.restamped, answer.trusted_source) == (7, 7, False)
    assert {error.array for error in answer.errors} == {"grants", "notices"}
    rows = fresh.export()["memories"]
    assert {row["metadata"]["agent_id"] for row in rows} == {"ai:importer@here"}
    assert {row["metadata"]["imported_from_agent_id"] for row in rows} == {"ai:tester@here", "ai:other@here"}
    links = fresh.export()["links"]
    assert {(row["observed_by"], row["imported_from_agent_id"]) for row in links} == {
        ("ai:importer@here", "ai:tester@here")
    }
    one = fresh.list().memories[0]
    changed = fresh.update(one.id, metadata={"imported_from_agent_id": "ai:king@here", "mine": 1})
    first = one.metadata["imported_from_agent_id"]
    assert changed.metadata == {"imported_from_agent_id": first, "mine": 1}


def test_an_expired_memory_is_imported_without_its_title(open_store: Open, clock: Clock) -> None:
    hold = open_store("expiry")
    hold.store(title="One", content="live", namespace="elsewhere")
    answer = import_envelope(hold, {"memories": [memory(tier="short", expires_at="2026-01-01T00:00:00Z")]})
    assert counts(answer) == (1, 0, 0, 0, 0)
    assert [(row.title, row.content) for row in hold.list().memories] == [("One", "live")]
    assert [row.content for row in hold.archive_list().archived] == ["first"]


def test_times_are_reset_unless_preserved(open_store: Open, clock: Clock) -> None:
    hold = open_store("times")
    import_envelope(
        hold, {"memories": [memory(created_at="2020-01-01T00:00:00Z", version=9)]}, preserve_timestamps=False
    )
    row = hold.get("m-1")
    assert (row.created_at.year, row.version) == (2026, 1)


def test_a_dry_run_reports_the_same_and_leaves_nothing(rich: holdfast.Holdfast, open_store: Open) -> None:
    fresh = open_store("fresh")
    empty = text_of(fresh.export())
    rehearsed = import_envelope(fresh, {**rich.export(), "unknown": 1}, dry_run=True)
    assert text_of(fresh.export()) == empty
    done = import_envelope(fresh, {**rich.export(), "unknown": 1})
    assert msgspec.structs.replace(rehearsed, dry_run=False) == done


def test_a_cancelled_import_leaves_nothing(hold: holdfast.Holdfast) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done >= 100:
            raise OperationCancelled

    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(150)]
    with pytest.raises(OperationCancelled):
        hold.call("import", {"envelope": {"memories": rows}}, progress=Progress(stop))
    assert hold.stats().total == 0


def test_a_body_that_is_an_envelope_needs_no_name_and_takes_options_beside_it(hold: holdfast.Holdfast) -> None:
    answer = hold.call("import", {"memories": [memory()], "links": [], "mood": "good", "dry_run": True})
    assert (answer.imported, answer.kept, answer.dry_run) == (1, ["mood"], True)


def test_a_file_truncated_anywhere_is_refused_and_nothing_changes(rich: holdfast.Holdfast, open_store: Open) -> None:
    text = error_responses.encode(rich.export()).decode()
    fresh = open_store("fresh")
    for end in range(0, len(text) - 1, 512):
        with pytest.raises(Invalid):
            fresh.call("import", parse_words(REGISTRY["import"], {"envelope": [text[:end]]}))
    assert fresh.stats().changes == 0


def test_a_key_limited_to_namespaces_imports_only_those(hold: holdfast.Holdfast) -> None:
    hold.store(title="Held", content="outside", namespace="outside")
    outside = hold.export()["memories"][0]
    rows = [
        memory(namespace="team/a"),
        memory(id="m-2", title="Two"),
        {**outside, "namespace": "team", "content": "taken"},
    ]
    caller = Caller(agent="ai:admin@here", namespaces=("team",))
    answer = hold.call("import", {"envelope": {"memories": rows, "mood": 1}}, caller=caller)
    assert [(error.array, error.index, error.code) for error in answer.errors] == [
        ("memories", 1, "FORBIDDEN"),
        ("memories", 2, "FORBIDDEN"),
        ("mood", 0, "FORBIDDEN"),
    ]
    assert hold.get(outside["id"]).content == "outside"


@pytest.mark.parametrize("rule", ["flag", "redact", "refuse"])
@pytest.mark.parametrize("by", ["mine", "import"])
def test_secrets_in_an_envelope_follow_the_namespace_policy(
    rule: str, by: str, open_store: Open, tmp_path: Path
) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    there, here = open_store("there"), open_store("here")
    there.store(title="Kept", content="Nothing to hide.")
    there.store(title="Key", content=f"Use {key} for it.", metadata={"note": key})
    there.entity_register(canonical_name="Robot", namespace="bots", aliases=[key])
    envelope = there.export() | {"citations": [{"why": key}]}
    here.policy_set(namespace="*", secrets=rule)
    (tmp_path / "exp.json").write_bytes(msgspec.json.encode(envelope))
    answer = here.mine(str(tmp_path / "exp.json")) if by == "mine" else import_envelope(here, envelope)
    assert answer.rejected == (3 if rule == "refuse" else 0)
    assert key not in str(answer)
    kept = str(here.export())
    assert "Nothing to hide." in kept
    assert (key in kept) == (rule == "flag")


@pytest.mark.parametrize("rule", ["redact", "refuse"])
def test_a_skill_with_a_secret_is_refused_by_either_way_where_the_policy_forbids_it(
    rule: str, open_store: Open
) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    there, here = open_store("there"), open_store("here")
    said = f"---\nname: deploy\ndescription: How to deploy.\n---\nUse {key}.\n"
    there.skill_register(inline_skill=said)
    here.policy_set(namespace="*", secrets=rule)
    with pytest.raises(Invalid, match="files") as refused:
        here.skill_register(inline_skill=said)
    assert (refused.value.code, key in str(refused.value.to_json())) == ("SECRET_REFUSED", False)
    assert [one.code for one in import_envelope(here, there.export()).errors] == ["SECRET_REFUSED", "NOT_FOUND"]
    assert here.skill_list().count == 0
