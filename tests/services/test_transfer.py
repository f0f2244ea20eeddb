"""Everything out and in again: nothing lost, nothing taken in unseen, nothing changed by doing it twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.domain.caller import Caller
from holdfast.domain.errors import Cancelled, Invalid
from holdfast.domain.moment import DAY, SECOND
from holdfast.operations import REGISTRY
from holdfast.operations.registry import from_words
from holdfast.services import use
from holdfast.services.hold import Progress
from holdfast.surfaces import wire

NOON = 1_790_000_000 * SECOND


class Clock:
    """A clock that moves by a millisecond a look, and further when told."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> int:
        self.at += 1000
        return self.at


Open = Callable[[str], holdfast.Holdfast]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Open:
    def make(name: str, agent_id: str = "ai:tester@here") -> holdfast.Holdfast:
        return holdfast.open(str(tmp_path / f"{name}.db"), agent_id=agent_id, now=clock)

    return make


@pytest.fixture
def rich(opened: Open, clock: Clock) -> holdfast.Holdfast:
    """A store with something of everything in it."""
    hold = opened("rich")
    short = hold.store(title="Standup", content="At nine.", tier="short", namespace="team/a")
    deploy = hold.store(
        title="Deploy day",
        content="[2026-01-02 10:00] Ann: We deploy on Tuesdays.",
        namespace="team/a",
        tags=["ops", "b"],
        metadata={"z": {"b": [1, 2.5, None], "a": "ü"}, "a": True},
        priority=9,
        confidence=0.25,
        kind="decision",
        citations=[{"uri": "uri:wiki", "accessed_at": "2026-01-01T00:00:00Z", "hash": "a" * 64}],
        source_uri="doc:handbook",
        source_span={"start": 1, "end": 9},
        valid_from="2026-01-01",
        category="learning",
    )
    secret = hold.store(title="Secret", content="Only mine.", scope="private", tier="long")
    hold.store(title="Theirs", content="Not mine.", scope="private", agent_id="ai:other@here", thread="t", place=3)
    hold.update(deploy.id, content="We deploy on Wednesdays.", expires_at=None)
    hold.link(source_id=deploy.id, target_id=secret.id, relation="derived_from")
    hold.link(source_id=secret.id, target_id=deploy.id, relation="contradicts")
    hold.kg_invalidate(source_id=secret.id, target_id=deploy.id, relation="contradicts")
    hold.entity_register(canonical_name="Ann Lee", namespace="people", aliases=["Annie", "A. Lee"])
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["search", "read"])
    hold.grant(id=secret.id, agent_id="ai:other@here", permission="read")
    hold.notify(target_agent_id="ai:other@here", title="Hello", payload="Are you there?", metadata={"n": 1})
    hold.namespace_set_standard(namespace="team", id=deploy.id)
    away = hold.store(title="Old news", content="No longer so.", tags=["old"])
    hold.link(source_id=deploy.id, target_id=away.id, relation="supersedes")
    hold.archive(ids=[away.id], reason="stale")
    gone = hold.store(title="Gone", content="Deleted again.")
    hold.delete(gone.id)
    hold.recall(context="deploy wednesdays")
    use.flush(hold.hold)
    clock.at += DAY
    hold.store(title="Standup", content="At ten now.", tier="short", namespace="team/a")
    assert hold.get(short.id).content == "At nine."
    return hold


def text_of(exported: dict[str, Any]) -> bytes:
    """An export as bytes, but for the moment it was made at."""
    return wire.encode({**exported, "exported_at": ""})


def take(hold: holdfast.Holdfast, envelope: Any, **options: Any) -> Any:
    return hold.call("import", {"envelope": envelope, **options})


def memory(**more: Any) -> dict[str, Any]:
    return {"id": "m-1", "title": "One", "content": "first", "tier": "long", "namespace": "elsewhere", **more}


def counts(answer: Any) -> tuple[int, int, int, int, int]:
    return answer.imported, answer.merged, answer.unchanged, answer.older, answer.rejected


def test_an_export_is_the_same_byte_for_byte_after_a_trip_through_a_fresh_store(
    rich: holdfast.Holdfast, opened: Open
) -> None:
    exported = rich.export()
    fresh = opened("fresh")
    answer = take(fresh, msgspec.json.decode(wire.encode(exported)))
    assert answer.errors == []
    assert text_of(fresh.export()) == text_of(exported)
    assert {
        name: len(exported[name]) for name in ("memories", "archived", "links", "entities", "agents", "grants")
    } == {"memories": 6, "archived": 1, "links": 3, "entities": 3, "agents": 1, "grants": 1}


