"""Every operation gives the same answer or error code on every surface and on both engines."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from engine_pair import comparable
from four_surfaces import AGENT, Json, Outcome, Surface, list_differences, normalize, surface, within

import holdfast
from engines import Postgres
from holdfast.features.sync.peers.token import PeerToken, format_token
from holdfast.kernel import timestamps as moment
from holdfast.kernel.registry.operation import SURFACES, Example
from holdfast.operations import REGISTRY, Effect, Operation
from model_server import provider, repeating

ON_POSTGRES = "the library on PostgreSQL"
"""A place like the surfaces, all of which are tried on SQLite: what an engine does is the same behind each of them."""


class ExampleCase(NamedTuple):
    op: Operation
    example: Example
    number: int

    @property
    def name(self) -> str:
        return f"{self.op.name}-{self.number}"

    @property
    def surfaces(self) -> frozenset[str]:
        """Return all operations with these fields."""
        return self.op.surfaces - {
            which for name in self.example.arguments for which in self.op.field_option(name, "not_on", ())
        }

    @property
    def writes(self) -> bool:
        return self.op.effect is not Effect.READ and self.example.error is None


EXAMPLES = [ExampleCase(op, example, number) for op in REGISTRY for number, example in enumerate(op.examples)]


@contextmanager
def open_surface(place: str, folder: Path, postgres: Postgres | None = None) -> Iterator[Surface]:
    """Yield a surface over a new SQLite store, or the library over a PostgreSQL one."""
    if place != ON_POSTGRES:
        with surface(place, folder) as found:
            yield found
    else:
        assert postgres
        with surface("library", folder, postgres) as found:
            yield found


def ask_all(
    place: str, examples: list[ExampleCase], folder: Path, postgres: Postgres | None = None
) -> dict[str, Outcome]:
    """Return the answer to each example on an empty store; reading ones share a store."""
    outcomes: dict[str, Outcome] = {}
    with open_surface(place, folder / place, postgres) as shared:
        before = shared.ask("export", {})
        for asked in examples:
            question = asked.op.name, dict(asked.example.arguments)
            if asked.writes:
                with open_surface(place, folder / f"{place}-{asked.name}", postgres) as own:
                    outcomes[asked.name] = own.ask(*question)
            else:
                outcomes[asked.name] = shared.ask(*question)
        assert normalize(shared.ask("export", {})) == normalize(before)
    return outcomes


def test_an_example_has_one_outcome_on_every_surface(tmp_path: Path) -> None:
    outcomes = {
        which: ask_all(which, [asked for asked in EXAMPLES if which in asked.surfaces], tmp_path) for which in SURFACES
    }
    differing = [
        (asked.name, which, difference)
        for asked in EXAMPLES
        for which in sorted(asked.surfaces)
        for difference in differences(
            which, asked.op.name, outcomes["library"][asked.name], outcomes[which][asked.name], asked.example.error
        )
    ]
    assert differing == []


def differences(place: str, name: str, expected: Outcome, found: Outcome, code: str | None) -> list[str]:
    """Differences between the library on SQLite and another place; HTTP answers may contain more."""
    if found.code != code:
        return [f"{code} became {found.code}: {found.error}"]
    if place == ON_POSTGRES and name == "doctor":
        return []  # it reports the setup of the engine
    if place == ON_POSTGRES:
        return list(list_differences(comparable(expected), comparable(found)))
    one, other = normalize(expected.answer), normalize(found.answer)
    return [] if place == "http" and within(one, other) else list(list_differences(one, other))


def test_an_example_has_one_outcome_on_both_engines(postgres: Postgres, tmp_path: Path) -> None:
    on_sqlite, on_postgres = (ask_all(place, EXAMPLES, tmp_path, postgres) for place in ("library", ON_POSTGRES))
    differing = [
        (asked.name, difference)
        for asked in EXAMPLES
        for difference in differences(
            ON_POSTGRES, asked.op.name, on_sqlite[asked.name], on_postgres[asked.name], asked.example.error
        )
    ]
    assert differing == []


def test_every_operation_has_an_example_and_a_failing_one_if_it_can_fail() -> None:
    assert [op.name for op in REGISTRY if not op.examples] == []
    assert [op.name for op in REGISTRY if op.fields and not any(example.error for example in op.examples)] == []


def test_every_operation_is_on_every_surface_unless_listed() -> None:
    """The secret of a new key is for a person, not for a model's context; addresses and paths are for neither."""
    assert {op.name: set(SURFACES) - op.surfaces for op in REGISTRY if op.surfaces != set(SURFACES)} == {
        "key_create": {"mcp"},
        "subscribe": {"mcp"},
        "migrate": {"http", "mcp"},
        **{key: {"http", "mcp"} for key in ("hooks_list", "hooks_test")},
        "export_reflections": {"http", "mcp"},
        "import_reflections": {"http", "mcp"},
        **{key: {"http", "mcp"} for key in ("import_kernex", "export_file", "import_file")},
        "recover": {"http", "mcp"},
        "project_which": {"http", "mcp"},
        "boot": {"cli"},  # a separate command, which detects the project of a folder and never fails
        "sync": {"http", "mcp"},
        **{key: {"cli", "mcp"} for key in ("peer_hello", "peer_feed", "peer_take", "sync_push", "sync_since")},
        **{key: {"http", "mcp"} for key in ("sync_export_bundle", "sync_import_bundle", "peer_certificate")},
        **{key: {"mcp"} for key in ("compact", "peer_token", "peer_add", "peer_list", "peer_set", "peer_remove")},
    }


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


