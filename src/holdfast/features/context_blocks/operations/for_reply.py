"""The `build_context` and `onboarding_tell` operations."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.context_blocks import for_reply as reply_context
from holdfast.features.conversations import onboarding
from holdfast.features.conversations.model import Scope
from holdfast.features.conversations.onboarding import HINTS
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_time

PartName = Literal["history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations"]
StepName = Literal["introduce", "help", "personality", "tasks", "projects"]
ALL_PARTS: tuple[PartName, ...] = ("history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations")


class BuildContext(Request, frozen=True):
    message: Annotated[
        str, Meta(max_length=100_000, description="The message to answer.", extra={"argument": True, "stdin": True})
    ] = ""
    channel: Annotated[str, Meta(max_length=128, description="Channel of the conversation, such as cli or slack.")] = ""
    principal: (
        Annotated[
            str, Meta(min_length=1, max_length=128, description="Person who talks to the agent. Default: the agent.")
        ]
        | None
    ) = None
    namespace: Annotated[Namespace, Meta(description="This namespace and its parents.")] | None = None
    budget: Annotated[int, Meta(ge=100, le=1_000_000, description="Maximum tokens of the block (cl100k).")] = 4000
    parts: Annotated[list[PartName], Meta(max_length=7, description="Only these parts. Default: all.")] = []
    overflow: Annotated[
        Literal["summarise", "drop"], Meta(description="What to do with turns of this conversation that do not fit.")
    ] = "summarise"
    onboarding: Annotated[bool, Meta(description="Also return the next onboarding step.")] = False


class PartItem(Struct, frozen=True, kw_only=True):
    text: str
    id: str
    """Id of a memory or task, or of the conversation for turns without a summary."""
    at: TimeText | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    """True if it looks like a prompt injection."""


class PartView(Struct, frozen=True, kw_only=True):
    name: PartName
    items: list[PartItem]
    tokens: int
    dropped: int
    """Number of items that did not fit."""
    degraded: str | UnsetType = UNSET
    """Why the part is incomplete, if something failed."""


class LanguageView(Struct, frozen=True, kw_only=True):
    """The language to answer in."""

    name: str
    """A code such as de, or the stated preference."""
    by: Literal["preference", "message", "conversation", "default"]
    """A stated preference, the language of the message or of the conversation, or the default."""


class OnboardingView(Struct, frozen=True, kw_only=True):
    """The next onboarding step. Mark it done with `onboarding_tell`."""

    step: StepName
    hint: str


class BuildContextResult(Struct, frozen=True, kw_only=True):
    text: str
    """All parts as one block, fenced as data; empty if nothing was found."""
    parts: list[PartView]
    tokens_used: int
    budget: int
    language: LanguageView
    conversation_id: str | UnsetType = UNSET
    """The open conversation, if any."""
    onboarding: OnboardingView | UnsetType = UNSET
    """Set if requested and a step is left."""


@operation(
    Effect.READ,
    "POST /api/v1/context/build",
    cli=("conversation", "context"),
    aliases=("build-context",),
    stage="recall",
    human="holdfast.features.context_blocks.render:render_reply_context",
    examples=(
        Example({"message": "when do we deploy?", "budget": 1000}),
        Example({"message": "when do we deploy?", "parts": ["facts", "lessons"]}),
        Example({"message": "when do we deploy?", "overflow": "drop"}),
        Example({"message": "when do we deploy?", "onboarding": True, "principal": "ann"}),
        Example({"budget": 1}, error="VALIDATION_FAILED"),
        Example({"parts": ["weather"]}, error="VALIDATION_FAILED"),
    ),
)
def build_context(ctx: Context, request: BuildContext) -> BuildContextResult:
    """Build the context for a reply: history, facts, lessons, tasks, memories.

    Only reads. Each part has a minimum and a maximum share of the budget; dropped items and failures are reported.
    Turns of the conversation that do not fit are summarised, or dropped with `overflow`.
    """
    scope = Scope(request.channel, request.principal or ctx.caller.agent, request.namespace or ctx.namespace)
    done = reply_context.build_reply_context(
        ctx,
        scope,
        request.message,
        request.budget,
        request.parts or ALL_PARTS,
        onboard=request.onboarding,
        overflow=request.overflow,
    )
    parts = [
        PartView(
            name=part.name,  # type: ignore[arg-type]
            items=[
                PartItem(text=item.text, id=item.id, at=format_time(item.at), untrusted=item.untrusted or UNSET)
                for item in part.items
            ],
            tokens=part.tokens,
            dropped=part.dropped,
            degraded=value_or_unset(part.degraded),
        )
        for part in done.parts
    ]
    return BuildContextResult(
        text=done.text,
        parts=parts,
        tokens_used=done.tokens,
        budget=request.budget,
        language=LanguageView(name=done.language.name, by=done.language.by),
        onboarding=UNSET if done.step is None else OnboardingView(step=done.step, hint=HINTS[done.step]),
        conversation_id=UNSET if done.conversation is None else done.conversation.id,
    )


class OnboardingTell(Request, frozen=True):
    step: Annotated[StepName, Meta(description="The step that is done.", extra={"argument": True})]
    principal: (
        Annotated[str, Meta(min_length=1, max_length=128, description="The person. Default: the agent.")] | None
    ) = None
    agent_id: Actor | None = None


class OnboardingTellResult(Struct, frozen=True, kw_only=True):
    step: StepName
    principal: str
    told: bool
    """False if it was already done."""


@operation(
    Effect.WRITE,
    "POST /api/v1/onboarding",
    cli=("person", "onboard"),
    aliases=("onboarding tell",),
    examples=(
        Example({"step": "introduce", "principal": "newcomer"}),
        Example({"step": "projects", "principal": "nobody"}, error="CONFLICT"),
        Example({"step": "dance"}, error="VALIDATION_FAILED"),
    ),
)
def onboarding_tell(ctx: Context, request: OnboardingTell) -> OnboardingTellResult:
    """Mark an onboarding step as done; steps come once, in order."""
    principal = request.principal or ctx.caller.agent
    return OnboardingTellResult(
        step=request.step, principal=principal, told=onboarding.mark_step_done(ctx, principal, request.step)
    )