def test_what_was_taken_in_is_journalled_found_and_whole(rich: holdfast.Holdfast, opened: Open) -> None:
    fresh = opened("fresh")
    take(fresh, rich.export())
    assert fresh.verify().intact
    assert fresh.hold.store.faults() == []
    assert fresh.recall(context="deploy wednesdays").memories[0].title == "Deploy day"
    assert fresh.list(namespace="team/a").count == 2
    assert {change.op for change in fresh.events(after=0).events} == {"import"}


def test_an_export_is_the_same_text_twice_with_its_keys_in_order_at_every_depth(rich: holdfast.Holdfast) -> None:
    exported = rich.export()
    assert text_of(rich.export()) == text_of(exported)
    assert wire.encode(exported) == msgspec.json.encode(exported, order="deterministic")


def test_an_export_has_the_head_that_readers_of_the_envelope_ask_for(rich: holdfast.Holdfast) -> None:
    exported = rich.export()
    assert exported["schema_version"] == "v1"
    assert exported["source"] == f"holdfast-v{holdfast.__version__}"
    assert exported["db_schema_version"] >= 7
    assert len(exported["exported_at"]) == len("2026-01-01T00:00:00.000Z")


def test_taking_in_ones_own_export_changes_nothing(rich: holdfast.Holdfast) -> None:
    exported, changes = rich.export(), rich.stats().changes
    for options in ({}, {"trust_source": False}, {"on_conflict": "error"}, {"on_conflict": "version"}):
        answer = take(rich, exported, **options)
        rejected = [one for one in answer.errors if one.array not in ("grants", "notices")]
        assert (answer.imported, answer.merged, rejected) == (0, 0, [])
    assert rich.stats().changes == changes
    assert text_of(rich.export()) == text_of(exported)


@pytest.mark.parametrize("trust_source", [True, False])
@pytest.mark.parametrize("on_conflict", ["merge", "error", "version"])
@pytest.mark.parametrize("preserve_timestamps", [True, False])
def test_taking_an_export_in_twice_changes_nothing_the_second_time(
    rich: holdfast.Holdfast, opened: Open, trust_source: bool, on_conflict: str, preserve_timestamps: bool
) -> None:
    options = {"trust_source": trust_source, "on_conflict": on_conflict, "preserve_timestamps": preserve_timestamps}
    fresh, exported = opened("fresh"), rich.export()
    fresh.store(title="Deploy day", content="My own view of it.", namespace="team/a")
    take(fresh, exported, **options)
    once, changes = fresh.export(), fresh.stats().changes
    again = take(fresh, exported, **options)
    assert (again.imported, again.merged) == (0, 0)
    assert fresh.stats().changes == changes
    assert text_of(fresh.export()) == text_of(once)


def test_private_memories_of_others_are_exported_to_an_administrator(rich: holdfast.Holdfast) -> None:
    assert "Theirs" in {row["title"] for row in rich.export()["memories"]}
    assert "Theirs" not in {row.title for row in rich.list().memories}


def test_a_key_confined_to_a_namespace_exports_only_that(rich: holdfast.Holdfast) -> None:
    confined = Caller(agent="ai:admin@here", namespaces=("team",))
    exported = rich.call("export", {}, caller=confined)
    assert {row["namespace"] for row in exported["memories"]} == {"team/a"}
    assert [row["namespace"] for row in exported["namespaces"]] == ["team", "team/a"]
    assert (exported["links"], exported["notices"], exported["grants"], exported["agents"]) == ([], [], [], [])


def test_an_export_of_a_namespace_has_what_lies_below_it(rich: holdfast.Holdfast) -> None:
    assert {row["title"] for row in rich.export(namespace="team")["memories"]} == {"Standup", "Deploy day"}


def test_export_and_import_need_an_administrator(hold: holdfast.Holdfast) -> None:
    for name, arguments in (("export", {}), ("import", {"envelope": {"memories": []}})):
        with pytest.raises(holdfast.HoldfastError) as refused:
            hold.call(name, arguments, caller=Caller(agent="ai:writer@here", right="write"))
        assert refused.value.code == "FORBIDDEN"


