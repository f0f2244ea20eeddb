"""Operations on principals: people and agents with their aliases."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.people import erase_principal
from holdfast.features.people import service as principals
from holdfast.features.people.erase_principal import ErasureResult
from holdfast.features.people.service import PrincipalNames
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_timestamp

Name = Annotated[
    str, Meta(min_length=1, max_length=128, description="A name, such as ann or slack:U42.", extra={"argument": True})
]


class PrincipalView(Struct, frozen=True, kw_only=True):
    principal: str
    """The name that all aliases stand for."""
    names: list[str]
    """All names, the principal first."""
    display: str


def _principal_view(principal: "PrincipalNames") -> PrincipalView:
    return PrincipalView(principal=principal.principal, names=list(principal.names), display=principal.display)


class PrincipalMerge(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Name that becomes an alias.")]
    principal: Annotated[Name, Meta(description="Principal it becomes an alias of.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/merge",
    cli=("person", "alias"),
    aliases=("principal merge", "person merge"),
    admin=True,
    human="holdfast.features.people.render:render_principal",
    examples=(
        Example({"alias": "slack:U42", "principal": "ann"}),
        Example({"alias": "ann", "principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"alias": "", "principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"alias": "slack:U99", "principal": "ann"}, prepared=True),
    ),
)
def principal_merge(ctx: Context, request: PrincipalMerge) -> PrincipalView:
    """Make a name an alias of a person.

    Both names then share what is known of either. Records keep the name they were written under, so `person unalias`
    can separate them again.
    """
    return _principal_view(principals.merge(ctx, request.alias, request.principal))


class PrincipalSplit(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Alias to separate.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/split",
    cli=("person", "unalias"),
    aliases=("principal split", "person split"),
    admin=True,
    human="holdfast.features.people.render:render_principal",
    examples=(Example({"alias": "nobody-yet"}, error="NOT_FOUND"), Example({"alias": "slack:U42"}, prepared=True)),
)
def principal_split(ctx: Context, request: PrincipalSplit) -> PrincipalView:
    """Separate an alias from its principal, with everything written under it."""
    return _principal_view(principals.split(ctx, request.alias))


class PrincipalDescribe(Request, frozen=True):
    name: Name
    display: Annotated[str, Meta(max_length=256, description="Display name.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/describe",
    cli=("person", "rename"),
    aliases=("principal describe", "person describe"),
    admin=True,
    human="holdfast.features.people.render:render_principal",
    examples=(Example({"name": "ann", "display": "Ann Example"}), Example({"name": "ann"}, error="VALIDATION_FAILED")),
)
def principal_describe(ctx: Context, request: PrincipalDescribe) -> PrincipalView:
    """Set the display name of a person or an agent."""
    return _principal_view(principals.describe(ctx, request.name, request.display))


class PrincipalShow(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}",
    cli=("person", "show"),
    aliases=("principal show",),
    human="holdfast.features.people.render:render_principal",
    examples=(
        Example({"name": "ann"}),
        Example({"name": "x" * 129}, error="VALIDATION_FAILED"),
        Example({"name": "slack:U42"}, prepared=True),
    ),
)
def principal_show(ctx: Context, request: PrincipalShow) -> PrincipalView:
    """Show the principal of a name and all its aliases."""
    return _principal_view(principals.show(ctx, request.name))


class PrincipalStats(Struct, frozen=True, kw_only=True):
    """Numbers of live records that you may see."""

    principal: str
    conversations: int
    messages: int
    observations: int
    """Observations that they stored themselves."""
    facts: int


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}/stats",
    cli=("person", "stats"),
    aliases=("principal stats",),
    human="holdfast.features.people.render:render_principal_stats",
    examples=(Example({"name": "ann"}), Example({"name": "x" * 129}, error="VALIDATION_FAILED")),
)
def principal_stats(ctx: Context, request: PrincipalShow) -> PrincipalStats:
    """Count the conversations, messages, observations and facts of a principal."""
    return PrincipalStats(**principals.count_records(ctx, request.name)._asdict())


class PrincipalList(Request, frozen=True):
    limit: Limit = 100
    after: Annotated[str, Meta(max_length=128, description="Only names after this one.")] = ""


class NameView(Struct, frozen=True, kw_only=True):
    name: str
    stands_for: str | None
    display: str


class Names(Struct, frozen=True, kw_only=True):
    names: list[NameView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/principals",
    cli=("person", "list"),
    aliases=("principal list",),
    admin=True,
    human="holdfast.features.people.render:render_principals",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED"), Example({"limit": 20}, prepared=True)),
)
def principal_list(ctx: Context, request: PrincipalList) -> Names:
    """List known names and the principals they stand for."""
    found = principals.list_principals(ctx, request.limit, request.after)
    views = [NameView(name=one.name, stands_for=one.stands_for, display=one.display) for one in found]
    return Names(names=views, count=len(views))


class PrincipalPurge(Request, frozen=True):
    name: Annotated[Name, Meta(description="Any name of the person.")]
    agent_id: Actor | None = None


class ErasureView(Struct, frozen=True, kw_only=True):
    ids: list[str]
    """A digest of each name; the names themselves are erased."""
    at: TimeText
    agent_id: str
    """The agent that erased it."""
    counts: dict[str, int]
    """Number of erased records by kind."""


def _erasure_view(one: "ErasureResult") -> ErasureView:
    return ErasureView(ids=one.ids, at=format_timestamp(one.at), agent_id=one.agent, counts=one.counts)


@operation(
    Effect.DESTROY,
    "POST /api/v1/principals/purge",
    cli=("person", "erase"),
    aliases=("principal purge", "person purge"),
    stage="delete",
    admin=True,
    irreversible=True,
    human="holdfast.features.people.render:render_erasure",
    examples=(
        Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"),
        Example({"name": ""}, error="VALIDATION_FAILED"),
        Example({"name": "ann"}, prepared=True),
    ),
)
def principal_purge(ctx: Context, request: PrincipalPurge) -> ErasureView:
    """Erase a person permanently, under every name, here and in synced stores.

    Deletes rows, history, index entries and embeddings. A digest of each name, the time, the agent and the counts
    remain. Backups are not changed.
    """
    return _erasure_view(erase_principal.erase_everywhere(ctx, request.name))


class PrincipalForgotten(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "POST /api/v1/principals/forgotten",
    cli=("person", "erasure-status"),
    aliases=("principal forgotten", "person forgotten"),
    admin=True,
    human="holdfast.features.people.render:render_erasure",
    examples=(Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"), Example({"name": "eve"}, prepared=True)),
)
def principal_forgotten(ctx: Context, request: PrincipalForgotten) -> ErasureView:
    """Show the record of a person's erasure."""
    return _erasure_view(erase_principal.show_erasure(ctx, request.name))
