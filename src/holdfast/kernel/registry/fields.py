"""Field types that several operations share: their limits, descriptions and letters on the command line."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.kernel.records.memory import Citation, Span, Tier
from holdfast.kernel.vector import MOST_MODEL, MOST_NUMBERS, Embedding, embedding

_NAMESPACE = Meta(
    min_length=1,
    max_length=512,
    description="Path of at most 8 segments, such as team/project.",
    extra={"role": "namespace", "short": "n"},
)
Id = Annotated[
    str,
    Meta(min_length=1, max_length=128, description="Id, or an unambiguous beginning of one.", extra={"argument": True}),
]
Title = Annotated[
    str, Meta(min_length=1, max_length=512, description="Unique within its namespace.", extra={"short": "T"})
]
Content = Annotated[
    str, Meta(min_length=1, max_length=65_536, description="What to remember.", extra={"short": "c", "stdin": True})
]
Namespace = Annotated[str, _NAMESPACE]
_LIFETIMES = "short: 6 hours, mid: 7 days, long: forever."
TierField = Annotated[Tier, Meta(description=_LIFETIMES, extra={"short": "t"})]
NewTier = Annotated[
    Tier, Meta(description=f"{_LIFETIMES} [default: setting default_tier (long)]", extra={"short": "t"})
]
"""The tier of a memory to be stored; without one the setting decides."""
Tag = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[^,]+$")]
Tags = Annotated[list[Tag], Meta(max_length=50, description="Labels.")]
Priority = Annotated[int, Meta(ge=1, le=10, description="1 to 10.", extra={"short": "p"})]
Confidence = Annotated[float, Meta(ge=0, le=1, description="0 to 1.")]
AgentId = Annotated[str, Meta(min_length=1, max_length=128, description="An agent's id.")]
Actor = Annotated[str, Meta(min_length=1, max_length=128, description="Act as this agent.", extra={"role": "actor"})]
Moment = Annotated[str, Meta(min_length=4, max_length=40, description="RFC 3339 time, or a date.")]
AsOf = Annotated[Moment, Meta(description="As it was true then.")]
StoredSince = Annotated[Moment, Meta(description="Only what was stored then or later.")]
StoredUntil = Annotated[Moment, Meta(description="Only what was stored then or before.")]
KnownAt = Annotated[Moment, Meta(description="As this store knew it then.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="At most this many.")]
Skip = Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Leave out this many first.")]
Metadata = Annotated[dict[str, Any], Meta(description="Any JSON object of your own.")]
SourceUri = Annotated[str, Meta(min_length=5, max_length=4096, description="uri:, doc: or file: and what it names.")]


class EmbeddingGiven(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a text lies in the space of a model, as the caller computed it."""

    model: Annotated[str, Meta(min_length=1, max_length=MOST_MODEL)]
    vector: Annotated[list[float], Meta(min_length=1, max_length=MOST_NUMBERS)]


EmbeddingField = Annotated[
    EmbeddingGiven, Meta(description="A vector of your own: model and vector.", extra={"not_on": ("mcp",)})
]


def embedding_of(given: EmbeddingGiven | None) -> Embedding | None:
    """The vector that came with a request."""
    return None if given is None else embedding(given.model, given.vector)


class SpanGiven(Span, frozen=True, forbid_unknown_fields=True):
    """A half-open range of bytes."""


class CitationGiven(Citation, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a claim was read."""

    span: SpanGiven | None = None
