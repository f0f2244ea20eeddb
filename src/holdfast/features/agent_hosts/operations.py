"""Projects: which one a folder belongs to, and which names stand for one and the same."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.admin.backup import local_path
from holdfast.features.agent_hosts import projects
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

Project = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=120,
        description="The namespace of a project.",
        extra={"argument": True, "role": "namespace"},
    ),
]


class ProjectWhich(Request, frozen=True):
    path: Annotated[
        str, Meta(min_length=1, max_length=4096, description="A folder [default: this one].", extra={"argument": True})
    ] = "."


class ProjectView(Struct, frozen=True, kw_only=True):
    namespace: str
    """Where its memories go."""
    by: Literal["override", "remote", "repository", "folder"]
    """What says so: a file, where the repository comes from, where it lies, or where the folder lies."""
    why: list[str]
    folder: str
    root: str
    names: list[str]
    """Every name by which it is known."""
    budget: int | UnsetType = UNSET
    """What the file says of tokens, if it does."""


@operation(
    Effect.READ,
    "POST /api/v1/projects/which",
    family="power",
    surfaces=("library", "cli"),
    cli=("project", "which"),
    opens_nothing=True,
    human="holdfast.features.agent_hosts.render:render_project",
    examples=(Example({}), Example({"path": "no-such-folder"}, error="NOT_FOUND")),
)
def project_which(hold: Hold, request: ProjectWhich) -> ProjectView:
    """Say which project a folder belongs to, and how that was found.

    By a `.holdfast.toml` there or above, else by the remote of its git repository, else by where that lies, else by
    where the folder lies. Git itself is not run.
    """
    found = projects.which(hold, local_path(request.path))
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
    project: Annotated[Project, Meta(description="The project that remains.")]
    alias: Annotated[Project, Meta(description="The one that is to stand for it.")]
    agent_id: Actor | None = None


class ProjectNames(Struct, frozen=True, kw_only=True):
    namespace: str
    """Where the memories of all of them go."""
    names: list[str]


def _names(names: tuple[str, ...]) -> ProjectNames:
    return ProjectNames(namespace=names[0], names=list(names))


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/merge",
    family="power",
    admin=True,
    cli=("project", "merge"),
    human="holdfast.features.agent_hosts.render:render_project_names",
    examples=(
        Example({"project": "projects/github.com/ann/app", "alias": "projects/folder/app-1"}),
        Example({"project": "projects/a", "alias": "projects/a"}, error="VALIDATION_FAILED"),
        Example({"project": "projects/a", "alias": "users/ann"}, error="VALIDATION_FAILED"),
    ),
)
def project_merge(hold: Hold, request: ProjectMerge) -> ProjectNames:
    """Let a project stand for another from now on: what is known of either is then known of both.

    What was written stays where it is, so `project split` parts them again. Other stores hear of it by sync.
    """
    return _names(projects.merge(hold, request.project, request.alias))


class ProjectSplit(Request, frozen=True):
    alias: Annotated[Project, Meta(description="The one that is to stand for itself.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/projects/split",
    family="power",
    admin=True,
    cli=("project", "split"),
    human="holdfast.features.agent_hosts.render:render_project_names",
    examples=(Example({"alias": "projects/nobody/merged"}, error="NOT_FOUND"),),
)
def project_split(hold: Hold, request: ProjectSplit) -> ProjectNames:
    """Let a project stand for itself again."""
    return _names(projects.split(hold, request.alias))


class ProjectList(Request, frozen=True):
    """No parameters."""


class Merged(Struct, frozen=True, kw_only=True):
    alias: str
    project: str


class MergedProjects(Struct, frozen=True, kw_only=True):
    merged: list[Merged]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/projects",
    family="power",
    cli=("project", "list"),
    human="holdfast.features.agent_hosts.render:render_merged_projects",
    examples=(Example({}),),
)
def project_list(hold: Hold, request: ProjectList) -> MergedProjects:
    """List the projects that were merged, and into which."""
    found = [Merged(alias=alias, project=into) for alias, into in projects.merged(hold)]
    return MergedProjects(merged=found, count=len(found))
