"""Every operation gives the same answer or error code on every surface and on both engines."""

from pathlib import Path
from typing import NamedTuple

from compare_surfaces import ON_POSTGRES, differences, open_surface
from four_surfaces import Outcome, normalize

from engines import Postgres
from holdfast.kernel.registry.operation import SURFACES, Example
from holdfast.operations import REGISTRY, Effect, Operation


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


EXAMPLES = [
    ExampleCase(op, example, number)
    for op in REGISTRY
    for number, example in enumerate(op.examples)
    if not example.prepared
]


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


def test_the_http_method_of_a_route_matches_the_effect_of_its_operation() -> None:
    assert [op.name for op in REGISTRY if op.method == "GET" and op.effect is not Effect.READ] == []
    assert [op.name for op in REGISTRY if op.method == "DELETE" and op.effect is Effect.READ] == []
    assert [op.name for op in REGISTRY if not op.path.startswith("/api/v1/")] == []
