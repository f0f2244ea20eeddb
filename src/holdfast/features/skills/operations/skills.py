"""Operations on skills: register, list, read, export, promote, roll back, delete."""

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.admin.backup import LOCAL, local_path
from holdfast.features.memories.views import known
from holdfast.features.skills import files as skill_files
from holdfast.features.skills import service as keeping
from holdfast.features.skills import store as kept
from holdfast.features.skills.model import MOST_FILES, MOST_MANIFEST, Fall, File, Outcome
from holdfast.features.skills.store import Shown
from holdfast.features.transfer.schema_v1 import decoded, encoded
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Id, Limit, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text

SkillId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=640,
        description="Version id or a prefix of it, namespace/name, or a unique name.",
        extra={"argument": True},
    ),
]
ResourcePath = Annotated[
    str,
    Meta(
        min_length=1, max_length=512, description="Path of the file, as listed by the skill.", extra={"argument": True}
    ),
]
Encoding = Literal["utf-8", "base64"]
EXAMPLE = "---\nname: deploy\ndescription: How we deploy, and what to look at.\n---\n# Deploy\n\nOn Tuesdays.\n"


class SkillFileGiven(Struct, frozen=True, forbid_unknown_fields=True):
    """A file next to SKILL.md."""

    path: Annotated[str, Meta(min_length=1, max_length=512)]
    content: str
    encoding: Encoding = "utf-8"


class SkillRegister(Request, frozen=True):
    folder_path: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Folder with a SKILL.md, or a .zip or .tar.gz of one.",
                extra={"argument": True, "not_on": ("http", "mcp")},
            ),
        ]
        | None
    ) = None
    inline_skill: (
        Annotated[
            str, Meta(min_length=1, max_length=MOST_MANIFEST, description="Text of a SKILL.md.", extra={"stdin": True})
        ]
        | None
    ) = None
    files: Annotated[
        list[SkillFileGiven],
        Meta(max_length=MOST_FILES, description="Further files: path, content, encoding (utf-8 or base64)."),
    ] = []
    archive: (
        Annotated[str, Meta(min_length=1, description="A .zip or .tar.gz of a skill folder, base64-encoded.")] | None
    ) = None
    namespace: Annotated[Namespace, Meta(description="Namespace, unless SKILL.md sets one.")] | None = None


class SkillRegistered(Struct, frozen=True, kw_only=True):
    registered: bool
    """False: it was already the current version; nothing was written."""
    outcome: Outcome
    id: str
    namespace: str
    name: str
    digest: str
    signed: bool
    files: int
    superseded_id: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/skill/register",
    family="power",
    cli=("skill", "register"),
    human="holdfast.features.skills.render:render_skill_registration",
    status=201,
    examples=(
        Example(
            {
                "inline_skill": EXAMPLE,
                "namespace": "team/ops",
                "files": [
                    {"path": "scripts/deploy.sh", "content": "make deploy\n"},
                    {"path": "assets/dot.bin", "content": "AAE=", "encoding": "base64"},
                ],
            }
        ),
        Example({"inline_skill": "# Deploy\n"}, error="VALIDATION_FAILED"),
        Example({"inline_skill": EXAMPLE, "files": [{"path": "../x", "content": "x"}]}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"archive": "bm90IGFuIGFyY2hpdmU="}, error="VALIDATION_FAILED"),
    ),
)
def skill_register(hold: Hold, request: SkillRegister) -> SkillRegistered:
    """Register a skill as the current version of its name.

    A version with the same content is reused.
    """
    done = keeping.register(hold, _draft(hold, request), request.namespace)
    version = done.shown.version
    return SkillRegistered(
        registered=done.outcome != "unchanged",
        outcome=done.outcome,
        id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        signed=bool(version.signature),
        files=len(version.files),
        superseded_id=known(done.superseded),
    )


def _draft(hold: Hold, request: SkillRegister) -> skill_files.Draft:
    given = [name for name in ("folder_path", "inline_skill", "archive") if getattr(request, name) is not None]
    if len(given) != 1:
        raise Invalid("Give exactly one of folder_path, inline_skill and archive.", fields=given or ["inline_skill"])
    if request.files and request.inline_skill is None:
        raise Invalid("files: only with inline_skill", fields=["files"])
    if request.folder_path is not None:
        must_be_local(hold, "folder_path")
        return skill_files.at(local_path(request.folder_path))
    if request.archive is not None:
        return skill_files.from_archive(decoded(request.archive, "base64", "archive"))
    assert request.inline_skill is not None
    beside = [(file.path, decoded(file.content, file.encoding)) for file in request.files]
    return skill_files.Draft(skill_files.admitted([("SKILL.md", request.inline_skill.encode()), *beside]))


