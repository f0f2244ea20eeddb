"""Operations on observations and limitations."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.learning import observations
from holdfast.features.learning.observations import LIMITATION, OBSERVATION
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor, Id, Limit, Namespace, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, parse_time

ObservationType = Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
Title = Annotated[str, Meta(min_length=1, max_length=512, description="Short title.", extra={"argument": True})]
ObservationPart = Annotated[str, Meta(max_length=16_384)]


class ObservationView(Struct, frozen=True, kw_only=True):
    id: str
    """A memory id: observations can be recalled, linked, deleted and restored like any memory."""
    type: ObservationType
    title: str
    namespace: str
    agent_id: str
    created_at: TimeText
    updated_at: TimeText
    what: str | UnsetType = UNSET
    why: str | UnsetType = UNSET
    where: str | UnsetType = UNSET
    learned: str | UnsetType = UNSET


class ObservationSave(Request, frozen=True):
    title: Title
    type: Annotated[ObservationType, Meta(description="Type of observation.")]
    what: Annotated[ObservationPart, Meta(description="What was observed or done.")] | None = None
    why: Annotated[ObservationPart, Meta(description="Why it happened or was done.")] | None = None
    where: Annotated[ObservationPart, Meta(description="Files or places concerned.")] | None = None
    learned: Annotated[ObservationPart, Meta(description="The lesson from it.")] | None = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/observations",
    cli=("learn", "observation", "save"),
    aliases=("observation save",),
    stage="store",
    status=201,
    columns=("title", "type"),
    examples=(
        Example(
            {"title": "Lock held over a request", "type": "bugfix", "what": "The pool waited.", "where": "pool.py"}
        ),
        Example({"title": "", "type": "bugfix"}, error="VALIDATION_FAILED"),
        Example({"title": "x", "type": "Bugfix"}, error="VALIDATION_FAILED"),
    ),
)
def observation_save(ctx: Context, request: ObservationSave) -> ObservationView:
    """Store a typed observation: what, why, where, and the lesson from it."""
    parts = {name: part for name in observations.PARTS if (part := getattr(request, name)) is not None}
    place = request.namespace or ctx.namespace
    added = observations.add_observation(ctx, request.type, request.title, parts, place)
    return OBSERVATION.view(ObservationView, added)


class ObservationUpdate(Request, frozen=True):
    id: Id
    title: Annotated[str, Meta(min_length=1, max_length=512, description="New title.")] | None = None
    type: Annotated[ObservationType, Meta(description="New type.")] | None = None
    what: Annotated[ObservationPart, Meta(description="New text; empty removes it.")] | None = None
    why: Annotated[ObservationPart, Meta(description="New text; empty removes it.")] | None = None
    where: Annotated[ObservationPart, Meta(description="New text; empty removes it.")] | None = None
    learned: Annotated[ObservationPart, Meta(description="New text; empty removes it.")] | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "PATCH /api/v1/observations/{id}",
    cli=("learn", "observation", "update"),
    aliases=("observation update",),
    stage="store",
    columns=("title", "type"),
    examples=(
        Example({"id": "no-such-observation", "what": "x"}, error="NOT_FOUND"),
        Example({"id": "no-such-observation"}, error="VALIDATION_FAILED"),
        Example({"id": "93e5b2c8", "why": "Two workers shared it."}, prepared=True),
    ),
)
def observation_update(ctx: Context, request: ObservationUpdate) -> ObservationView:
    """Change parts of an observation; an empty value removes a part."""
    changes = {name: part for name in observations.PARTS if (part := getattr(request, name)) is not None}
    if not changes and request.title is None and request.type is None:
        raise Invalid("Nothing to change: give at least one field.")
    parts = {name: part or None for name, part in changes.items()}
    return OBSERVATION.view(
        ObservationView, observations.update_observation(ctx, request.id, request.title, request.type, parts)
    )


class ObservationSearch(Request, frozen=True):
    query: (
        Annotated[
            str, Meta(max_length=100_000, description="Keywords (default: list the newest).", extra={"argument": True})
        ]
        | None
    ) = None
    type: Annotated[list[ObservationType], Meta(max_length=7, description="Only of these types.")] = []
    namespace: Namespace | None = None
    since: Timestamp | None = None
    limit: Limit = 20


class Observations(Struct, frozen=True, kw_only=True):
    observations: list[ObservationView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/observations",
    cli=("learn", "observation", "search"),
    aliases=("observation search",),
    columns=("id", "type", "created_at", "title"),
    empty="No observations found.",
    examples=(
        Example({}),
        Example({"query": "lock", "type": ["bugfix"]}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
    ),
)
def observation_search(ctx: Context, request: ObservationSearch) -> Observations:
    """Search observations by keywords and type, or list the newest."""
    since = parse_time(request.since, "since")
    types = tuple(request.type)
    found = observations.search_observations(ctx, request.query, types, request.namespace, since, request.limit)
    return Observations(observations=OBSERVATION.views(ObservationView, found), count=len(found))


class LimitationView(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    description: str
    status: Literal["open", "resolved"]
    namespace: str
    created_at: TimeText
    seen: int
    """Number of times it occurred."""
    plan: str | UnsetType = UNSET
    how: str | UnsetType = UNSET
    resolved_at: TimeText | UnsetType = UNSET


class LimitationAdd(Request, frozen=True):
    title: Title
    description: Annotated[str, Meta(max_length=16_384, description="What does not work.")] = ""
    plan: Annotated[str, Meta(max_length=16_384, description="Planned fix.")] = ""
    evidence: Annotated[str, Meta(max_length=2000, description="What happened this time.")] | None = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


class LimitationAddResult(Struct, frozen=True, kw_only=True):
    limitation: LimitationView
    created: bool
    """False: an existing limitation gained evidence and was reopened if resolved."""


@operation(
    Effect.WRITE,
    "POST /api/v1/limitations",
    cli=("learn", "limitation", "add"),
    aliases=("limitation add",),
    stage="store",
    status=201,
    columns=("title", "status"),
    examples=(
        Example({"title": "Cannot read scanned letters", "description": "There is no text recognition."}),
        Example({"title": ""}, error="VALIDATION_FAILED"),
    ),
)
def limitation_add(ctx: Context, request: LimitationAdd) -> LimitationAddResult:
    """Add a limitation, or add evidence to the existing one."""
    memory, is_new = observations.add_limitation(
        ctx, request.title, request.description, request.plan, request.namespace or ctx.namespace, request.evidence
    )
    return LimitationAddResult(limitation=LIMITATION.view(LimitationView, memory), created=is_new)


class LimitationResolve(Request, frozen=True):
    id: Id
    how: Annotated[str, Meta(max_length=16_384, description="How it was fixed.")] = ""
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/limitations/{id}/resolve",
    cli=("learn", "limitation", "resolve"),
    aliases=("limitation resolve",),
    stage="store",
    columns=("title", "status"),
    examples=(
        Example({"id": "no-such-limitation"}, error="NOT_FOUND"),
        Example({"id": "62d8a0f4", "how": "Added text recognition."}, prepared=True),
    ),
)
def limitation_resolve(ctx: Context, request: LimitationResolve) -> LimitationView:
    """Mark a limitation as resolved."""
    return LIMITATION.view(LimitationView, observations.resolve_limitation(ctx, request.id, request.how))


class LimitationList(Request, frozen=True):
    status: Annotated[Literal["open", "resolved", "all"], Meta(description="Only with this status.")] = "open"
    namespace: Namespace | None = None
    limit: Limit = 50


class Limitations(Struct, frozen=True, kw_only=True):
    limitations: list[LimitationView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/limitations",
    cli=("learn", "limitation", "list"),
    aliases=("limitation list",),
    columns=("id", "status", "seen", "title"),
    examples=(Example({}), Example({"status": "all"}), Example({"status": "closed"}, error="VALIDATION_FAILED")),
)
def limitation_list(ctx: Context, request: LimitationList) -> Limitations:
    """List limitations, oldest first."""
    status = None if request.status == "all" else request.status
    found = LIMITATION.views(
        LimitationView, observations.list_limitations(ctx, request.namespace, status, request.limit)
    )
    return Limitations(limitations=found, count=len(found))
