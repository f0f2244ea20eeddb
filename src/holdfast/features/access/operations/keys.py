"""Operations on API keys."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.access import keys
from holdfast.features.access.keys import Key
from holdfast.kernel.context import ALL_NAMESPACES, Context, Right
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_time, format_timestamp


class KeyCreate(Request, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64, description="Name of the key.", extra={"argument": True})]
    scope: Annotated[Right, Meta(description="Right: read, write, or admin (everything, keys included).")] = "write"
    namespaces: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=514)]],
            Meta(
                min_length=1,
                max_length=32,
                description="Namespaces with everything below: team/project or team/project/* [default: all].",
            ),
        ]
        | None
    ) = None
    agent_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=128,
                description="Agent of the key [default: key:NAME]. *: taken from the request.",
                extra={"flag": "agent"},
            ),
        ]
        | None
    ) = None


class KeyView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    scope: Right
    namespaces: list[str]
    agent_id: str
    created_at: TimeText
    revoked_at: TimeText | UnsetType = UNSET


class KeyCreateResult(KeyView, frozen=True, kw_only=True):
    key: str
    """The secret, shown only once."""


def key_view(key: Key) -> KeyView:
    return KeyView(
        id=key.id,
        name=key.name,
        scope=key.right,
        namespaces=list(key.namespaces),
        agent_id=key.agent,
        created_at=format_timestamp(key.created_at),
        revoked_at=format_time(key.revoked_at),
    )


@operation(
    Effect.WRITE,
    "POST /api/v1/keys",
    cli=("agents", "key", "create"),
    aliases=("keys create",),
    status=201,
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.access.render:render_new_key",
    examples=(
        Example({"name": "laptop", "scope": "read", "namespaces": ["team/*"]}),
        Example({"name": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"name": "laptop", "scope": "read"}, prepared=True),
    ),
)
def key_create(ctx: Context, request: KeyCreate) -> KeyCreateResult:
    """Create an API key; its secret is shown only once."""
    key, secret = keys.create(ctx, request.name, request.scope, request.namespaces or ALL_NAMESPACES, request.agent_id)
    view = key_view(key)
    return KeyCreateResult(**{name: getattr(view, name) for name in view.__struct_fields__}, key=secret)


class KeyPage(Struct, frozen=True, kw_only=True):
    keys: list[KeyView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/keys",
    cli=("agents", "key", "list"),
    aliases=("keys list",),
    admin=True,
    examples=(Example({}),),
)
def key_list(ctx: Context, request: EmptyRequest) -> KeyPage:
    """List API keys, including revoked ones."""
    with ctx.reading() as session:
        found = [key_view(key) for key in keys.list_keys(ctx, session)]
    return KeyPage(keys=found, count=len(found))


class KeyRevoke(Request, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=128, description="Id of the key.", extra={"argument": True})]


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/keys/{id}",
    cli=("agents", "key", "revoke"),
    aliases=("keys revoke",),
    admin=True,
    examples=(Example({"id": "no-such-key"}, error="NOT_FOUND"), Example({"id": "c7f2086b"}, prepared=True)),
)
def key_revoke(ctx: Context, request: KeyRevoke) -> KeyView:
    """Revoke a key permanently, effective immediately."""
    return key_view(keys.revoke(ctx, request.id))
