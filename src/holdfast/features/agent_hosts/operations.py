"""Operations on projects: find the project of a folder, merge and split projects."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.agent_hosts import projects
from holdfast.kernel.context import Context
from holdfast.kernel.local_files import local_path
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

Project = Annotated[
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


class ProjectView(Struct, frozen=True, kw_only=True):
    namespace: str
    """Namespace of its memories."""
    by: Literal["override", "remote", "repository", "folder"]
    """What determined it: an override file, the git remote, the repository's path, or the folder's path."""
    why: list[str]
    folder: str
    root: str
    names: list[str]
    """All names of the project."""
    budget: int | UnsetType = UNSET
    """Token budget of the override file, if set."""


@operation(
    Effect.READ,
    "POST /api/v1/projects/which",
    cli=("agents", "project", "detect"),
    aliases=("project which",),
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.agent_hosts.render:render_project",
    examples=(
        Example({}),
        Example({"path": "no-such-folder"}, error="NOT_FOUND"),
        Example({"path": "shop"}, prepared=True),
    ),
)
def project_which(ctx: Context, request: ProjectWhich) -> ProjectView:
    """Show the project of a folder and how it was determined.

    By a `.holdfast.toml` there or above, else by the remote of its git repository, else by the path of the repository,
    else by the path of the folder. Does not run git.
    """
    found = projects.find_project(ctx, local_path(request.path))
    return ProjectView(
        namespace=found.namespace,
        by=found.by,
        why=found.why,
        folder=str(found.folder),
        root=str(found.root),
        names=list(found.names),
        budget=UNSET if found.budget is None else found.budget,
    )


class ProjectMerge(Request, frozen=True):
    project: Annotated[Project, Meta(description="Project to keep.")]
    alias: Annotated[Project, Meta(description="Project that becomes an alias of it.")]
    agent_id: Actor | None = None


class ProjectNames(Struct, frozen=True, kw_only=True):
    namespace: str
    """Namespace of the memories of all of them."""
    names: list[str]


def _names_view(names: tuple[str, ...]) -> ProjectNames:
    return ProjectNames(namespace=names[0], names=list(names))


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/merge",
    cli=("agents", "project", "merge"),
    aliases=("project merge",),
    admin=True,
    human="holdfast.features.agent_hosts.render:render_project_names",
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
    return _names_view(projects.merge(ctx, request.project, request.alias))


class ProjectSplit(Request, frozen=True):
    alias: Annotated[Project, Meta(description="Alias to separate.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/split",
    cli=("agents", "project", "split"),
    aliases=("project split",),
    admin=True,
    human="holdfast.features.agent_hosts.render:render_project_names",
    examples=(
        Example({"alias": "projects/nobody/merged"}, error="NOT_FOUND"),
        Example({"alias": "projects/folder/old-shop"}, prepared=True),
    ),
)
def project_split(ctx: Context, request: ProjectSplit) -> ProjectNames:
    """Separate a merged project again."""
    return _names_view(projects.split(ctx, request.alias))


class ProjectList(Request, frozen=True):
    """No parameters."""


class MergedProject(Struct, frozen=True, kw_only=True):
    alias: str
    project: str


class MergedProjects(Struct, frozen=True, kw_only=True):
    merged: list[MergedProject]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/projects",
    cli=("agents", "project", "list"),
    aliases=("project list",),
    human="holdfast.features.agent_hosts.render:render_merged_projects",
    examples=(Example({}),),
)
def project_list(ctx: Context, request: ProjectList) -> MergedProjects:
    """List merged projects."""
    found = [MergedProject(alias=alias, project=into) for alias, into in projects.list_merged(ctx)]
    return MergedProjects(merged=found, count=len(found))
