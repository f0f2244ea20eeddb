"""People and agents: which names stand for one and the same."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.people import erase_principal as forget_principal
from holdfast.features.people import service as principals
from holdfast.features.people.erase_principal import Tombstone
from holdfast.features.people.service import Known
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import Actor, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text

Name = Annotated[
    str, Meta(min_length=1, max_length=128, description="A name, such as ann or slack:U42.", extra={"argument": True})
]


class PrincipalView(Struct, frozen=True, kw_only=True):
    principal: str
    """Whom all of the names stand for."""
    names: list[str]
    """Every one of them, that of the principal first."""
    display: str


def _view(known: "Known") -> PrincipalView:
    return PrincipalView(principal=known.principal, names=list(known.names), display=known.display)


class PrincipalMerge(Request, frozen=True):
    alias: Annotated[Name, Meta(description="The name that is to stand for another.")]
    principal: Annotated[Name, Meta(description="For whom it is to stand.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/merge",
    family="power",
    admin=True,
    cli=("principal", "merge"),
    human="holdfast.features.people.render:render_principal",
    examples=(
        Example({"alias": "slack:U42", "principal": "ann"}),
        Example({"alias": "ann", "principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"alias": "", "principal": "ann"}, error="VALIDATION_FAILED"),
    ),
)
def principal_merge(hold: Hold, request: PrincipalMerge) -> PrincipalView:
    """Let a name stand for a person from now on: what is known of either is then known of both.

    What was written keeps the name that it was written under, so `principal split` parts them again.
    """
    return _view(principals.merge(hold, request.alias, request.principal))


class PrincipalSplit(Request, frozen=True):
    alias: Annotated[Name, Meta(description="The name that is to stand for itself.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/split",
    family="power",
    admin=True,
    cli=("principal", "split"),
    human="holdfast.features.people.render:render_principal",
    examples=(Example({"alias": "nobody-yet"}, error="NOT_FOUND"),),
)
def principal_split(hold: Hold, request: PrincipalSplit) -> PrincipalView:
    """Let a name stand for itself again, with all that was written under it."""
    return _view(principals.split(hold, request.alias))


class PrincipalDescribe(Request, frozen=True):
    name: Name
    display: Annotated[str, Meta(max_length=256, description="How they are called.")]
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/principals/describe",
    family="power",
    admin=True,
    cli=("principal", "describe"),
    human="holdfast.features.people.render:render_principal",
    examples=(Example({"name": "ann", "display": "Ann Example"}), Example({"name": "ann"}, error="VALIDATION_FAILED")),
)
def principal_describe(hold: Hold, request: PrincipalDescribe) -> PrincipalView:
    """Say how a person or an agent is called."""
    return _view(principals.describe(hold, request.name, request.display))


class PrincipalShow(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}",
    family="power",
    cli=("principal", "show"),
    human="holdfast.features.people.render:render_principal",
    examples=(Example({"name": "ann"}), Example({"name": "x" * 129}, error="VALIDATION_FAILED")),
)
def principal_show(hold: Hold, request: PrincipalShow) -> PrincipalView:
    """Say whom a name stands for, and by which other names they are known."""
    return _view(principals.show(hold, request.name))


class PrincipalStats(Struct, frozen=True, kw_only=True):
    """How much there is, as far as you may see it; what was deleted or archived does not count."""

    principal: str
    conversations: int
    messages: int
    observations: int
    """That they noted themselves."""
    facts: int


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}/stats",
    family="power",
    cli=("principal", "stats"),
    human="holdfast.features.people.render:render_principal_stats",
    examples=(Example({"name": "ann"}), Example({"name": "x" * 129}, error="VALIDATION_FAILED")),
)
def principal_stats(hold: Hold, request: PrincipalShow) -> PrincipalStats:
    """Count conversations, messages, observations and facts of somebody, under all of their names."""
    return PrincipalStats(**principals.counts(hold, request.name)._asdict())


class PrincipalList(Request, frozen=True):
    limit: Limit = 100
    after: Annotated[str, Meta(max_length=128, description="Names that come after this one.")] = ""


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
    family="power",
    admin=True,
    cli=("principal", "list"),
    human="holdfast.features.people.render:render_principals",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def principal_list(hold: Hold, request: PrincipalList) -> Names:
    """List names that something was said of, and whom they stand for."""
    found = principals.browse(hold, request.limit, request.after)
    shown = [NameView(name=one.name, stands_for=one.stands_for, display=one.display) for one in found]
    return Names(names=shown, count=len(shown))


class PrincipalPurge(Request, frozen=True):
    name: Annotated[Name, Meta(description="Any name of theirs.")]
    agent_id: Actor | None = None


class Forgotten(Struct, frozen=True, kw_only=True):
    ids: list[str]
    """A digest of each name; the names themselves are gone."""
    at: str
    agent_id: str
    """Who did it."""
    counts: dict[str, int]
    """How much there was, by what it was."""


def _forgotten(one: "Tombstone") -> Forgotten:
    return Forgotten(ids=one.ids, at=to_text(one.at), agent_id=one.agent, counts=one.counts)


@operation(
    Effect.DESTROY,
    "POST /api/v1/principals/purge",
    family="power",
    stage="delete",
    admin=True,
    irreversible=True,
    cli=("principal", "purge"),
    human="holdfast.features.people.render:render_erasure",
    examples=(
        Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"),
        Example({"name": ""}, error="VALIDATION_FAILED"),
    ),
)
def principal_purge(hold: Hold, request: PrincipalPurge) -> Forgotten:
    """Forget a person for good, under every name, here and in every store that hears of it.

    Rows, history, index entries and vectors go. What remains is a digest of each name, when it was done, by whom, and
    how much there was. Backups stay as they are.
    """
    return _forgotten(forget_principal.forget(hold, request.name))


class PrincipalForgotten(Request, frozen=True):
    name: Name


@operation(
    Effect.READ,
    "POST /api/v1/principals/forgotten",
    family="power",
    admin=True,
    cli=("principal", "forgotten"),
    human="holdfast.features.people.render:render_erasure",
    examples=(Example({"name": "nobody-of-this-name"}, error="NOT_FOUND"),),
)
def principal_forgotten(hold: Hold, request: PrincipalForgotten) -> Forgotten:
    """Show that somebody was forgotten, to whoever still knows the name."""
    return _forgotten(forget_principal.remembered(hold, request.name))