POOL = "The connection pool keeps ten connections for all of the workers of the server."
CURATING: list[tuple[Any, ...]] = [
    ("store", {"title": "Pool", "content": POOL, "namespace": "zoo"}, "pool"),
    ("store", {"title": "Connections", "content": POOL.replace("all of the", "the"), "namespace": "zoo"}),
    ("store", {"title": "Workers", "content": POOL.replace("ten", "nine"), "namespace": "zoo"}, "other"),
    ("auto_tag", {"id": "$other.id"}),
    ("auto_tag", {"id": "$other.id", "apply": True, "expected_version": 9}),
    ("expand_query", {"query": "pool", "namespace": "zoo"}),
    ("detect_contradiction", {"id_a": "$pool.id", "id_b": "$other.id"}),
    ("curate", {"include_namespace": ["zoo"]}),
    ("curate", {"apply": True, "include_namespace": ["zoo"], "max_seconds": 60}, "run"),
    ("curate_runs", {}),
    ("curate_proposals", {}, "proposed"),
    ("curate_decide", {"ids": ["$proposed.proposals.0.id", "no-such-proposal"], "decision": "accept"}),
    ("curate_rollback", {"run_id": "$run.run_id"}),
    ("persona_generate", {"entity_id": "pool", "namespace": "zoo"}),
    ("persona", {"entity_id": "pool", "namespace": "zoo"}),
    ("store", {"title": "Report", "content": " ".join([POOL] * 9), "namespace": "zoo"}, "report"),
    ("atomise", {"memory_id": "$report.id", "max_atom_tokens": 60}),
    ("atomise", {"memory_id": "$report.id"}),
]