def test_the_simple_form_can_be_taken_in_too(rich: holdfast.Holdfast, opened: Open) -> None:
    simple = rich.export(simple=True)
    assert set(simple) == {"memories", "links", "count", "exported_at"}
    fresh = opened("fresh")
    assert counts(take(fresh, simple)) == (6, 0, 0, 0, 0)
    assert fresh.export(simple=True)["links"] == simple["links"]


FOREIGN: dict[str, Any] = {
    "schema_version": "v1",
    "source": "ai-memory-v0.7.0",
    "exported_at": "2026-05-01T00:00:00.000Z",
    "db_schema_version": 54,
    "future_flag": {"deep": [1, {"er": None}]},
    "conversations": [{"id": "c1"}, {"id": "c2"}],
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


def test_another_programs_export_is_read_and_what_we_do_not_know_of_it_is_written_again(opened: Open) -> None:
    hold = opened("foreign")
    answer = take(hold, FOREIGN)
    assert (counts(answer), answer.errors) == ((3, 0, 0, 0, 0), [])
    assert answer.kept == ["conversations", "future_flag"]
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


def test_another_programs_export_makes_the_whole_trip_unchanged_from_then_on(opened: Open) -> None:
    first, second = opened("first"), opened("second")
    take(first, FOREIGN)
    assert (take(first, FOREIGN).unchanged, first.stats().changes) == (3, 7)
    exported = first.export()
    take(second, exported)
    assert text_of(second.export()) == text_of(exported)


def test_a_foreign_memory_is_an_ordinary_one_here(opened: Open) -> None:
    hold = opened("foreign")
    take(hold, FOREIGN)
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
        "2026-04-03T10:00:00.000000Z",
    )
    assert (put_away.agent_id, put_away.metadata) == ("ai:tester@here", {"imported_from_agent_id": "system"})


def test_a_first_form_is_not_written_any_more_once_we_know_better(opened: Open) -> None:
    hold = opened("foreign")
    take(hold, FOREIGN)
    hold.update("m-1", kind="lesson", citations=[])
    row = next(row for row in hold.export()["memories"] if row["id"] == "m-1")
    assert (row["memory_kind"], row["citations"], row["source"]) == ("lesson", [], "mine-slack")


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
def test_what_is_no_envelope_that_we_read_is_refused(hold: holdfast.Holdfast, envelope: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        take(hold, envelope)
    assert refused.value.details == {"fields": [field]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"content": " "}, "content: must not be empty"),
        ({"title": "x" * 513}, "title: at most 512 bytes, got 513"),
        ({"priority": 11}, "priority: must be between 1 and 10, got 11"),
        ({"tier": "eternal"}, "tier: Invalid enum value 'eternal'"),
        ({"created_at": "yesterday"}, "created_at: not a time: write it as 2026-01-31T09:00:00Z or 2026-01-31"),
        ({"id": "../etc"}, "id: Expected `str` matching regex"),
        ({"version": 0}, "version: Expected `int` >= 1"),
        ({"namespace": "a//b"}, "namespace: no empty, . or .. segments, and no / at either end"),
        ({"metadata": {"agent_id": "no blanks"}}, "metadata.agent_id: an agent id has 1 to 128 letters"),
        ({"metadata": {"scope": "galaxy"}}, "metadata.scope: must be one of"),
        ({"unknown": "a\x00b"}, "unknown: must not contain NUL"),
        ({"unknown": "x" * 300_000}, "unknown fields: at most 262144 bytes as JSON"),
        ({"confidence": float("nan")}, "confidence: numbers must be finite"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_rejected_row_is_named_and_all_others_go_in(hold: holdfast.Holdfast, wrong: Any, said: str) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(20)]
    rows[7] |= wrong
    answer = take(hold, {"memories": rows})
    assert counts(answer) == (19, 0, 0, 0, 1)
    (error,) = answer.errors
    assert (error.array, error.index, error.code) == ("memories", 7, "VALIDATION_FAILED")
    assert error.error.startswith(said)
    assert hold.stats().total == 19


@pytest.mark.parametrize("row", [None, 5, "text", [], {}], ids=repr)
def test_a_row_that_is_no_row_is_named(hold: holdfast.Holdfast, row: Any) -> None:
    arrays = ("memories", "archived", "agents", "entities", "links", "namespaces", "grants", "notices")
    answer = take(hold, {name: [row] for name in arrays})
    assert [(error.array, error.code) for error in answer.errors] == [(name, "VALIDATION_FAILED") for name in arrays]


