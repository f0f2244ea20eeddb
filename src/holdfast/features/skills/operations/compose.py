"""Compose a skill with valid reflections of its namespaces."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import known
from holdfast.features.skills import compose as composing
from holdfast.features.skills.compose import Entry, Taken
from holdfast.features.skills.model import MOST_TOKENS, USUAL_TOKENS, Reason
from holdfast.features.skills.operations.skills import FallenView, SkillId, fallen_view
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text


class SkillCompose(Request, frozen=True):
    skill_id: SkillId
    query: (
        Annotated[str, Meta(min_length=1, max_length=4096, description="The task; relevant reflections come first.")]
        | None
    ) = None
    budget_tokens: Annotated[
        int, Meta(ge=0, le=MOST_TOKENS, description="Token budget for the reflections (cl100k).")
    ] = USUAL_TOKENS


class ComposedNamespace(Struct, frozen=True, kw_only=True):
    namespace: str
    min_depth: int
    max_reflection_depth: int | UnsetType = UNSET
    """Missing if the key does not reach the namespace."""
    note: str | UnsetType = UNSET


class ComposedReflection(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str
    title: str
    content: str
    reflection_depth: int
    agent_id: str
    created_at: str
    score: float


class DroppedView(Struct, frozen=True, kw_only=True):
    reason: Reason
    count: int
    ids: list[str]


class SkillComposed(Struct, frozen=True, kw_only=True):
    skill_id: str
    skill_namespace: str
    skill_name: str
    current: bool
    superseded_by: str | UnsetType = UNSET
    """Id of the current version, if another one was requested."""
    stale: FallenView | UnsetType = UNSET
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
    dropped: list[DroppedView]
    degraded: str | UnsetType = UNSET


FRAME = "[]"


@operation(
    Effect.READ,
    "POST /api/v1/skill/{skill_id}/compose",
    family="power",
    cli=("skill", "compose"),
    human="holdfast.features.skills.render:render_skill_composition",
    examples=(
        Example({"skill_id": "no-such-skill", "query": "deploy on Friday"}, error="NOT_FOUND"),
        Example({"skill_id": "deploy", "budget_tokens": 32_001}, error="VALIDATION_FAILED"),
    ),
)
def skill_compositional_context(hold: Hold, request: SkillCompose) -> SkillComposed:
    """Read a skill with its valid reflections, best first, within a token budget."""
    made = composing.compose(hold, request.skill_id, request.query, request.budget_tokens, _rendered, FRAME)
    version = made.shown.version
    return SkillComposed(
        skill_id=version.id,
        skill_namespace=version.namespace,
        skill_name=version.name,
        current=made.shown.current,
        superseded_by=UNSET if made.shown.current else made.shown.skill.current,
        stale=fallen_view(made.fallen),
        body=made.body,
        body_tokens=made.body_tokens,
        compositional_namespaces=[_namespace(entry) for entry in made.entries],
        reflections=[_reflection(one) for one in made.taken],
        budget_tokens=request.budget_tokens,
        tokens_used=made.tokens_used,
        memories_dropped=sum(one.many for one in made.dropped if one.reason in ("budget", "rank")),
        dropped=[DroppedView(reason=one.reason, count=one.many, ids=one.ids) for one in made.dropped],
        degraded=known(made.degraded),
    )


def _reflection(one: "Taken") -> ComposedReflection:
    return ComposedReflection(
        id=one.memory.id,
        namespace=one.memory.namespace,
        title=one.memory.title,
        content=one.memory.content,
        reflection_depth=one.memory.reflection_depth,
        agent_id=one.memory.agent,
        created_at=to_text(one.memory.created_at),
        score=round(one.score, 6),
    )


def _rendered(one: "Taken") -> str:
    return msgspec.json.encode(_reflection(one)).decode() + ","


def _namespace(entry: "Entry") -> ComposedNamespace:
    return ComposedNamespace(
        namespace=entry.asked.namespace,
        min_depth=entry.asked.min_depth,
        max_reflection_depth=entry.ceiling if entry.reached else UNSET,
        note=known(_note(entry)),
    )


def _note(entry: "Entry") -> str | None:
    if not entry.reached:
        return "Your key does not reach this namespace; only reachable namespaces below it were searched."
    if entry.within is None:
        return (
            f"No reflections: the maximum depth is {entry.ceiling}, the skill asks for {entry.asked.min_depth} or more."
        )
    return None