OF_AGENTS: list[tuple[Any, ...]] = [
    ("principal_merge", {"alias": "slack:U42", "principal": "ann"}),
    ("principal_show", {"name": "slack:U42"}),
    ("principal_list", {}),
    ("principal_split", {"alias": "slack:U42"}),
    ("fact_set", {"key": "city", "value": "Berlin", "principal": "ann"}),
    ("fact_set", {"key": "city", "value": "Hamburg", "principal": "ann", "confidence": 0.5}),
    ("fact_get", {"key": "city", "principal": "ann"}),
    ("fact_history", {"key": "city", "principal": "ann"}),
    ("fact_delete", {"key": "city", "principal": "ann"}),
    ("fact_list", {"principal": "ann", "deleted": True}),
    ("fact_restore", {"key": "city", "principal": "ann"}),
    ("lesson_add", {"rule": "Taste the soup before it is served.", "domain": "kitchen"}, "lesson"),
    ("outcome_record", {"score": -1, "domain": "kitchen", "lesson_id": "$lesson.lesson.id", "what": "Salt."}),
    ("lesson_list", {"domain": "kitchen"}),
    ("observation_save", {"title": "Cold soup", "type": "discovery", "what": "The stove was off."}, "cold"),
    ("observation_update", {"id": "$cold.id", "why": "Nobody lit it."}),
    ("observation_search", {"query": "stove", "type": ["discovery"]}),
    ("limitation_add", {"title": "No oven"}, "oven"),
    ("limitation_resolve", {"id": "$oven.limitation.id", "how": "Bought one."}),
    ("limitation_list", {"status": "all"}),
    ("task_add", {"title": "Stir", "due_at": "2020-01-01", "repeat": "daily", "zone": "Europe/Berlin"}, "stir"),
    ("task_list", {"due": True}),
    ("task_claim", {"owner": "cook"}, "taken"),
    ("task_heartbeat", {"id": "$stir.task.id", "token": "$taken.claimed.0.token"}),
    ("task_finish", {"id": "$stir.task.id", "token": "$taken.claimed.0.token", "result": "stirred"}),
    ("task_finish", {"id": "$stir.task.id", "token": "$taken.claimed.0.token"}),
    ("task_runs", {"id": "$stir.task.id"}),
    ("task_update", {"id": "$stir.task.id", "title": "Stir well"}),
    ("task_defer", {"id": "$stir.task.id", "until": "2099-01-01"}),
    ("task_cancel", {"id": "$stir.task.id"}),
    ("task_show", {"id": "$stir.task.id"}),
    ("task_add", {"title": "Burn", "due_at": "2020-01-01", "max_attempts": 1}, "burn"),
    ("task_claim", {}, "taken"),
    ("task_finish", {"id": "$burn.task.id", "token": "$taken.claimed.0.token", "error": "burnt"}),
    ("task_retry", {"id": "$burn.task.id"}),
    ("price_set", {"model": "model-*", "input": "3", "output": "15"}),
    ("price_list", {}),
    ("budget_set", {"principal": "ann", "cost": "0.01"}),
    ("usage_reserve", {"model": "model-one", "output_tokens": 100, "principal": "ann"}, "held"),
    ("usage_reserve", {"model": "model-one", "output_tokens": 1000, "principal": "ann"}),
    (
        "usage_record",
        {"model": "model-one", "output_tokens": 90, "principal": "ann", "reservation": "$held.reservation"},
    ),
    ("usage_reserve", {"model": "model-one", "output_tokens": 1, "principal": "ann"}, "held"),
    ("usage_release", {"reservation": "$held.reservation"}),
    ("usage_report", {"by": ["principal", "model"]}),
    ("budget_list", {}),
    ("price_remove", {"model": "model-*"}),
    ("run_open", {"topology": "dinner", "phases": ["soup"], "id": "dinner-1", "inputs": {"guests": 3}}, "dinner"),
    ("run_step", {"id": "dinner-1", "token": "$dinner.token", "phase": "soup", "state": "in_progress"}),
    ("run_heartbeat", {"id": "dinner-1", "token": "$dinner.token"}),
    (
        "run_step",
        {"id": "dinner-1", "token": "$dinner.token", "phase": "soup", "state": "completed", "output": "eaten"},
    ),
    ("run_close", {"id": "dinner-1", "token": "$dinner.token"}),
    ("run_show", {"id": "dinner-1"}),
    ("run_list", {}),
    ("run_clear", {"id": "dinner-1"}),
    ("session_keep", {"session_id": "s-1", "provider": "p", "channel": "cli"}),
    ("session_get", {"channel": "cli"}),
    ("session_clear", {"channel": "cli"}),
    ("conversation_say", {"turns": [{"role": "user", "content": "Is the soup on?"}], "channel": "cli"}, "said"),
    ("conversation_show", {"id": "$said.conversation_id"}),
    ("build_context", {"message": "soup", "channel": "cli", "budget": 500, "parts": ["history", "tasks"]}),
    ("conversation_close", {"channel": "cli"}),
    ("conversation_list", {}),
    ("project_merge", {"project": "projects/a", "alias": "projects/b"}),
    ("project_list", {}),
    ("project_split", {"alias": "projects/b"}),
    ("conversation_consolidate", {"force": True}),
    ("interaction_record", {"status": "denied", "action": "oven", "reason": "Too hot.", "principal": "ann"}, "denied"),
    ("interaction_show", {"id": "$denied.id"}),
    ("interaction_list", {"status": ["denied", "ok"], "principal": ["ann"]}),
    ("interaction_erase", {"older_than_days": 0}),
    ("onboarding_tell", {"step": "introduce", "principal": "ann"}),
    ("onboarding_tell", {"step": "introduce", "principal": "ann"}),
    ("build_context", {"message": "shallow copy", "principal": "ann", "onboarding": True}),
    ("principal_purge", {"name": "ann"}),
    ("principal_forgotten", {"name": "ann"}),
]

