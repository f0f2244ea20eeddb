"""What an agent should know before it answers."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.context_blocks import for_reply as briefing
from holdfast.features.conversations import onboarding_progress as onboarding
from holdfast.features.conversations.store import Scope
from holdfast.features.memories.views import known, text
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import Actor, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

PartName = Literal["history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations"]
StepName = Literal["introduce", "help", "personality", "tasks", "projects"]
ALL: tuple[PartName, ...] = ("history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations")


class BuildContext(Request, frozen=True):
    message: Annotated[
        str, Meta(max_length=100_000, description="What is to be answered.", extra={"argument": True, "stdin": True})
    ] = ""
    channel: Annotated[str, Meta(max_length=128, description="Where they talk, such as cli or slack.")] = ""
    principal: Annotated[str, Meta(min_length=1, max_length=128, description="Who talks; else the agent.")] | None = (
        None
    )
    namespace: Annotated[Namespace, Meta(description="Here and above.")] | None = None
    budget: Annotated[int, Meta(ge=100, le=1_000_000, description="Fit into this many tokens of cl100k.")] = 4000
    parts: Annotated[list[PartName], Meta(max_length=7, description="Only these; all, unless told.")] = []
    overflow: Annotated[
        Literal["summarise", "drop"], Meta(description="What becomes of turns of this conversation that do not fit.")
    ] = "summarise"
    onboarding: Annotated[bool, Meta(description="Also which step of getting to know them comes next.")] = False


class PartItem(Struct, frozen=True, kw_only=True):
    text: str
    id: str
    """Of a memory, or of a task; or of the conversation, for what no memory tells yet."""
    at: str | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    """Whether it reads like an attempt to give orders."""


class PartView(Struct, frozen=True, kw_only=True):
    name: PartName
    items: list[PartItem]
    tokens: int
    dropped: int
    """What was found and did not fit."""
    degraded: str | UnsetType = UNSET
    """Why the part is not whole, if something failed."""


class LanguageView(Struct, frozen=True, kw_only=True):
    """In which language to answer."""

    name: str
    """A code such as de, or whatever they said that they prefer."""
    by: Literal["preference", "message", "conversation", "default"]
    """What they said, what the message or the conversation is written in, or nothing that tells."""


class OnboardingView(Struct, frozen=True, kw_only=True):
    """The step to tell next; note it with onboarding tell once it was told."""

    step: StepName
    hint: str


class Built(Struct, frozen=True, kw_only=True):
    text: str
    """All parts as one block, fenced as data; empty if there is nothing to say."""
    parts: list[PartView]
    tokens_used: int
    budget: int
    language: LanguageView
    conversation_id: str | UnsetType = UNSET
    """The conversation that goes on, if one does."""
    onboarding: OnboardingView | UnsetType = UNSET
    """If it was asked for, and there is one."""


@operation(
    Effect.READ,
    "POST /api/v1/context/build",
    family="power",
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
def build_context(hold: Hold, request: BuildContext) -> Built:
    """Gather what an agent should know before it answers: history, facts, lessons, tasks, what it recalls.

    It only reads. Each part has a least and a most of the budget; what did not fit and what failed is said.
    Turns of the conversation that do not fit are summarised, unless they are to be dropped.
    """
    scope = Scope(request.channel, request.principal or hold.caller.agent, request.namespace or hold.namespace)
    done = briefing.brief(
        hold,
        scope,
        request.message,
        request.budget,
        request.parts or ALL,
        onboard=request.onboarding,
        overflow=request.overflow,
    )
    parts = [
        PartView(
            name=part.name,  # type: ignore[arg-type]
            items=[
                PartItem(text=item.text, id=item.id, at=text(item.at), untrusted=item.untrusted or UNSET)
                for item in part.items
            ],
            tokens=part.tokens,
            dropped=part.dropped,
            degraded=known(part.degraded),
        )
        for part in done.parts
    ]
    return Built(
        text=done.text,
        parts=parts,
        tokens_used=done.tokens,
        budget=request.budget,
        language=LanguageView(name=done.language.name, by=done.language.by),
        onboarding=UNSET if done.step is None else OnboardingView(step=done.step, hint=briefing.hint_of(done.step)),
        conversation_id=UNSET if done.conversation is None else done.conversation.id,
    )


class OnboardingTell(Request, frozen=True):
    step: Annotated[StepName, Meta(description="Which step was told.", extra={"argument": True})]
    principal: Annotated[str, Meta(min_length=1, max_length=128, description="To whom; else the agent.")] | None = None
    agent_id: Actor | None = None


class OnboardingTold(Struct, frozen=True, kw_only=True):
    step: StepName
    principal: str
    told: bool
    """False: it was told before."""


@operation(
    Effect.WRITE,
    "POST /api/v1/onboarding",
    family="power",
    cli=("onboarding", "tell"),
    examples=(
        Example({"step": "introduce", "principal": "newcomer"}),
        Example({"step": "projects", "principal": "nobody"}, error="CONFLICT"),
        Example({"step": "dance"}, error="VALIDATION_FAILED"),
    ),
)
def onboarding_tell(hold: Hold, request: OnboardingTell) -> OnboardingTold:
    """Note that a step of getting to know somebody was told to them: each comes once, in its order."""
    principal = request.principal or hold.caller.agent
    return OnboardingTold(step=request.step, principal=principal, told=onboarding.tell(hold, principal, request.step))
