"""Operations on principals: people and agents with their aliases."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.people import erase_person
from holdfast.features.people import service as principals
from holdfast.features.people.erase_person import ErasureResult
from holdfast.features.people.model import Principal
from holdfast.features.people.service import PrincipalNames
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

Name = Annotated[
    str, Meta(min_length=1, max_length=128, description="A name, such as ann or slack:U42.", extra={"argument": True})
]


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
    columns=("principal", "display"),
    examples=(
        Example({"alias": "slack:U42", "principal": "ann"}),
        Example({"alias": "ann", "principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"alias": "", "principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"alias": "slack:U99", "principal": "ann"}, prepared=True),
    ),
)
def principal_merge(ctx: Context, request: PrincipalMerge) -> PrincipalNames:
    """Make a name an alias of a person.

    Both names then share what is known of either. Records keep the name they were written under, so `person unalias`
    can separate them again.
    """
    return principals.merge(ctx, request.alias, request.principal)


class PrincipalSplit(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Alias to separate.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/split",
    cli=("person", "unalias"),
    aliases=("principal split", "person split"),
    admin=True,
    columns=("principal", "display"),
    examples=(Example({"alias": "nobody-yet"}, error="NOT_FOUND"), Example({"alias": "slack:U42"}, prepared=True)),
)
def principal_split(ctx: Context, request: PrincipalSplit) -> PrincipalNames:
    """Separate an alias from its principal, with everything written under it."""
    return principals.split(ctx, request.alias)


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
    columns=("principal", "display"),
    examples=(Example({"name": "ann", "display": "Ann Example"}), Example({"name": "ann"}, error="VALIDATION_FAILED")),
)
def principal_describe(ctx: Context, request: PrincipalDescribe) -> PrincipalNames:
    """Set the display name of a person or an agent."""
    return principals.describe(ctx, request.name, request.display)


class PrincipalShow(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}",
    cli=("person", "show"),
    aliases=("principal show",),
    columns=("principal", "display"),
    examples=(
        Example({"name": "ann"}),
        Example({"name": "x" * 129}, error="VALIDATION_FAILED"),
        Example({"name": "slack:U42"}, prepared=True),
    ),
)
def principal_show(ctx: Context, request: PrincipalShow) -> PrincipalNames:
    """Show the principal of a name and all its aliases."""
    return principals.show(ctx, request.name)


class PrincipalList(Request, frozen=True):
    limit: Limit = 100
    after: Annotated[str, Meta(max_length=128, description="Only names after this one.")] = ""


class Names(Struct, frozen=True, kw_only=True):
    names: list[Principal]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/principals",
    cli=("person", "list"),
    aliases=("principal list",),
    admin=True,
    columns=("name", "stands_for", "display"),
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED"), Example({"limit": 20}, prepared=True)),
)
def principal_list(ctx: Context, request: PrincipalList) -> Names:
    """List known names and the principals they stand for."""
    found = principals.list_principals(ctx, request.limit, request.after)
    return Names(names=found, count=len(found))


class PrincipalPurge(Request, frozen=True):
    name: Annotated[Name, Meta(description="Any name of the person.")]
    agent_id: Actor | None = None


@operation(
    Effect.DESTROY,
    "POST /api/v1/principals/purge",
    cli=("person", "erase"),
    aliases=("principal purge", "person purge"),
    stage="delete",
    admin=True,
    irreversible=True,
    columns=("at", "agent_id"),
    examples=(
        Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"),
        Example({"name": ""}, error="VALIDATION_FAILED"),
        Example({"name": "ann"}, prepared=True),
    ),
)
def principal_purge(ctx: Context, request: PrincipalPurge) -> ErasureResult:
    """Erase a person permanently, under every name, here and in synced stores.

    Deletes rows, history, index entries and embeddings. A digest of each name, the time, the agent and the counts
    remain. Backups are not changed.
    """
    return erase_person.erase_everywhere(ctx, request.name)


class PrincipalForgotten(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "POST /api/v1/principals/forgotten",
    cli=("person", "erasure-status"),
    aliases=("principal forgotten", "person forgotten"),
    admin=True,
    columns=("at", "agent_id"),
    examples=(Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"), Example({"name": "eve"}, prepared=True)),
)
def principal_forgotten(ctx: Context, request: PrincipalForgotten) -> ErasureResult:
    """Show the record of a person's erasure."""
    return erase_person.show_erasure(ctx, request.name)
