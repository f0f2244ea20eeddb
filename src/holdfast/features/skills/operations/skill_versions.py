"""Operations on the versions of a skill: promote a reflection, roll back, delete, and list changes."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.skills import service as skill_service
from holdfast.features.skills.model import Outcome
from holdfast.features.skills.operations.skills import SkillId, SkillView, build_view_fields
from holdfast.features.skills.read_skills import SkillEntry
from holdfast.features.skills.service import SkillChange
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Id, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset


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


class SkillPromoteResult(Struct, frozen=True, kw_only=True):
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
    cli=("skill", "promote"),
    human="holdfast.features.skills.render:render_skill_promotion",
    status=201,
    examples=(
        Example(
            {"reflection_id": "no-such-memory", "skill_name": "deploy", "skill_description": "How we deploy."},
            error="NOT_FOUND",
        ),
        Example(
            {
                "reflection_id": "5e9d07fa",
                "skill_name": "release-routine",
                "skill_description": "When a release is due.",
            },
            prepared=True,
        ),
    ),
)
def skill_promote_from_reflection(ctx: Context, request: SkillPromote) -> SkillPromoteResult:
    """Create a skill from a reflection, with its sources as references."""
    result = skill_service.promote(
        ctx, request.reflection_id, request.skill_name, request.skill_description, request.parameters_schema
    )
    version = result.registration.entry.version
    return SkillPromoteResult(
        promoted=result.registration.outcome != "unchanged",
        skill_id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        derived_from_reflection_id=result.reflection.id,
        original_reflection_depth=result.reflection.reflection_depth,
        sources_attached=result.attached,
        sources_left_out=result.left_out,
        signed=bool(version.signature),
        outcome=result.registration.outcome,
        superseded_id=value_or_unset(result.registration.superseded_id),
    )


class SkillRollback(Request, frozen=True):
    skill_id: SkillId
    version: Annotated[SkillId, Meta(description="Version id to roll back to [default: the previous one].")] | None = (
        None
    )


class SkillRollbackResult(Struct, frozen=True, kw_only=True):
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
    cli=("skill", "rollback"),
    human="holdfast.features.skills.render:render_skill_rollback",
    examples=(
        Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy"}, prepared=True),
    ),
)
def skill_rollback(ctx: Context, request: SkillRollback) -> SkillRollbackResult:
    """Make the previous version of a skill, or a given one, current again.

    No version is lost.
    """
    entry, before = skill_service.rollback(ctx, request.skill_id, request.version)
    version = entry.version
    return SkillRollbackResult(
        rolled_back=True,
        id=version.id,
        namespace=version.namespace,
        name=version.name,
        digest=version.digest,
        before=before,
    )


class SkillDelete(Request, frozen=True):
    skill_id: SkillId
    purge: Annotated[bool, Meta(description="Erase its files permanently, from the history too.")] = False


class SkillDeleteResult(Struct, frozen=True, kw_only=True):
    deleted: bool
    purged: bool
    id: str
    namespace: str
    name: str


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/skill/{skill_id}",
    cli=("skill", "delete"),
    human="holdfast.features.skills.render:render_skill_deletion",
    examples=(
        Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy"}, prepared=True),
    ),
)
def skill_delete(ctx: Context, request: SkillDelete) -> SkillDeleteResult:
    """Delete a skill with all its versions; `undo` restores it.

    Registering it again restores it too. A purge cannot be undone.
    """
    entry = skill_service.delete(ctx, request.skill_id, purge=request.purge)
    return SkillDeleteResult(
        deleted=True, purged=request.purge, id=entry.version.id, namespace=entry.skill.namespace, name=entry.skill.name
    )


class SkillHistory(Request, frozen=True):
    skill_id: SkillId
    limit: Limit = 100


class SkillHistoryResult(Struct, frozen=True, kw_only=True):
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
    cli=("skill", "history"),
    human="holdfast.features.skills.render:render_skill_history",
    examples=(
        Example({"skill_id": "no-such-skill"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy"}, prepared=True),
    ),
)
def skill_history(ctx: Context, request: SkillHistory) -> SkillHistoryResult:
    """Show all versions of a skill and when each was current."""
    with ctx.reading() as session:
        skill, versions, changes = skill_service.history(ctx, session, request.skill_id, limit=request.limit)
    views = [SkillView(**build_view_fields(SkillEntry(version, skill))) for version in versions]
    return SkillHistoryResult(
        namespace=skill.namespace,
        name=skill.name,
        current=skill.current if skill.state == "live" else UNSET,
        versions=views,
        changes=changes,
        count=len(views),
    )
