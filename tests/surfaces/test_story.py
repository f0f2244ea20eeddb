"""A story of many operations has the same outcomes on every surface and on both engines."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from compare_surfaces import ON_POSTGRES, differences, open_surface
from four_surfaces import Json, Outcome, Surface, normalize
from story_steps import (
    KEY_STEPS,
    MODEL_STEPS,
    SKILL_STEPS,
    STEPS,
    SUBSCRIPTION_STEPS,
    VECTOR_STEPS,
    file_steps,
    kernex_steps,
    recover_steps,
    sync_steps,
)

import holdfast
from engines import Postgres
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import read_clock
from holdfast.operations import REGISTRY
from model_server import provider, repeating


class Story:
    """A sequence of steps on one surface: answers can be named and their parts used in later steps."""

    def __init__(self, asked: Surface) -> None:
        self._asked = asked
        self._named: dict[str, Any] = {}
        self.outcomes: list[tuple[str, Outcome]] = []
        self.done: set[str] = set()

    @property
    def answers(self) -> list[tuple[str, str | None, Any]]:
        return [(name, outcome.code, normalize(outcome.answer)) for name, outcome in self.outcomes]

    def ask(self, name: str, arguments: Json, keep: str = "") -> None:
        outcome = self._asked.ask(name, self._fill_in(arguments))
        self.outcomes.append((name, outcome))
        if outcome.error is None:
            self._named[keep] = outcome.answer
            self.done.add(name)

    def _fill_in(self, value: Any) -> Any:
        """Replace `$plan.id` by the id in the answer named `plan`."""
        match value:
            case dict():
                return {key: self._fill_in(item) for key, item in value.items()}
            case list():
                return [self._fill_in(item) for item in value]
            case str() if value.startswith("$"):
                kept, *path = value[1:].split(".")
                found = self._named[kept]
                for step in path:
                    found = found[int(step) if step.lstrip("-").isdigit() else step]
                return found
        return value


def run_story(
    place: str, folder: Path, steps: list[tuple[Any, ...]] = STEPS, postgres: Postgres | None = None
) -> Story:
    with open_surface(place, folder / place, postgres) as opened:
        story = Story(opened)
        for name, arguments, *keep in steps:
            story.ask(name, arguments, *keep)
    return story


def list_deviations(place: str, story: Story, expected: Story) -> list[tuple[str, str]]:
    """Return the steps with other outcomes than in the library on SQLite."""
    return [
        (name, difference)
        for (name, one), (_, other) in zip(expected.outcomes, story.outcomes, strict=True)
        for difference in differences(place, name, one, other, one.code)
    ]


@pytest.fixture(scope="module")
def library_story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOLDFAST_EMBEDDER", "none")
        return run_story("library", tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("place", ["cli", "http", "mcp", ON_POSTGRES])
def test_a_story_has_the_same_outcomes_on_every_surface(
    postgres: Postgres, tmp_path: Path, library_story: Story, place: str
) -> None:
    assert list_deviations(place, run_story(place, tmp_path, STEPS, postgres), library_story) == []


@pytest.mark.usefixtures("vectors_made")
@pytest.mark.parametrize("place", ["library", "cli", "http", "mcp", ON_POSTGRES])
def test_embeddings_are_computed_on_every_surface(postgres: Postgres, tmp_path: Path, place: str) -> None:
    story = run_story(place, tmp_path, VECTOR_STEPS, postgres)
    assert [code for _, code, _ in story.answers] == [None, None, None]
    recalled = story.answers[-1][2]
    assert (recalled["count"], recalled["mode"]) == (1, "hybrid")


@pytest.mark.parametrize("place", ["library", "cli", "http", ON_POSTGRES])
def test_a_subscription_is_created_and_ended_on_every_surface_that_has_it(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_NETWORKS", "127.0.0.0/8")
    answers = run_story(place, tmp_path, SUBSCRIPTION_STEPS, postgres).answers
    assert [code for _, code, _ in answers] == [None] * 5 + ["NOT_FOUND"]
    assert (answers[3][2]["ok"], answers[3][2]["error"]) == (False, "127.0.0.1:1 cannot be reached.")


OTHER_PLACES = pytest.mark.parametrize("place", ["cli", ON_POSTGRES])
"""For what is neither on HTTP nor on MCP."""


@pytest.mark.parametrize("place", ["library", "cli", "http", "mcp", ON_POSTGRES])
def test_a_model_is_tested_and_billed_on_every_surface(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with provider(repeating) as models:
        for name, value in {"LLM": "ollama", "LLM_URL": models.url, "LLM_MODEL": "m", "LLM_KEY": "sk-hunter2"}.items():
            monkeypatch.setenv(f"HOLDFAST_{name}", value)
        (_, _, tried), (_, _, used) = run_story(place, tmp_path, MODEL_STEPS, postgres).answers
    assert (tried["status"], tried["provider"], tried["answered_by"]) == ("ok", "ollama", "m-1")
    assert (tried["reachable"], tried["json"], tried["left_today"]) == (True, True, 999_850)
    assert [(one["task"], one["answered"], one["spent_tokens"]) for one in used["usage"]] == [("test", 1, 150)]
    assert "hunter2" not in json.dumps([tried, used])


@OTHER_PLACES
def test_keys_are_created_and_revoked_the_same_way(postgres: Postgres, tmp_path: Path, place: str) -> None:
    """Over HTTP the first key locks out callers without one."""
    library = run_story("library", tmp_path, KEY_STEPS)
    assert [code for _, code, _ in library.answers] == [None, "VALIDATION_FAILED", None, "NOT_FOUND", None]
    assert list_deviations(place, run_story(place, tmp_path, KEY_STEPS, postgres), library) == []


@OTHER_PLACES
def test_reflections_are_exported_to_files_and_imported_the_same_way(
    postgres: Postgres, tmp_path: Path, place: str
) -> None:
    """Other surfaces have no access to local folders."""
    library = run_story("library", tmp_path, file_steps(tmp_path / "by-library"))
    assert [code for _, code, _ in library.answers] == [None] * 7
    there = run_story(place, tmp_path, file_steps(tmp_path / "by-other"), postgres)
    assert list_deviations(place, there, library) == []


@OTHER_PLACES
def test_a_transcript_is_recovered_the_same_way(postgres: Postgres, tmp_path: Path, place: str) -> None:
    path = tmp_path / "s-1.jsonl"
    entry = {"type": "user", "uuid": "u-1", "sessionId": "s-1", "message": {"role": "user", "content": "Mend it."}}
    path.write_text(json.dumps(entry) + "\n")
    library = run_story("library", tmp_path, recover_steps(path))
    assert [(code, answer["imported"], answer["unchanged"]) for _, code, answer in library.answers] == [
        (None, 1, 0),
        (None, 0, 1),
    ]
    assert list_deviations(place, run_story(place, tmp_path, recover_steps(path), postgres), library) == []


@OTHER_PLACES
def test_a_kernex_store_is_imported_the_same_way(postgres: Postgres, tmp_path: Path, place: str) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("create table conversations (id, channel, sender_id, started_at, updated_at)")
        file.execute("create table messages (id, conversation_id, role, content, timestamp)")
        file.execute("insert into conversations values ('c-1', 'cli', 'ann', '2026-01-01', '2026-01-01')")
        file.execute("insert into messages values ('m-1', 'c-1', 'user', 'Mend it.', '2026-01-01')")
    library = run_story("library", tmp_path, kernex_steps(path))
    assert [(code, answer["stored"]) for _, code, answer in library.answers] == [(None, 2), (None, 0)]
    assert list_deviations(place, run_story(place, tmp_path, kernex_steps(path), postgres), library) == []


@pytest.mark.parametrize("place", ["library", "cli", ON_POSTGRES])
def test_two_stores_are_synced_on_every_surface(postgres: Postgres, tmp_path: Path, place: str) -> None:
    other = tmp_path / "other.db"
    with holdfast.open(str(other)) as there:
        there.store(title="Port", content="It is 9090.")
    with holdfast.open(str(other), now=lambda: read_clock() + 30 * moment.DAY) as ahead:
        ahead.store(title="Later", content="It will be.")
        ahead.sync_export_bundle(file=f"{other}.bundle")
    story = run_story(place, tmp_path, sync_steps(other), postgres)
    assert [(name, code) for name, code, _ in story.answers if code] == []


@pytest.mark.parametrize("place", ["cli", "http", "mcp", ON_POSTGRES])
def test_skills_are_created_and_deleted_the_same_way_on_every_surface(
    postgres: Postgres, tmp_path: Path, place: str
) -> None:
    library = run_story("library", tmp_path, SKILL_STEPS)
    assert [name for name, code, _ in library.answers if code] == ["skill_resource", "skill_rollback", "skill_get"]
    assert list_deviations(place, run_story(place, tmp_path, SKILL_STEPS, postgres), library) == []


def test_the_story_has_the_outcomes_a_user_expects(library_story: Story) -> None:
    assert [(name, code) for name, code, _ in library_story.answers if code] == [
        ("store", "TITLE_TAKEN"),
        ("get", "NOT_FOUND"),
        ("get", "AMBIGUOUS_ID_PREFIX"),
        ("update", "VERSION_CONFLICT"),
        ("update", "VALIDATION_FAILED"),
        ("feedback", "VALIDATION_FAILED"),
        ("link", "VALIDATION_FAILED"),
        ("undo", "CHANGED_SINCE"),
        ("undo", "CHANGED_SINCE"),
        ("grant", "VALIDATION_FAILED"),
        ("reflect", "TITLE_TAKEN"),
        ("reflect", "VALIDATION_FAILED"),
        ("pending_approve", "CONFLICT"),
        ("link", "REFLECTION_CYCLE_DETECTED"),
        ("delete", "VERSION_CONFLICT"),
        ("get", "NOT_FOUND"),
        ("auto_tag", "VERSION_CONFLICT"),
        ("atomise", "ALREADY_ATOMISED"),
        ("task_finish", "LEASE_LOST"),
        ("usage_reserve", "BUDGET_EXCEEDED"),
    ]


def test_every_operation_succeeds_in_an_example_or_in_the_story(library_story: Story) -> None:
    exemplified = {op.name for op in REGISTRY for example in op.examples if not (example.error or example.prepared)}
    done = library_story.done | {
        name
        for name, *_ in (
            *KEY_STEPS,
            *MODEL_STEPS,
            *VECTOR_STEPS,
            *SKILL_STEPS,
            *SUBSCRIPTION_STEPS,
            *file_steps(Path()),
            *recover_steps(Path()),
            *kernex_steps(Path()),
            *sync_steps(Path()),
        )
    }
    assert {op.name for op in REGISTRY} - exemplified - done == set()
