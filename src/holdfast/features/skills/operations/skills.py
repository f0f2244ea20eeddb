"""Operations on skills: register, list, read, export."""

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.skills import file_contents
from holdfast.features.skills import service as skill_service
from holdfast.features.skills.files import Draft, decode_content, encode_content, validate_files
from holdfast.features.skills.folder import read_archive, read_skill, write_folder
from holdfast.features.skills.model import MAX_FILES, MAX_MANIFEST_BYTES, File, Outcome
from holdfast.features.skills.read_skills import SkillEntry
from holdfast.features.skills.service import Staleness
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.local_files import local_path, require_local
from holdfast.kernel.registry.fields import Limit, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import Time

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


class SkillFileInput(Struct, frozen=True, forbid_unknown_fields=True):
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
            str,
            Meta(min_length=1, max_length=MAX_MANIFEST_BYTES, description="Text of a SKILL.md.", extra={"stdin": True}),
        ]
        | None
    ) = None
    files: Annotated[
        list[SkillFileInput],
        Meta(max_length=MAX_FILES, description="Further files: path, content, encoding (utf-8 or base64)."),
    ] = []
    archive: (
        Annotated[str, Meta(min_length=1, description="A .zip or .tar.gz of a skill folder, base64-encoded.")] | None
    ) = None
    namespace: Annotated[Namespace, Meta(description="Namespace, unless SKILL.md sets one.")] | None = None


class SkillRegisterResult(Struct, frozen=True, kw_only=True):
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
        Example({"folder_path": "skills/deploy"}, prepared=True),
    ),
)
def skill_register(ctx: Context, request: SkillRegister) -> SkillRegisterResult:
    """Register a skill as the current version of its name.

    A version with the same content is reused.
    """
    result = skill_service.register(ctx, _read_draft(ctx, request), request.namespace)
    version = result.entry.version
    return SkillRegisterResult(
        registered=result.outcome != "unchanged",
        outcome=result.outcome,
        id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        signed=bool(version.signature),
        files=len(version.files),
        superseded_id=value_or_unset(result.superseded_id),
    )


def _read_draft(ctx: Context, request: SkillRegister) -> Draft:
    sources = [name for name in ("folder_path", "inline_skill", "archive") if getattr(request, name) is not None]
    if len(sources) != 1:
        raise Invalid("Give exactly one of folder_path, inline_skill and archive.", fields=sources or ["inline_skill"])
    if request.files and request.inline_skill is None:
        raise Invalid("files: only with inline_skill", fields=["files"])
    if request.folder_path is not None:
        require_local(ctx, "folder_path")
        return read_skill(local_path(request.folder_path))
    if request.archive is not None:
        return read_archive(decode_content(request.archive, "base64", "archive"))
    assert request.inline_skill is not None
    beside = [(file.path, decode_content(file.content, file.encoding)) for file in request.files]
    return Draft(validate_files([("SKILL.md", request.inline_skill.encode()), *beside]))


class SkillView(Struct, frozen=True, kw_only=True):
    """A skill version in a list."""

    id: str
    namespace: str
    name: str
    description: str
    digest: str
    agent_id: str
    created_at: Time
    current: bool
    stale: Staleness | None = None
    """Present if the reflection it was promoted from is no longer valid."""


