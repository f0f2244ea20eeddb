"""Compose a skill with valid reflections of its namespaces."""

from typing import Annotated

from msgspec import Meta

from holdfast.features.skills import compose
from holdfast.features.skills.compose import SkillComposeResult
from holdfast.features.skills.model import DEFAULT_TOKENS, MAX_TOKENS
from holdfast.features.skills.operations.skills import SkillId
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class SkillCompose(Request, frozen=True):
    skill_id: SkillId
    query: (
        Annotated[str, Meta(min_length=1, max_length=4096, description="The task; relevant reflections come first.")]
        | None
    ) = None
    budget_tokens: Annotated[
        int, Meta(ge=0, le=MAX_TOKENS, description="Token budget for the reflections (cl100k).")
    ] = DEFAULT_TOKENS


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
    return compose.compose(ctx, request.skill_id, request.query, request.budget_tokens)