STEPS: list[tuple[Any, ...]] = [
    (
        "store",
        {"title": "Plan", "content": "We deploy on Tuesdays.", "namespace": "team", "tags": ["ops", "day"]},
        "plan",
    ),
    ("store", {"title": "Lunch", "content": "Soup at noon.", "tier": "short", "scope": "private"}, "lunch"),
    ("store", {"title": "Plan", "content": "x", "namespace": "team", "on_conflict": "error"}),
    ("store", {"title": "Plan", "content": "We deploy on Wednesdays.", "namespace": "team", "on_conflict": "merge"}),
    ("bulk_store", {"memories": [{"title": "A", "content": "first"}, {"title": "B", "content": " "}]}, "bulk"),
    ("get", {"id": "$plan.id"}, "got"),
    ("get", {"id": "$plan.id", "known_at": "2000-01-01"}),
    ("get", {"id": "0"}),
    ("update", {"id": "$plan.id", "priority": 9, "expected_version": 2, "metadata": {"k": [1, None, True]}}, "edited"),
    ("update", {"id": "$plan.id", "priority": 1, "expected_version": 2}),
    ("update", {"id": "$plan.id", "expires_at": ""}),
    ("update", {"id": "$plan.id", "title": ""}),
    ("list", {"tags": ["ops", "day"], "min_priority": 9}),
    ("search", {"query": "deploy wednesdays", "namespace": "team"}),
    ("recall", {"context": "when do we deploy?", "limit": 3, "budget_tokens": 100, "kinds": ["observation", "fact"]}),
    ("recall", {"context": "nothing of the kind"}),
    ("recall", {"context": "when do we deploy?"}, "found"),
    ("feedback", {"recall_id": "$found.recall_id", "verdict": "used", "ids": ["$plan.id"]}),
    ("feedback", {"recall_id": "$found.recall_id", "verdicts": {"no-such-memory": "wrong"}}),
    ("why_not", {"id": "$lunch.id", "context": "soup", "namespace": "team"}),
    ("promote", {"id": "$lunch.id"}),
    ("link", {"source_id": "$plan.id", "target_id": "$lunch.id", "relation": "derived_from"}),
    ("link", {"source_id": "$plan.id", "target_id": "$plan.id"}),
    ("get_links", {"id": "$plan.id"}),
    ("kg_query", {"source_id": "$plan.id", "max_depth": 2}),
    ("kg_timeline", {"source_id": "$plan.id"}),
    ("find_paths", {"source_id": "$plan.id", "target_id": "$lunch.id"}),
    ("lineage", {"id": "$plan.id"}),
    ("graph", {"id": "$plan.id"}),
    ("dependents", {"id": "$lunch.id"}),
    ("dependents_of_invalidated", {"memory_id": "$lunch.id"}),
    ("kg_invalidate", {"source_id": "$plan.id", "target_id": "$lunch.id", "relation": "derived_from"}),
    ("invalidations", {"dependent_id": "$plan.id"}, "told"),
    ("invalidations_acknowledge", {"ids": ["$told.invalidations.0.id"], "reason": "seen"}),
    ("recall", {"context": "when do we deploy?"}),
    ("get", {"id": "$plan.id"}),
    ("list", {"namespace": "team/_invalidations"}),
    ("invalidations_resolve", {"ids": ["$told.invalidations.0.id"]}),
    ("invalidations_acknowledge", {"ids": ["$told.invalidations.0.id"]}),
    ("invalidations_dismiss", {"ids": ["$told.invalidations.0.id", "no-such-invalidation"], "reason": "still so"}),
    ("entity_register", {"canonical_name": "Ada", "namespace": "people", "aliases": ["Countess"]}),
    ("entity_get_by_alias", {"alias": "COUNTESS"}),
    ("namespace_set_standard", {"namespace": "team", "id": "$plan.id"}),
    ("namespace_get_standard", {"namespace": "team"}),
    ("namespace_clear_standard", {"namespace": "team"}),
    ("namespaces", {}),
    ("get_taxonomy", {}),
    ("check_duplicate", {"title": "Plan", "content": "We deploy on Wednesdays."}),
    ("history", {"id": "$plan.id"}, "past"),
    ("undo", {"change": "$past.changes.-1.seq"}),
    ("undo", {"change": "$past.changes.-1.seq"}),
    ("undo", {"change": 1}),
    ("events", {"after": 2, "limit": 3}),
    ("grant", {"id": "$lunch.id", "agent_id": "ai:scout@here", "permission": "write"}),
    ("grant", {"id": "$lunch.id", "agent_id": AGENT}),
    ("revoke", {"id": "$lunch.id", "agent_id": "ai:scout@here"}),
    ("agent_register", {"agent_id": "ai:scout@here", "agent_type": "ai:scout", "capabilities": ["search", "plan"]}),
    ("agent_list", {}),
    ("notify", {"target_agent_id": AGENT, "title": "Ping", "payload": "there?", "metadata": {"k": 1}}, "sent"),
    ("inbox", {"unread_only": True}),
    ("inbox_read", {"ids": ["$sent.id"]}),
    ("policy_set", {"namespace": "thinking", "require_approval_above_depth": 1, "self_approval": True}),
    ("policy_get", {"namespace": "thinking/hard"}),
    ("reflect", {"source_ids": ["$plan.id", "$lunch.id"], "title": "So", "content": "Soup on deploy days."}, "so"),
    ("reflect", {"source_ids": ["$plan.id"], "title": "So", "content": "x", "namespace": "team"}),
    ("reflect", {"source_ids": ["$plan.id", "$plan.id"], "title": "Twice", "content": "x"}),
    ("reflect", {"source_ids": ["$so.id"], "title": "Thus", "content": "Eat.", "namespace": "thinking"}, "asked"),
    ("pending_list", {"status": "pending"}),
    ("pending_reject", {"id": "$asked.pending_id", "reason": "too bold"}),
    ("reflect", {"source_ids": ["$so.id"], "title": "Thus", "content": "Eat.", "namespace": "thinking"}, "asked"),
    ("pending_approve", {"id": "$asked.pending_id"}, "thus"),
    ("pending_approve", {"id": "$asked.pending_id"}),
    ("reflection_origin", {"memory_id": "$thus.memory_id"}),
    ("export_reflection", {"memory_id": "$thus.memory_id"}),
    ("link", {"source_id": "$plan.id", "target_id": "$thus.memory_id", "relation": "reflects_on"}),
    *(("store", {"title": f"Rain {n}", "content": "It rained at noon.", "namespace": "sky"}) for n in range(3)),
    ("reflect_suggest", {"namespace": "sky"}, "proposed"),
    ("reflect_suggest", {"namespace": "sky"}),
    ("reflect_dismiss", {"offer_id": "$proposed.suggestions.0.offer_id"}),
    ("consolidate", {"ids": ["$plan.id", "$lunch.id"], "title": "Week", "summary": "Deploys and soup."}, "week"),
    ("delete", {"id": "$week.id", "expected_version": 9}),
    ("delete", {"id": "$week.id"}),
    ("get", {"id": "$week.id"}),
    ("archive", {"ids": ["$bulk.ids.0", "no-such-memory"], "reason": "done"}),
    ("archive_list", {}),
    ("archive_stats", {}),
    ("archive_restore", {"id": "$bulk.ids.0"}),
    ("forget", {"pattern": "first", "dry_run": True}),
    ("forget", {"pattern": "first"}),
    ("archive_purge", {"ids": ["$bulk.ids.0"]}),
    ("gc", {}),
    ("stats", {}),
    ("export", {"simple": True}, "all"),
    ("import", {"envelope": {"memories": [{"title": "In", "content": "from outside"}], "links": []}}),
    ("key_list", {}),
    ("backup", {}, "copy"),
    ("backup_list", {}),
    ("restore", {"from": "$copy.snapshot", "dry_run": True}),
    *CURATING,
    *OF_AGENTS,
    ("verify", {}),
    ("doctor", {}),
]


