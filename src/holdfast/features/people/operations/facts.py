"""Operations on facts about people."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.people import facts
from holdfast.features.people.facts import FACT
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor, Confidence, Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText

Key = Annotated[str, Meta(min_length=1, max_length=256, description="Key of the fact.", extra={"argument": True})]
Principal = Annotated[
    str, Meta(min_length=1, max_length=128, description="Person [default: the agent].", extra={"short": "w"})
]


class FactView(Struct, frozen=True, kw_only=True):
    key: str
    value: str
    principal: str
    confidence: float
    updated_at: TimeText
    memory_id: str
    agent_id: str
    learned_from: str | UnsetType = UNSET
    contradicted: list[str] | UnsetType = UNSET
    """Earlier values, oldest first."""


class FactSet(Request, frozen=True):
    key: Key
    value: Annotated[
        str,
        Meta(
            min_length=1, max_length=65_536, description="Value of the fact.", extra={"argument": True, "stdin": True}
        ),
    ]
    principal: Principal | None = None
    confidence: Confidence = 1.0
    learned_from: (
        Annotated[str, Meta(min_length=1, max_length=512, description="Source: a message id or a URL.")] | None
    ) = None
    agent_id: Actor | None = None


class FactSetResult(Struct, frozen=True, kw_only=True):
    fact: FactView
    created: bool
    contradicts: str | UnsetType = UNSET
    """The previous value, if it differs."""


@operation(
    Effect.WRITE,
    "POST /api/v1/facts",
    cli=("fact", "set"),
    stage="store",
    columns=("key", "value"),
    examples=(
        Example({"key": "timezone", "value": "Europe/Berlin", "principal": "ann"}),
        Example({"key": "", "value": "x"}, error="VALIDATION_FAILED"),
        Example({"key": "timezone"}, error="VALIDATION_FAILED"),
        Example({"key": "city", "value": "Bonn", "principal": "ann"}, prepared=True),
        Example({"key": "timezone", "value": "Europe/Berlin"}, prepared=True),
    ),
)
def fact_set(ctx: Context, request: FactSet) -> FactSetResult:
    """Set a fact about a person (history is kept).

    A previous value that differs is returned and recorded as contradicted.
    """
    fact = facts.FactInput(
        request.principal or ctx.caller.agent, request.key, request.value, request.confidence, request.learned_from
    )
    result = facts.set_fact(ctx, fact)
    changed = result.previous is not None and result.previous != request.value
    return FactSetResult(
        fact=FACT.view(FactView, result.memory),
        created=result.created,
        contradicts=value_or_unset(result.previous) if changed else UNSET,
    )


class FactGet(Request, frozen=True):
    key: Key
    principal: Principal | None = None


@operation(
    Effect.READ,
    "GET /api/v1/facts/{key}",
    cli=("fact", "get"),
    columns=("key", "value"),
    examples=(
        Example({"key": "no-such-key"}, error="NOT_FOUND"),
        Example({"key": "city", "principal": "ann"}, prepared=True),
    ),
)
def fact_get(ctx: Context, request: FactGet) -> FactView:
    """Read a fact about a person."""
    return FACT.view(FactView, facts.get_fact(ctx, request.principal or ctx.caller.agent, request.key))


class FactList(Request, frozen=True):
    principal: Principal | None = None
    deleted: Annotated[bool, Meta(description="List deleted facts instead.")] = False


class Facts(Struct, frozen=True, kw_only=True):
    facts: list[FactView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/facts",
    cli=("fact", "list"),
    columns=("key", "value", "confidence"),
    examples=(
        Example({"principal": "ann"}),
        Example({"principal": ""}, error="VALIDATION_FAILED"),
        Example({"principal": "ann", "deleted": True}, prepared=True),
    ),
)
def fact_list(ctx: Context, request: FactList) -> Facts:
    """List the facts about a person."""
    found = FACT.views(FactView, facts.list_facts(ctx, request.principal or ctx.caller.agent, deleted=request.deleted))
    return Facts(facts=found, count=len(found))


class FactEverybody(Request, frozen=True):
    key: Annotated[Key, Meta(description="Only facts with this key.")] | None = None
    limit: Limit = 100
    offset: Skip = 0


@operation(
    Effect.READ,
    "GET /api/v1/people/facts",
    cli=("fact", "list-all"),
    aliases=("fact everybody",),
    columns=("principal", "key", "value"),
    examples=(Example({"key": "city"}), Example({}), Example({"key": ""}, error="VALIDATION_FAILED")),
)
def fact_everybody(ctx: Context, request: FactEverybody) -> Facts:
    """List facts about all people, optionally of one key."""
    found = FACT.views(FactView, facts.list_facts_of_all(ctx, request.key, request.limit, request.offset))
    return Facts(facts=found, count=len(found))


class FactDelete(Request, frozen=True):
    key: Annotated[Key, Meta(description="Key of the fact to delete.")] | None = None
    principal: Principal | None = None
    every: Annotated[bool, Meta(description="Delete all facts of the person.")] = False
    agent_id: Actor | None = None


@operation(
    Effect.DESTROY,
    "POST /api/v1/facts/delete",
    cli=("fact", "delete"),
    stage="delete",
    columns=("key", "value", "confidence"),
    examples=(
        Example({"key": "no-such-key"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"key": "city", "principal": "ann"}, prepared=True),
        Example({"principal": "ann", "every": True}, prepared=True),
    ),
)
def fact_delete(ctx: Context, request: FactDelete) -> Facts:
    """Delete a fact, or all facts of a person; `fact restore` undoes it."""
    if (request.key is None) != request.every:
        raise Invalid("Give either key or every.", fields=["key", "every"])
    deleted = FACT.views(FactView, facts.delete_facts(ctx, request.principal or ctx.caller.agent, request.key))
    return Facts(facts=deleted, count=len(deleted))


class FactRestore(Request, frozen=True):
    key: Key
    principal: Principal | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/facts/restore",
    cli=("fact", "restore"),
    stage="store",
    columns=("key", "value"),
    examples=(
        Example({"key": "no-such-key"}, error="NOT_FOUND"),
        Example({"key": "pet", "principal": "ann"}, prepared=True),
    ),
)
def fact_restore(ctx: Context, request: FactRestore) -> FactView:
    """Restore the most recently deleted fact of a key."""
    return FACT.view(FactView, facts.restore_fact(ctx, request.principal or ctx.caller.agent, request.key))


class FactHistory(Struct, frozen=True, kw_only=True):
    key: str
    past: list[facts.PastValue]
    """Oldest first."""
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/facts/{key}/history",
    cli=("fact", "history"),
    human="holdfast.features.people.render:render_fact_history",
    examples=(
        Example({"key": "no-such-key"}, error="NOT_FOUND"),
        Example({"key": "city", "principal": "ann"}, prepared=True),
    ),
)
def fact_history(ctx: Context, request: FactGet) -> FactHistory:
    """Show all values of a fact over time."""
    found = facts.list_past_values(ctx, request.principal or ctx.caller.agent, request.key)
    return FactHistory(key=request.key, past=found, count=len(found))
