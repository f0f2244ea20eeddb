"""Compose a skill with valid reflections of its namespaces."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.skills import compose
from holdfast.features.skills.compose import ComposedNamespace, DroppedGroup, ScoredMemory
from holdfast.features.skills.model import DEFAULT_TOKENS, MAX_TOKENS
from holdfast.features.skills.operations.skills import SkillId
from holdfast.features.skills.service import Staleness
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_timestamp


class SkillCompose(Request, frozen=True):
    skill_id: SkillId
    query: (
        Annotated[str, Meta(min_length=1, max_length=4096, description="The task; relevant reflections come first.")]
        | None
    ) = None
    budget_tokens: Annotated[
        int, Meta(ge=0, le=MAX_TOKENS, description="Token budget for the reflections (cl100k).")
    ] = DEFAULT_TOKENS


class ComposedReflection(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str
    title: str
    content: str
    reflection_depth: int
    agent_id: str
    created_at: TimeText
    score: float


class SkillComposeResult(Struct, frozen=True, kw_only=True):
    skill_id: str
    skill_namespace: str
    skill_name: str
    current: bool
    superseded_by: str | UnsetType = UNSET
    """Id of the current version, if another one was requested."""
    stale: Staleness | None = None
    """Present if the reflection it was promoted from is no longer valid."""
    body: str
    body_tokens: int
    """Not part of the budget."""
    compositional_namespaces: list[ComposedNamespace]
    reflections: list[ComposedReflection]
    budget_tokens: int
    tokens_used: int
    """Tokens of the reflections as sent."""
    memories_dropped: int
    """Number of valid reflections that did not fit the budget."""
    dropped: list[DroppedGroup]
    degraded: str | UnsetType = UNSET


FRAME = "[]"


@operation(
    Effect.READ,
    "POST /api/v1/skill/{skill_id}/compose",
    cli=("skill", "compose"),
    human="holdfast.features.skills.render:render_skill_composition",
    examples=(
        Example({"skill_id": "no-such-skill", "query": "deploy on Friday"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy", "budget_tokens": 32_001}, error="VALIDATION_FAILED"),
        Example({"skill_id": "deploy"}, prepared=True),
        Example({"skill_id": "deploy", "query": "roll back a release"}, prepared=True),
    ),
)
def skill_compositional_context(ctx: Context, request: SkillCompose) -> SkillComposeResult:
    """Read a skill with its valid reflections, best first, within a token budget."""
    result = compose.compose(ctx, request.skill_id, request.query, request.budget_tokens, _render_reflection, FRAME)
    version = result.entry.version
    return SkillComposeResult(
        skill_id=version.id,
        skill_namespace=version.namespace,
        skill_name=version.name,
        current=result.entry.is_current,
        superseded_by=UNSET if result.entry.is_current else result.entry.skill.current,
        stale=result.staleness,
        body=result.body,
        body_tokens=result.body_tokens,
        compositional_namespaces=result.namespaces,
        reflections=[_reflection_view(one) for one in result.reflections],
        budget_tokens=request.budget_tokens,
        tokens_used=result.tokens_used,
        memories_dropped=sum(one.count for one in result.dropped if one.reason in ("budget", "rank")),
        dropped=result.dropped,
        degraded=value_or_unset(result.degraded),
    )


def _reflection_view(one: ScoredMemory) -> ComposedReflection:
    return ComposedReflection(
        id=one.memory.id,
        namespace=one.memory.namespace,
        title=one.memory.title,
        content=one.memory.content,
        reflection_depth=one.memory.reflection_depth,
        agent_id=one.memory.agent,
        created_at=format_timestamp(one.memory.created_at),
        score=round(one.score, 6),
    )


def _render_reflection(one: ScoredMemory) -> str:
    return msgspec.json.encode(_reflection_view(one)).decode() + ","