KEY_STEPS: list[tuple[Any, ...]] = [
    ("key_create", {"name": "laptop", "scope": "read", "namespaces": ["team/*"], "agent_id": "ai:scout@here"}, "key"),
    ("key_create", {"name": "laptop", "scope": "everything"}),
    ("key_revoke", {"id": "$key.id"}),
    ("key_revoke", {"id": "$key.id"}),
    ("key_list", {}),
]


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


VECTOR_STEPS: list[tuple[Any, ...]] = [
    ("store", {"title": "Stand-up", "content": "The team meets each morning in the blue room."}),
    ("reembed", {}),
    ("recall", {"context": "where is the daily gathering?"}),
]


@pytest.mark.usefixtures("vectors_made")
@pytest.mark.parametrize("place", ["library", "cli", "http", "mcp", ON_POSTGRES])
def test_embeddings_are_computed_on_every_surface(postgres: Postgres, tmp_path: Path, place: str) -> None:
    story = run_story(place, tmp_path, VECTOR_STEPS, postgres)
    assert [code for _, code, _ in story.answers] == [None, None, None]
    recalled = story.answers[-1][2]
    assert (recalled["count"], recalled["mode"]) == (1, "hybrid")


SUBSCRIPTION_STEPS: list[tuple[Any, ...]] = [
    ("subscribe", {"url": "https://127.0.0.1:1/hook", "secret": "0123456789abcdef"}, "hook"),
    ("subscription_list", {}),
    ("subscription_replay", {"id": "$hook.id", "since": 0}),
    ("subscription_test", {"id": "$hook.id"}),
    ("unsubscribe", {"id": "$hook.id"}),
    ("unsubscribe", {"id": "$hook.id"}),
]


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
MODEL_STEPS: list[tuple[Any, ...]] = [("llm_test", {}), ("llm_usage", {})]


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