def must_be_local(hold: Hold, field: str) -> None:
    """Raise unless the caller is on this machine: only then may it name local paths."""
    if hold.caller.source not in LOCAL:
        raise Invalid(f"{field}: paths are only for the command line and the library", fields=[field])


class FallenView(Struct, frozen=True, kw_only=True):
    """Why the reflection behind a skill is no longer valid."""

    reason: Fall
    reflection_id: str | UnsetType = UNSET
    """Missing if you may not see it."""


def fallen_view(fallen: keeping.Fallen | None) -> FallenView | UnsetType:
    return UNSET if fallen is None else FallenView(reason=fallen.reason, reflection_id=known(fallen.reflection))


class SkillView(Struct, frozen=True, kw_only=True):
    """A skill version in a list."""

    id: str
    namespace: str
    name: str
    description: str
    digest: str
    agent_id: str
    created_at: str
    current: bool
    stale: FallenView | UnsetType = UNSET
    """Present if the reflection it was promoted from is no longer valid."""


def _view(shown: Shown, fallen: keeping.Fallen | None = None) -> dict[str, Any]:
    version = shown.version
    return {
        "id": version.id,
        "namespace": version.namespace,
        "name": version.name,
        "description": version.description,
        "digest": version.digest,
        "agent_id": version.agent,
        "created_at": to_text(version.created_at),
        "current": shown.current,
        "stale": fallen_view(fallen),
    }


class SkillList(Request, frozen=True):
    namespace: Annotated[Namespace, Meta(description="Only this namespace and those below it.")] | None = None
    query: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Skills that match, best first.",
                extra={"argument": True, "role": "words"},
            ),
        ]
        | None
    ) = None
    limit: Limit = 100


class SkillListed(Struct, frozen=True, kw_only=True):
    skills: list[SkillView]
    count: int
    total: int
    """Number of skills, regardless of the query."""


@operation(
    Effect.READ,
    "GET /api/v1/skill/list",
    family="power",
    cli=("skill", "list"),
    human="holdfast.features.skills.render:render_skills",
    examples=(
        Example({}),
        Example({"query": "how do we deploy?", "namespace": "team"}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
    ),
)
def skill_list(hold: Hold, request: SkillList) -> SkillListed:
    """List current skills by name, or ranked by a query."""
    with hold.reading() as session:
        found = keeping.listed(hold, session, request.namespace, request.query, limit=request.limit)
        fallen = keeping.fallen(hold, session, [one.version for one in found.found])
    shown = [SkillView(**_view(one, fallen.get(one.version.id))) for one in found.found]
    return SkillListed(skills=shown, count=len(shown), total=found.total)


class SkillGet(Request, frozen=True):
    skill_id: SkillId


class ResourceView(Struct, frozen=True, kw_only=True):
    path: str
    kind: str
    size: int
    digest: str


class SkillWhole(SkillView, frozen=True, kw_only=True):
    body: str
    """SKILL.md below the frontmatter."""
    frontmatter: dict[str, Any]
    resources: list[ResourceView]
    signed: bool
    """Whether the signature of a node of this store matches the content."""
    origin: str
    superseded_by: str | UnsetType = UNSET
    """Id of the current version, if this one is not."""


@operation(
    Effect.READ,
    "GET /api/v1/skill/{skill_id}",
    family="power",
    cli=("skill", "get"),
    human="holdfast.features.skills.render:render_skill",
    examples=(Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),),
)
def skill_get(hold: Hold, request: SkillGet) -> SkillWhole:
    """Read a skill: instructions, frontmatter and list of files."""
    with hold.reading() as session:
        shown = keeping.get(hold, session, request.skill_id)
        body = keeping.body_of(session, shown.version)
        signed = kept.signed(session, shown.version)
        fallen = keeping.fallen(hold, session, [shown.version]).get(shown.version.id)
    return SkillWhole(
        **_view(shown, fallen),
        body=body,
        frontmatter=shown.version.frontmatter,
        resources=[_resource(file) for file in shown.version.files if file.kind != "manifest"],
        signed=signed,
        origin=shown.version.origin,
        superseded_by=UNSET if shown.current else shown.skill.current,
    )