def test_links_to_themselves_or_to_nothing_are_named(hold: holdfast.Holdfast) -> None:
    links = [
        ("m-1", "m-1", "related_to"),
        ("m-1", "m-9", "related_to"),
        ("m-9", "m-1", "related_to"),
        ("m-1", "m-2", "x"),
    ]
    rows = [{"source_id": source, "target_id": target, "relation": relation} for source, target, relation in links]
    answer = take(hold, {"memories": [memory(), memory(id="m-2", title="Two")], "links": rows})
    assert [(error.index, error.code, error.error) for error in answer.errors] == [
        (0, "VALIDATION_FAILED", "target_id: a memory is not linked to itself"),
        (1, "NOT_FOUND", "target_id: there is no memory 'm-9'."),
        (2, "NOT_FOUND", "source_id: there is no memory 'm-9'."),
        (3, "VALIDATION_FAILED", "relation: Invalid enum value 'x'"),
    ]


def test_links_that_run_in_a_circle_are_taken_in(hold: holdfast.Holdfast) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(3)]
    circle = [
        {"source_id": f"m-{number}", "target_id": f"m-{(number + 1) % 3}", "relation": "related_to"}
        for number in range(3)
    ]
    assert take(hold, {"memories": rows, "links": circle}).arrays["links"].imported == 3


def test_nothing_that_is_taken_in_reflects_on_itself(hold: holdfast.Holdfast) -> None:
    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(3)]
    circle = [
        {"source_id": f"m-{number}", "target_id": f"m-{(number + 1) % 3}", "relation": "reflects_on"}
        for number in range(3)
    ]
    answer = take(hold, {"memories": rows, "links": circle})
    assert [(error.array, error.index, error.code) for error in answer.errors] == [("links", 2, "CONFLICT")]


def test_a_taken_title_is_refused_merged_or_numbered_as_asked(opened: Open) -> None:
    envelope = {"memories": [memory(tags=["new"])], "links": []}
    seen = {}
    for on_conflict in ("error", "merge", "version"):
        hold = opened(on_conflict)
        kept = hold.store(title="One", content="mine", namespace="elsewhere", tags=["old"])
        answer = take(hold, envelope, on_conflict=on_conflict)
        seen[on_conflict] = (
            counts(answer),
            [error.code for error in answer.errors],
            {(row.id == kept.id, row.title, row.content, tuple(row.tags)) for row in hold.list().memories},
        )
    assert seen == {
        "error": ((0, 0, 0, 0, 1), ["TITLE_TAKEN"], {(True, "One", "mine", ("old",))}),
        "merge": ((0, 1, 0, 0, 0), [], {(True, "One", "first", ("old", "new"))}),
        "version": ((1, 0, 0, 0, 0), [], {(True, "One", "mine", ("old",)), (False, "One (2)", "first", ("new",))}),
    }


def test_what_points_to_a_memory_that_was_merged_points_to_the_one_it_became(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="One", content="mine", namespace="elsewhere")
    link = {"source_id": "m-2", "target_id": "m-1", "relation": "supersedes"}
    take(hold, {"memories": [memory(), memory(id="m-2", title="Two")], "links": [link]})
    assert [(one.source_id, one.target_id) for one in hold.get("m-2").links] == [("m-2", kept.id)]


def test_a_private_memory_is_never_merged_into_one_that_others_see(hold: holdfast.Holdfast) -> None:
    hold.store(title="One", content="mine", namespace="elsewhere")
    answer = take(hold, {"memories": [memory(metadata={"scope": "private"})]})
    assert [error.code for error in answer.errors] == ["TITLE_TAKEN"]
    assert hold.list().memories[0].content == "mine"