def kernex_steps(path: Path) -> list[tuple[Any, ...]]:
    return [("import_kernex", {"path": str(path)}), ("import_kernex", {"path": str(path)})]


@pytest.mark.parametrize("place", ["library", "cli", ON_POSTGRES])
def test_two_stores_are_synced_on_every_surface(postgres: Postgres, tmp_path: Path, place: str) -> None:
    other = tmp_path / "other.db"
    with holdfast.open(str(other)) as there:
        there.store(title="Port", content="It is 9090.")
    with holdfast.open(str(other), now=lambda: moment.now() + 30 * moment.DAY) as ahead:
        ahead.store(title="Later", content="It will be.")
        ahead.sync_export_bundle(file=f"{other}.bundle")
    story = run_story(place, tmp_path, sync_steps(other), postgres)
    assert [(name, code) for name, code, _ in story.answers if code] == []


def sync_steps(other: Path) -> list[tuple[Any, ...]]:
    return [
        ("store", {"title": "Port", "content": "It is 8080."}),
        ("sync", {"remote": str(other)}),
        ("conflicts", {}, "found"),
        ("conflicts_show", {"id": "$found.conflicts.0.id"}),
        ("conflicts_resolve", {"id": "$found.conflicts.0.id", "keep": "mine"}),
        ("quarantine", {}, "aside"),
        ("quarantine_show", {"id": "$aside.quarantined.0.id"}),
        ("quarantine_retry", {"ids": ["$aside.quarantined.0.id"]}),
        ("quarantine_drop", {"ids": ["$aside.quarantined.0.id"]}),
        ("sync_export_bundle", {"file": f"{other}.mine"}),
        ("sync_import_bundle", {"file": f"{other}.bundle", "trust_sender": True}),
        ("peer_add", {"name": "desk", "token": format_token(PeerToken("elsewhere", bytes(32)))}),
        ("peer_set", {"name": "desk", "tell": ["team/**"]}),
        ("peer_remove", {"name": "desk"}),
        ("peer_certificate", {"name": "desk", "folder": f"{other}.certificates"}),
    ]


