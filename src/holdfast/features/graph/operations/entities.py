"""Operations: entities and their aliases."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.graph import entities
from holdfast.features.graph.operations.links import Name
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Content, Metadata, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset


class EntityRegister(Request, frozen=True):
    canonical_name: Annotated[Name, Meta(description="Its main name.", extra={"argument": True, "flag": "name"})]
    namespace: Namespace
    aliases: Annotated[list[Name], Meta(max_length=100, description="Its other names.")] = []
    content: Annotated[Content, Meta(description="Description; default: its name.")] | None = None
    metadata: Metadata = {}
    agent_id: Actor | None = None


class EntityRegisterResult(Struct, frozen=True, kw_only=True):
    entity_id: str
    canonical_name: str
    namespace: str
    aliases: list[str]
    created: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/entities",
    cli=("graph", "entity", "add"),
    aliases=("entity-register",),
    stage="store",
    status=201,
    examples=(
        Example({"canonical_name": "Ada Lovelace", "namespace": "people", "aliases": ["Ada", "Countess Lovelace"]}),
        Example({"canonical_name": " ", "namespace": "people"}, error="VALIDATION_FAILED"),
        Example(
            {"canonical_name": "Ada Lovelace", "namespace": "people", "aliases": ["Ada", "Countess"]}, prepared=True
        ),
    ),
)
def entity_register(ctx: Context, request: EntityRegister) -> EntityRegisterResult:
    """Register an entity with a main name and aliases."""
    (memory, aliases), created = entities.register_entity(
        ctx,
        request.canonical_name,
        request.namespace,
        request.aliases,
        content=request.content,
        metadata=request.metadata,
    )
    return EntityRegisterResult(
        entity_id=memory.id, canonical_name=memory.title, namespace=memory.namespace, aliases=aliases, created=created
    )


class EntityGetByAlias(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Name or alias, case-insensitive.", extra={"argument": True})]
    namespace: Namespace | None = None


class EntityResult(Struct, frozen=True, kw_only=True):
    found: bool
    entity_id: str | UnsetType = UNSET
    canonical_name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    aliases: list[str] | UnsetType = UNSET
    also: list[str] | UnsetType = UNSET
    """Ids of other entities with that name."""


@operation(
    Effect.READ,
    "GET /api/v1/entities/by_alias",
    cli=("graph", "entity", "get"),
    aliases=("entity-get-by-alias",),
    examples=(
        Example({"alias": "nobody"}),
        Example({"alias": "  "}, error="VALIDATION_FAILED"),
        Example({"alias": "Grace"}, prepared=True),
        Example({"alias": "Grace", "namespace": "people"}, prepared=True),
    ),
)
def entity_get_by_alias(ctx: Context, request: EntityGetByAlias) -> EntityResult:
    """Find an entity by name or alias; the newest if several match."""
    with ctx.reading() as session:
        found = entities.find_entity(ctx, session, request.alias, request.namespace)
    if found is None:
        return EntityResult(found=False)
    memory, aliases = found.entity
    return EntityResult(
        found=True,
        entity_id=memory.id,
        canonical_name=memory.title,
        namespace=memory.namespace,
        aliases=aliases,
        also=value_or_unset([other.id for other in found.also] or None),
    )
