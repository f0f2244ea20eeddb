"""Export and import: no loss, and a second import changes nothing."""

import msgspec
import pytest
from envelopes import Open, counts, import_envelope, text_of

import holdfast
from holdfast.kernel.context import Caller
from holdfast.surfaces import error_responses


def test_an_export_is_byte_identical_after_a_round_trip_through_a_fresh_store(
    rich: holdfast.Holdfast, open_store: Open
) -> None:
    exported = rich.export()
    fresh = open_store("fresh")
    answer = import_envelope(fresh, msgspec.json.decode(error_responses.encode(exported)))
    assert answer.errors == []
    assert text_of(fresh.export()) == text_of(exported)
    assert {
        name: len(exported[name]) for name in ("memories", "archived", "links", "entities", "agents", "grants")
    } == {"memories": 6, "archived": 1, "links": 3, "entities": 3, "agents": 1, "grants": 1}


def test_imported_data_is_journalled_searchable_and_complete(rich: holdfast.Holdfast, open_store: Open) -> None:
    fresh = open_store("fresh")
    import_envelope(fresh, rich.export())
    assert fresh.verify().intact
    assert fresh.ctx.store.faults() == []
    assert fresh.recall(context="deploy wednesdays").memories[0].title == "Deploy day"
    assert fresh.list(namespace="team/a").count == 2
    assert {change.op for change in fresh.events(after=0).events} == {"import"}


def test_repeated_exports_are_identical_with_sorted_keys(rich: holdfast.Holdfast) -> None:
    exported = rich.export()
    assert text_of(rich.export()) == text_of(exported)
    assert error_responses.encode(exported) == msgspec.json.encode(exported, order="deterministic")


def test_an_export_has_the_header_required_by_the_envelope(rich: holdfast.Holdfast) -> None:
    exported = rich.export()
    assert exported["schema_version"] == "v1"
    assert exported["source"] == f"holdfast-v{holdfast.__version__}"
    assert exported["db_schema_version"] >= 7
    assert len(exported["exported_at"]) == len("2026-01-01T00:00:00.000Z")


def test_importing_ones_own_export_changes_nothing(rich: holdfast.Holdfast) -> None:
    exported, changes = rich.export(), rich.stats().changes
    for options in ({}, {"trust_source": False}, {"on_conflict": "error"}, {"on_conflict": "version"}):
        answer = import_envelope(rich, exported, **options)
        rejected = [one for one in answer.errors if one.array not in ("grants", "notices")]
        assert (answer.imported, answer.merged, rejected) == (0, 0, [])
    assert rich.stats().changes == changes
    assert text_of(rich.export()) == text_of(exported)


@pytest.mark.parametrize("trust_source", [True, False])
@pytest.mark.parametrize("on_conflict", ["merge", "error", "version"])
@pytest.mark.parametrize("preserve_timestamps", [True, False])
def test_importing_an_export_twice_changes_nothing_the_second_time(
    rich: holdfast.Holdfast, open_store: Open, trust_source: bool, on_conflict: str, preserve_timestamps: bool
) -> None:
    options = {"trust_source": trust_source, "on_conflict": on_conflict, "preserve_timestamps": preserve_timestamps}
    fresh, exported = open_store("fresh"), rich.export()
    fresh.store(title="Deploy day", content="My own view of it.", namespace="team/a")
    import_envelope(fresh, exported, **options)
    once, changes = fresh.export(), fresh.stats().changes
    again = import_envelope(fresh, exported, **options)
    assert (again.imported, again.merged) == (0, 0)
    assert fresh.stats().changes == changes
    assert text_of(fresh.export()) == text_of(once)


def test_private_memories_of_others_are_exported_to_an_administrator(rich: holdfast.Holdfast) -> None:
    assert "Theirs" in {row["title"] for row in rich.export()["memories"]}
    assert "Theirs" not in {row.title for row in rich.list().memories}


def test_a_key_limited_to_a_namespace_exports_only_that(rich: holdfast.Holdfast) -> None:
    confined = Caller(agent="ai:admin@here", namespaces=("team",))
    exported = rich.call("export", {}, caller=confined)
    assert {row["namespace"] for row in exported["memories"]} == {"team/a"}
    assert [row["namespace"] for row in exported["namespaces"]] == ["team", "team/a"]
    assert (exported["links"], exported["notices"], exported["grants"], exported["agents"]) == ([], [], [], [])


def test_an_export_of_a_namespace_includes_its_children(rich: holdfast.Holdfast) -> None:
    assert {row["title"] for row in rich.export(namespace="team")["memories"]} == {"Standup", "Deploy day"}


def test_export_and_import_require_an_administrator(hold: holdfast.Holdfast) -> None:
    for name, arguments in (("export", {}), ("import", {"envelope": {"memories": []}})):
        with pytest.raises(holdfast.HoldfastError) as refused:
            hold.call(name, arguments, caller=Caller(agent="ai:writer@here", right="write"))
        assert refused.value.code == "FORBIDDEN"


def test_the_simple_format_can_be_imported_too(rich: holdfast.Holdfast, open_store: Open) -> None:
    simple = rich.export(simple=True)
    assert set(simple) == {"memories", "links", "count", "exported_at"}
    fresh = open_store("fresh")
    assert counts(import_envelope(fresh, simple)) == (6, 0, 0, 0, 0)
    assert fresh.export(simple=True)["links"] == simple["links"]