def recover_steps(path: Path) -> list[tuple[Any, ...]]:
    return [("recover", {"transcript": str(path)}), ("recover", {"transcript": str(path)})]


def file_steps(folder: Path) -> list[tuple[Any, ...]]:
    return [
        ("store", {"title": "Seen", "content": "It is so."}, "seen"),
        ("reflect", {"source_ids": ["$seen.id"], "title": "Thought", "content": "It will be so."}),
        ("export_reflections", {"out_dir": str(folder)}),
        ("import_reflections", {"path": str(folder), "dry_run": True}),
        ("import_reflections", {"path": str(folder)}),
        ("export_file", {"file": f"{folder}.json"}),
        ("import_file", {"file": f"{folder}.json"}),
    ]


SKILL = "---\nname: deploy\ndescription: How we deploy.\ncomposes_with_reflections:\n  - namespace: team\n---\nOn {}.\n"
SKILL_STEPS: list[tuple[Any, ...]] = [
    ("store", {"title": "Late", "content": "It was late.", "namespace": "team"}, "seen"),
    ("reflect", {"source_ids": ["$seen.id"], "title": "Too late", "content": "Deploy before noon."}, "thought"),
    ("skill_register", {"inline_skill": SKILL.format("Monday"), "namespace": "ops"}, "first"),
    ("skill_register", {"inline_skill": SKILL.format("Monday"), "namespace": "ops"}),
    (
        "skill_register",
        {
            "inline_skill": SKILL.format("Tuesday"),
            "files": [{"path": "a.bin", "content": "AP8=", "encoding": "base64"}],
            "namespace": "ops",
        },
        "second",
    ),
    ("skill_list", {"query": "how to deploy"}),
    ("skill_list", {"namespace": "elsewhere"}),
    ("skill_get", {"skill_id": "$first.id"}),
    ("skill_get", {"skill_id": "deploy"}),
    ("skill_resource", {"skill_id": "deploy", "resource_path": "a.bin"}),
    ("skill_resource", {"skill_id": "deploy", "resource_path": "b.bin"}),
    ("skill_export", {"skill_id": "deploy"}),
    ("skill_compositional_context", {"skill_id": "deploy", "query": "noon", "budget_tokens": 500}),
    ("skill_rollback", {"skill_id": "deploy"}),
    ("skill_rollback", {"skill_id": "deploy"}),
    ("skill_history", {"skill_id": "deploy"}),
    (
        "skill_promote_from_reflection",
        {"reflection_id": "$thought.id", "skill_name": "early", "skill_description": "Deploy early."},
        "made",
    ),
    ("skill_delete", {"skill_id": "$made.skill_id"}),
    ("skill_get", {"skill_id": "$made.skill_id"}),
    ("export", {}),
    ("verify", {}),
]


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
    exemplified = {op.name for op in REGISTRY for example in op.examples if example.error is None}
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


def test_the_http_method_of_a_route_matches_the_effect_of_its_operation() -> None:
    assert [op.name for op in REGISTRY if op.method == "GET" and op.effect is not Effect.READ] == []
    assert [op.name for op in REGISTRY if op.method == "DELETE" and op.effect is Effect.READ] == []
    assert [op.name for op in REGISTRY if not op.path.startswith("/api/v1/")] == []