def test_the_later_state_of_a_memory_stays_whichever_side_it_is_on(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    before = hold.export()
    hold.update(first.id, content="second")
    after = hold.export()
    assert counts(take(hold, before)) == (0, 0, 0, 1, 0)
    assert hold.get(first.id).content == "second"
    hold.undo(change=2)
    after["memories"][0]["updated_at"] = "2999-01-01T00:00:00Z"
    assert counts(take(hold, after)) == (0, 1, 0, 0, 0)
    assert hold.get(first.id).content == "second"


def test_an_edit_made_in_the_file_is_taken_in(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    exported = hold.export()
    exported["memories"][0]["content"] = "edited by hand"
    assert counts(take(hold, exported)) == (0, 1, 0, 0, 0)
    changed = hold.get(first.id)
    assert (changed.content, changed.version) == ("edited by hand", 2)
    assert hold.verify().intact


def test_a_deleted_memory_comes_back(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    exported = hold.export()
    hold.delete(first.id)
    assert counts(take(hold, exported)) == (0, 1, 0, 0, 0)
    assert hold.get(first.id).content == "first"


def test_a_revoked_grant_stays_revoked(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first", scope="private")
    hold.grant(id=first.id, agent_id="ai:other@here")
    exported = hold.export()
    hold.revoke(id=first.id, agent_id="ai:other@here")
    assert take(hold, exported).arrays["grants"].older == 1
    assert hold.export()["grants"] == []


def test_memories_of_an_untrusted_source_become_the_importers(rich: holdfast.Holdfast, opened: Open) -> None:
    fresh = opened("fresh", "ai:importer@here")  # type: ignore[call-arg]
    answer = take(fresh, rich.export(), trust_source=False)
    assert (answer.imported, answer.restamped, answer.trusted_source) == (7, 7, False)
    assert {error.array for error in answer.errors} == {"grants", "notices"}
    rows = fresh.export()["memories"]
    assert {row["metadata"]["agent_id"] for row in rows} == {"ai:importer@here"}
    assert {row["metadata"]["imported_from_agent_id"] for row in rows} == {"ai:tester@here", "ai:other@here"}


def test_an_expired_memory_is_taken_in_without_its_title(opened: Open, clock: Clock) -> None:
    hold = opened("expiry")
    hold.store(title="One", content="live", namespace="elsewhere")
    answer = take(hold, {"memories": [memory(tier="short", expires_at="2026-01-01T00:00:00Z")]})
    assert counts(answer) == (1, 0, 0, 0, 0)
    assert [(row.title, row.content) for row in hold.list().memories] == [("One", "live")]
    assert [row.content for row in hold.archive_list().archived] == ["first"]


def test_times_begin_anew_unless_they_are_to_be_kept(opened: Open, clock: Clock) -> None:
    hold = opened("times")
    take(hold, {"memories": [memory(created_at="2020-01-01T00:00:00Z", version=9)]}, preserve_timestamps=False)
    row = hold.get("m-1")
    assert (row.created_at[:4], row.version) == ("2026", 1)


def test_a_dry_run_says_the_same_and_leaves_nothing(rich: holdfast.Holdfast, opened: Open) -> None:
    fresh = opened("fresh")
    empty = text_of(fresh.export())
    rehearsed = take(fresh, {**rich.export(), "unknown": 1}, dry_run=True)
    assert text_of(fresh.export()) == empty
    done = take(fresh, {**rich.export(), "unknown": 1})
    assert msgspec.structs.replace(rehearsed, dry_run=False) == done


def test_an_import_that_is_given_up_leaves_nothing(hold: holdfast.Holdfast) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done >= 100:
            raise Cancelled

    rows = [memory(id=f"m-{number}", title=f"Title {number}") for number in range(150)]
    with pytest.raises(Cancelled):
        hold.call("import", {"envelope": {"memories": rows}}, progress=Progress(stop))
    assert hold.stats().total == 0


def test_a_body_that_is_an_envelope_needs_no_name_and_keeps_its_options_beside_it(hold: holdfast.Holdfast) -> None:
    answer = hold.call("import", {"memories": [memory()], "links": [], "mood": "good", "dry_run": True})
    assert (answer.imported, answer.kept, answer.dry_run) == (1, ["mood"], True)


def test_a_file_cut_off_anywhere_is_refused_and_nothing_changes(rich: holdfast.Holdfast, opened: Open) -> None:
    text = wire.encode(rich.export()).decode()
    fresh = opened("fresh")
    for end in range(0, len(text) - 1, 512):
        with pytest.raises(Invalid):
            fresh.call("import", from_words(REGISTRY["import"], {"envelope": [text[:end]]}))
    assert fresh.stats().changes == 0


def test_lists_that_we_do_not_know_grow_together(hold: holdfast.Holdfast) -> None:
    take(hold, {"memories": [], "tasks": [{"id": 1}, {"id": 2}]})
    take(hold, {"memories": [], "tasks": [{"id": 2}, {"id": 3}]})
    assert hold.export()["tasks"] == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_confined_key_takes_in_only_its_own_namespaces(hold: holdfast.Holdfast) -> None:
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
