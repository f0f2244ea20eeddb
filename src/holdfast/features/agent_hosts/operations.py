"""Operations: the context of a session's start, and projects."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.agent_hosts import projects
from holdfast.features.agent_hosts.projects import MergedProject, ProjectNames
from holdfast.features.context_blocks import session_start as session_context
from holdfast.kernel.context import Context
from holdfast.kernel.local_files import local_path
from holdfast.kernel.records.validate import namespace as validate_namespace
from holdfast.kernel.registry.fields import Actor, Namespace
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation, value_or_unset

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
    topic="context_blocks",
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


ProjectName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=120,
        description="Namespace of the project.",
        extra={"argument": True, "role": "namespace"},
    ),
]


class ProjectWhich(Request, frozen=True):
    path: Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="Folder [default: the current one].", extra={"argument": True}),
    ] = "."


@operation(
    Effect.READ,
    "POST /api/v1/projects/which",
    cli=("agents", "project", "detect"),
    aliases=("project which",),
    surfaces=("library", "cli"),
    opens_nothing=True,
    columns=("namespace",),
    examples=(
        Example({}),
        Example({"path": "no-such-folder"}, error="NOT_FOUND"),
        Example({"path": "shop"}, prepared=True),
    ),
)
def project_which(ctx: Context, request: ProjectWhich) -> projects.Project:
    """Show the project of a folder and how it was determined.

    By a `.holdfast.toml` there or above, else by the remote of its git repository, else by the path of the repository,
    else by the path of the folder. Does not run git.
    """
    return projects.find_project(ctx, local_path(request.path))


class ProjectMerge(Request, frozen=True):
    project: Annotated[ProjectName, Meta(description="Project to keep.")]
    alias: Annotated[ProjectName, Meta(description="Project that becomes an alias of it.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/merge",
    cli=("agents", "project", "merge"),
    aliases=("project merge",),
    admin=True,
    columns=("namespace",),
    examples=(
        Example({"project": "projects/github.com/ann/app", "alias": "projects/folder/app-1"}),
        Example({"project": "projects/a", "alias": "projects/a"}, error="VALIDATION_FAILED"),
        Example({"project": "projects/a", "alias": "users/ann"}, error="VALIDATION_FAILED"),
    ),
)
def project_merge(ctx: Context, request: ProjectMerge) -> ProjectNames:
    """Make a project an alias of another.

    Both then share what is known of either. Memories stay where they are, so `agents project split` can separate them
    again. The merge is synced to other stores.
    """
    return projects.merge(ctx, request.project, request.alias)


class ProjectSplit(Request, frozen=True):
    alias: Annotated[ProjectName, Meta(description="Alias to separate.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/split",
    cli=("agents", "project", "split"),
    aliases=("project split",),
    admin=True,
    columns=("namespace",),
    examples=(
        Example({"alias": "projects/nobody/merged"}, error="NOT_FOUND"),
        Example({"alias": "projects/folder/old-shop"}, prepared=True),
    ),
)
def project_split(ctx: Context, request: ProjectSplit) -> ProjectNames:
    """Separate a merged project again."""
    return projects.split(ctx, request.alias)


class MergedProjects(Struct, frozen=True, kw_only=True):
    merged: list[MergedProject]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/projects",
    cli=("agents", "project", "list"),
    aliases=("project list",),
    columns=("alias", "project"),
    empty="No merged projects.",
    examples=(Example({}),),
)
def project_list(ctx: Context, request: EmptyRequest) -> MergedProjects:
    """List merged projects."""
    found = projects.list_merged(ctx)
    return MergedProjects(merged=found, count=len(found))