def _resource(file: File) -> ResourceView:
    return ResourceView(path=file.path, kind=file.kind, size=file.size, digest=file.digest)


class SkillResource(Request, frozen=True):
    skill_id: SkillId
    resource_path: ResourcePath


class ResourceContent(Struct, frozen=True, kw_only=True):
    skill_id: str
    resource_path: str
    resource_kind: str
    content: str
    encoding: Encoding
    size: int
    digest: str
    digest_verified: bool
    """Always true: a mismatch is an error."""


@operation(
    Effect.READ,
    "GET /api/v1/skill/{skill_id}/resource",
    family="power",
    cli=("skill", "resource"),
    human="holdfast.features.skills.render:render_skill_resource",
    examples=(Example({"skill_id": "no-such-skill", "resource_path": "scripts/deploy.sh"}, error="NOT_FOUND"),),
)
def skill_resource(hold: Hold, request: SkillResource) -> ResourceContent:
    """Read one file of a skill, verified against its digest."""
    with hold.reading() as session:
        shown, content = keeping.resource(hold, session, request.skill_id, request.resource_path)
    file = shown.version.file(request.resource_path)
    assert file is not None
    return ResourceContent(
        skill_id=shown.version.id,
        resource_path=file.path,
        resource_kind=file.kind,
        **cast(Any, encoded(content)),
        size=file.size,
        digest=file.digest,
        digest_verified=True,
    )


class SkillExport(Request, frozen=True):
    skill_id: SkillId
    target_folder: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Folder to write to; may replace only an older export. Default: return the files.",
                extra={"argument": True, "not_on": ("http", "mcp")},
            ),
        ]
        | None
    ) = None


class ExportedFile(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    digest: str
    content: str | UnsetType = UNSET
    encoding: Encoding | UnsetType = UNSET


class SkillExported(Struct, frozen=True, kw_only=True):
    exported: bool
    skill_id: str
    namespace: str
    name: str
    digest: str
    resources_exported: int
    files: list[ExportedFile]
    target_folder: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "GET /api/v1/skill/{skill_id}/export",
    family="power",
    cli=("skill", "export"),
    human="holdfast.features.skills.render:render_skill_export",
    examples=(Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),),
)
def skill_export(hold: Hold, request: SkillExport) -> SkillExported:
    """Export every file of a skill, byte for byte."""
    if request.target_folder is not None:
        must_be_local(hold, "target_folder")
    with hold.reading() as session:
        version, skill = keeping.get(hold, session, request.skill_id)
        files = keeping.files_of(session, version)
        known_files = keeping.known_files(hold, session, skill) if request.target_folder is not None else set()
    target = None if request.target_folder is None else local_path(request.target_folder)
    if target is not None:
        skill_files.write(files, target, known_files)
    return SkillExported(
        exported=True,
        skill_id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        resources_exported=len(files) - 1,
        files=[_exported(file, files[file.path] if target is None else None) for file in version.files],
        target_folder=UNSET if target is None else str(target),
    )


def _exported(file: File, content: bytes | None) -> ExportedFile:
    sent: Any = {} if content is None else encoded(content)
    return ExportedFile(path=file.path, size=file.size, digest=file.digest, **sent)


class SkillPromote(Request, frozen=True):
    reflection_id: Id
    skill_name: Annotated[
        str,
        Meta(
            min_length=1, max_length=64, description="Name: lower case, digits and hyphens.", extra={"argument": True}
        ),
    ]
    skill_description: Annotated[
        str, Meta(min_length=1, max_length=1024, description="What the skill does and when to use it.")
    ]
    parameters_schema: Annotated[dict[str, Any], Meta(description="JSON Schema of its parameters.")] | None = None


