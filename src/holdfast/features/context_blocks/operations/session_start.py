"""The `boot` operation."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.agent_hosts import projects
from holdfast.features.context_blocks import session_start as session_context
from holdfast.kernel.context import Context
from holdfast.kernel.records.validate import namespace as validate_namespace
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset

PartName = Literal["standards", "facts", "lessons", "decisions", "recent", "tasks", "stale"]


class Boot(Request, frozen=True):
    namespace: Annotated[Namespace, Meta(description="Namespace of the project.")] | None = None
    principal: (
        Annotated[str, Meta(min_length=1, max_length=128, description="Person of the session. Default: the agent.")]
        | None
    ) = None
    budget: Annotated[int, Meta(ge=100, le=20_000, description="Maximum tokens of the block (cl100k).")] = 1500


class BootPart(Struct, frozen=True, kw_only=True):
    name: PartName
    given: int
    dropped: int
    """Number of items that did not fit."""
    ids: list[str]
    """Ids of memories or tasks."""
    degraded: str | UnsetType = UNSET
    """Why the part is incomplete, if something failed."""


class BootResult(Struct, frozen=True, kw_only=True):
    namespace: str
    text: str
    """Fenced as data; empty if nothing was found."""
    manifest: str
    """One line: namespace, parts, tokens, what is missing."""
    parts: list[BootPart]
    tokens_used: int
    budget: int


@operation(
    Effect.READ,
    "POST /api/v1/boot",
    surfaces=("library", "http", "mcp"),
    examples=(
        Example({"namespace": "projects/github.com/ann/app"}),
        Example({"budget": 1}, error="VALIDATION_FAILED"),
        Example({"namespace": "projects//app"}, error="VALIDATION_FAILED"),
    ),
)
def boot(ctx: Context, request: Boot) -> BootResult:
    """Build the session-start context: facts, lessons, decisions, recent, due and stale items.

    Covers one project and one person, within a budget. Only reads. `holdfast agents boot` detects the project of
    a folder.
    """
    names = projects.list_project_names(ctx, validate_namespace(request.namespace or ctx.namespace))
    place = session_context.SessionScope(names[0], names, request.principal or ctx.caller.agent)
    done = session_context.build_session_context(ctx, place, request.budget)
    parts = [
        BootPart(
            name=part.name,  # type: ignore[arg-type]
            given=len(part.items),
            dropped=part.dropped,
            ids=[item.id for item in part.items],
            degraded=value_or_unset(part.degraded),
        )
        for part in done.parts
    ]
    return BootResult(
        namespace=names[0],
        text=done.text,
        manifest=session_context.format_manifest(names[0], done, request.budget),
        parts=parts,
        tokens_used=done.tokens,
        budget=request.budget,
    )