def build_view_fields(entry: SkillEntry, stale: Staleness | None = None) -> dict[str, Any]:
    version = entry.version
    return {
        "id": version.id,
        "namespace": version.namespace,
        "name": version.name,
        "description": version.description,
        "digest": version.digest,
        "agent_id": version.agent,
        "created_at": version.created_at,
        "current": entry.is_current,
        "stale": stale,
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


class SkillListResult(Struct, frozen=True, kw_only=True):
    skills: list[SkillView]
    count: int
    total: int
    """Number of skills, regardless of the query."""


@operation(
    Effect.READ,
    "GET /api/v1/skill/list",
    cli=("skill", "list"),
    human="holdfast.features.skills.render:render_skills",
    examples=(
        Example({}),
        Example({"query": "how do we deploy?", "namespace": "team"}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
        Example({"query": "how do we deploy?"}, prepared=True),
    ),
)
def skill_list(ctx: Context, request: SkillList) -> SkillListResult:
    """List current skills by name, or ranked by a query."""
    with ctx.reading() as session:
        found, total = skill_service.list_skills(ctx, session, request.namespace, request.query, limit=request.limit)
        fallen = skill_service.find_stale(ctx, session, [one.version for one in found])
    views = [SkillView(**build_view_fields(one, fallen.get(one.version.id))) for one in found]
    return SkillListResult(skills=views, count=len(views), total=total)


class SkillGet(Request, frozen=True):
    skill_id: SkillId


class SkillDetailView(SkillView, frozen=True, kw_only=True):
    body: str
    """SKILL.md below the frontmatter."""
    frontmatter: dict[str, Any]
    resources: list[File]
    signed: bool
    """Whether the signature of a node of this store matches the content."""
    origin: str
    superseded_by: str | UnsetType = UNSET
    """Id of the current version, if this one is not."""


@operation(
    Effect.READ,
    "GET /api/v1/skill/{skill_id}",
    cli=("skill", "get"),
    human="holdfast.features.skills.render:render_skill",
    examples=(
        Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy"}, prepared=True),
    ),
)
def skill_get(ctx: Context, request: SkillGet) -> SkillDetailView:
    """Read a skill: instructions, frontmatter and list of files."""
    with ctx.reading() as session:
        entry = skill_service.get(ctx, session, request.skill_id)
        body = skill_service.read_body(session, entry.version)
        signed = file_contents.is_signed(session, entry.version)
        fallen = skill_service.find_stale(ctx, session, [entry.version]).get(entry.version.id)
    return SkillDetailView(
        **build_view_fields(entry, fallen),
        body=body,
        frontmatter=entry.version.frontmatter,
        resources=[file for file in entry.version.files if file.kind != "manifest"],
        signed=signed,
        origin=entry.version.origin,
        superseded_by=UNSET if entry.is_current else entry.skill.current,
    )


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
    cli=("skill", "resource"),
    human="holdfast.features.skills.render:render_skill_resource",
    examples=(
        Example({"skill_id": "no-such-skill", "resource_path": "scripts/deploy.sh"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy", "resource_path": "scripts/deploy.sh"}, prepared=True),
    ),
)
def skill_resource(ctx: Context, request: SkillResource) -> ResourceContent:
    """Read one file of a skill, verified against its digest."""
    with ctx.reading() as session:
        entry, content = skill_service.read_resource(ctx, session, request.skill_id, request.resource_path)
    file = entry.version.find_file(request.resource_path)
    assert file is not None
    return ResourceContent(
        skill_id=entry.version.id,
        resource_path=file.path,
        resource_kind=file.kind,
        **cast(Any, encode_content(content)),
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


class SkillExportResult(Struct, frozen=True, kw_only=True):
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
    cli=("skill", "export"),
    human="holdfast.features.skills.render:render_skill_export",
    examples=(
        Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy", "target_folder": "deploy-copy"}, prepared=True),
    ),
)
def skill_export(ctx: Context, request: SkillExport) -> SkillExportResult:
    """Export every file of a skill, byte for byte."""
    if request.target_folder is not None:
        require_local(ctx, "target_folder")
    with ctx.reading() as session:
        version, skill = skill_service.get(ctx, session, request.skill_id)
        files = skill_service.read_files(session, version)
        known_files = skill_service.known_files(ctx, session, skill) if request.target_folder is not None else set()
    target = None if request.target_folder is None else local_path(request.target_folder)
    if target is not None:
        write_folder(files, target, known_files)
    return SkillExportResult(
        exported=True,
        skill_id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        resources_exported=len(files) - 1,
        files=[_export_file(file, files[file.path] if target is None else None) for file in version.files],
        target_folder=UNSET if target is None else str(target),
    )


def _export_file(file: File, content: bytes | None) -> ExportedFile:
    sent: Any = {} if content is None else encode_content(content)
    return ExportedFile(path=file.path, size=file.size, digest=file.digest, **sent)