class SkillPromoted(Struct, frozen=True, kw_only=True):
    promoted: bool
    skill_id: str
    namespace: str
    name: str
    digest: str
    derived_from_reflection_id: str
    original_reflection_depth: int
    sources_attached: int
    sources_left_out: int
    """Sources that are gone or private."""
    signed: bool
    outcome: Outcome
    superseded_id: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/skill/{reflection_id}/promote",
    family="power",
    cli=("skill", "promote"),
    human="holdfast.features.skills.render:render_skill_promotion",
    status=201,
    examples=(
        Example(
            {"reflection_id": "no-such-memory", "skill_name": "deploy", "skill_description": "How we deploy."},
            error="NOT_FOUND",
        ),
    ),
)
def skill_promote_from_reflection(hold: Hold, request: SkillPromote) -> SkillPromoted:
    """Create a skill from a reflection, with its sources as references."""
    done = keeping.promote(
        hold, request.reflection_id, request.skill_name, request.skill_description, request.parameters_schema
    )
    version = done.registered.shown.version
    return SkillPromoted(
        promoted=done.registered.outcome != "unchanged",
        skill_id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        derived_from_reflection_id=done.reflection.id,
        original_reflection_depth=done.reflection.reflection_depth,
        sources_attached=done.attached,
        sources_left_out=done.left_out,
        signed=bool(version.signature),
        outcome=done.registered.outcome,
        superseded_id=known(done.registered.superseded),
    )


class SkillRollback(Request, frozen=True):
    skill_id: SkillId
    version: Annotated[SkillId, Meta(description="Version id to roll back to [default: the previous one].")] | None = (
        None
    )


class SkillTurned(Struct, frozen=True, kw_only=True):
    rolled_back: bool
    id: str
    namespace: str
    name: str
    digest: str
    before: str
    """Id of the version that was current."""


@operation(
    Effect.WRITE,
    "POST /api/v1/skill/{skill_id}/rollback",
    family="power",
    cli=("skill", "rollback"),
    human="holdfast.features.skills.render:render_skill_rollback",
    examples=(Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),),
)
def skill_rollback(hold: Hold, request: SkillRollback) -> SkillTurned:
    """Make the previous version of a skill, or a given one, current again.

    No version is lost.
    """
    turned = keeping.rollback(hold, request.skill_id, request.version)
    version = turned.shown.version
    return SkillTurned(
        rolled_back=True,
        id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        before=turned.before,
    )


class SkillDelete(Request, frozen=True):
    skill_id: SkillId
    purge: Annotated[bool, Meta(description="Erase its files permanently, from the history too.")] = False


class SkillDeleted(Struct, frozen=True, kw_only=True):
    deleted: bool
    purged: bool
    id: str
    namespace: str
    name: str


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/skill/{skill_id}",
    family="power",
    cli=("skill", "delete"),
    human="holdfast.features.skills.render:render_skill_deletion",
    examples=(Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),),
)
def skill_delete(hold: Hold, request: SkillDelete) -> SkillDeleted:
    """Delete a skill with all its versions; `undo` restores it.

    Registering it again restores it too. A purge cannot be undone.
    """
    gone = keeping.delete(hold, request.skill_id, purge=request.purge)
    return SkillDeleted(
        deleted=True, purged=request.purge, id=gone.version.id, namespace=gone.skill.namespace, name=gone.skill.name
    )


class SkillHistory(Request, frozen=True):
    skill_id: SkillId
    limit: Limit = 100


class SkillChange(Struct, frozen=True, kw_only=True):
    """A change of the current version, or the deletion of the skill."""

    change: int
    op: str
    id: str
    actor: str
    at: str
    state: str


class SkillPast(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    current: str | UnsetType = UNSET
    """Missing while the skill is deleted."""
    versions: list[SkillView]
    changes: list[SkillChange]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/skill/{skill_id}/history",
    family="power",
    cli=("skill", "history"),
    human="holdfast.features.skills.render:render_skill_history",
    examples=(Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),),
)
def skill_history(hold: Hold, request: SkillHistory) -> SkillPast:
    """Show all versions of a skill and when each was current."""
    with hold.reading() as session:
        past = keeping.history(hold, session, request.skill_id, limit=request.limit)
    versions = [SkillView(**_view(Shown(version, past.skill))) for version in past.versions]
    return SkillPast(
        namespace=past.skill.namespace,
        name=past.skill.name,
        current=past.skill.current if past.skill.state == "live" else UNSET,
        versions=versions,
        changes=[
            SkillChange(
                change=change.seq,
                op=change.op,
                id=change.skill.current,
                actor=change.actor,
                at=to_text(change.at),
                state=change.skill.state,
            )
            for change in past.changes
        ],
        count=len(versions),
    )
