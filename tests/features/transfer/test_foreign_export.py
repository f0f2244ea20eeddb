"""Exports of other programs: imported, and their unknown fields written again."""

from datetime import UTC, datetime
from typing import Any

from envelopes import Open, counts, import_envelope, text_of

FOREIGN: dict[str, Any] = {
    "schema_version": "v1",
    "source": "ai-memory-v0.7.0",
    "exported_at": "2026-05-01T00:00:00.000Z",
    "db_schema_version": 54,
    "future_flag": {"deep": [1, {"er": None}]},
    "channels": [{"id": "c1"}, {"id": "c2"}],
    "namespaces": [
        {
            "namespace": "work",
            "standard_id": "m-1",
            "parent_namespace": None,
            "updated_at": "2026-04-01T00:00:00Z",
            "x": 1,
        },
        {"namespace": "bare", "standard_id": None, "parent_namespace": "work", "updated_at": None, "colour": "red"},
    ],
    "memories": [
        {
            "id": "m-1",
            "tier": "long",
            "namespace": "work",
            "title": " Mined ",
            "content": "[user]: hello",
            "tags": ["mine-slack"],
            "priority": 5,
            "confidence": 1.0,
            "source": "mine-slack",
            "access_count": 3,
            "created_at": "2026-04-01T10:00:00.123456789+02:00",
            "updated_at": "2026-04-01T10:00:00Z",
            "last_accessed_at": "2026-04-02T10:00:00Z",
            "expires_at": None,
            "memory_kind": "hunch",
            "metadata": {"agent_id": "host:box:pid-1", "mined_from": "slack", "scope": "team"},
            "citations": [{"uri": "uri:a", "accessed_at": "2026-01-01T00:00:00Z", "mood": "sure"}],
            "confidence_source": "calibrated",
            "confidence_signals": {"source_age_days": 3},
            "embedding": "AQID",
            "embedding_dim": 384,
            "version": 7,
            "reflection_depth": 2,
        },
        {"id": "m-2", "title": "Two", "content": "second", "metadata": {}, "created_at": "2026-04-01T10:00:00Z"},
    ],
    "archived": [
        {
            "id": "m-3",
            "title": "Put away",
            "content": "third",
            "tier": "mid",
            "metadata": {"agent_id": "system"},
            "created_at": "2026-04-01T10:00:00Z",
            "updated_at": "2026-04-01T10:00:00Z",
            "archived_at": "2026-04-03T10:00:00Z",
            "archive_reason": "ttl_expired",
            "original_tier": "short",
            "original_expires_at": "2026-04-02T10:00:00Z",
        }
    ],
    "links": [
        {
            "source_id": "m-1",
            "target_id": "m-2",
            "relation": "supersedes",
            "created_at": "2026-04-01T10:00:00Z",
            "valid_from": "2026-03-01T10:00:00Z",
            "valid_until": "2026-04-01T11:00:00Z",
            "observed_by": "daemon",
            "signature": "c2ln",
            "attest_level": "self_signed",
        }
    ],
    "agents": [
        {
            "agent_id": "ai:old",
            "agent_type": "ai:codex-5.4",
            "capabilities": ["x"],
            "registered_at": "2026-01-01T00:00:00Z",
            "attestation": "none",
        }
    ],
    "entities": [{"entity_id": "m-2", "alias": "Number Two", "created_at": "2026-04-01T10:00:00Z", "weight": 2}],
}


def test_a_foreign_export_is_imported_and_its_unknown_fields_are_exported_again(open_store: Open) -> None:
    hold = open_store("foreign")
    answer = import_envelope(hold, FOREIGN)
    assert (counts(answer), answer.errors) == ((3, 0, 0, 0, 0), [])
    assert answer.kept == ["channels", "future_flag"]
    exported = hold.export()
    assert {name: exported[name] for name in answer.kept} == {name: FOREIGN[name] for name in answer.kept}
    mined = next(row for row in exported["memories"] if row["id"] == "m-1")
    given = FOREIGN["memories"][0]
    same = (
        "source",
        "memory_kind",
        "citations",
        "confidence_source",
        "confidence_signals",
        "embedding",
        "embedding_dim",
        "metadata",
        "access_count",
        "version",
        "reflection_depth",
    )
    assert {name: mined[name] for name in same} == {name: given[name] for name in same}
    assert (mined["title"], mined["created_at"]) == ("Mined", "2026-04-01T08:00:00.123456Z")
    assert exported["links"][0].items() >= {**FOREIGN["links"][0], **TIMES_OF_THE_LINK}.items()
    assert exported["agents"][0]["attestation"] == "none"
    assert exported["entities"][0]["weight"] == 2
    assert (
        exported["namespaces"][0].items() >= {"namespace": "bare", "colour": "red", "parent_namespace": "work"}.items()
    )


TIMES_OF_THE_LINK = {
    "created_at": "2026-04-01T10:00:00.000000Z",
    "valid_from": "2026-03-01T10:00:00.000000Z",
    "valid_until": "2026-04-01T11:00:00.000000Z",
}


def test_a_foreign_export_is_unchanged_by_further_round_trips(open_store: Open) -> None:
    first, second = open_store("first"), open_store("second")
    import_envelope(first, FOREIGN)
    assert (import_envelope(first, FOREIGN).unchanged, first.stats().changes) == (3, 7)
    exported = first.export()
    import_envelope(second, exported)
    assert text_of(second.export()) == text_of(exported)


def test_a_foreign_memory_behaves_like_an_ordinary_one(open_store: Open) -> None:
    hold = open_store("foreign")
    import_envelope(hold, FOREIGN)
    mined = hold.get("m-1")
    assert (mined.source, mined.memory_kind, mined.agent_id, mined.scope) == (
        "import",
        "observation",
        "host:box:pid-1",
        "team",
    )
    put_away = hold.archive_list().archived[0]
    assert (put_away.id, put_away.tier, put_away.archive_reason, put_away.updated_at) == (
        "m-3",
        "short",
        "ttl_expired",
        datetime(2026, 4, 3, 10, tzinfo=UTC),
    )
    assert (put_away.agent_id, put_away.metadata) == ("ai:tester@here", {"imported_from_agent_id": "system"})


def test_an_original_foreign_value_is_dropped_once_it_was_changed_here(open_store: Open) -> None:
    hold = open_store("foreign")
    import_envelope(hold, FOREIGN)
    hold.update("m-1", kind="lesson", citations=[])
    row = next(row for row in hold.export()["memories"] if row["id"] == "m-1")
    assert (row["memory_kind"], row["citations"], row["source"]) == ("lesson", [], "mine-slack")
