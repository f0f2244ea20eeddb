"""Field types shared by operations: limits, descriptions and short options."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.kernel.records.memory import Citation, Span, Tier
from holdfast.kernel.records.validate import validate_embedding
from holdfast.kernel.vector import MAX_DIMENSIONS, MAX_MODEL_CHARS, Embedding

_NAMESPACE = Meta(
    min_length=1,
    max_length=512,
    description="Namespace path, at most 8 segments, such as team/project.",
    extra={"role": "namespace", "short": "n"},
)
Id = Annotated[
    str, Meta(min_length=1, max_length=128, description="Id or unambiguous id prefix.", extra={"argument": True})
]
Title = Annotated[
    str, Meta(min_length=1, max_length=512, description="Title, unique in its namespace.", extra={"short": "T"})
]
Content = Annotated[
    str, Meta(min_length=1, max_length=65_536, description="Text to remember.", extra={"short": "c", "stdin": True})
]
Namespace = Annotated[str, _NAMESPACE]
AsAgent = Annotated[
    Namespace, Meta(description="See only what an agent in this namespace sees.", extra={"advanced": True})
]
_LIFETIMES = "short: 6 hours, mid: 7 days, long: forever."
TierField = Annotated[Tier, Meta(description=_LIFETIMES, extra={"short": "t"})]
NewTier = Annotated[
    Tier, Meta(description=f"{_LIFETIMES} [default: setting default_tier (long)]", extra={"short": "t"})
]
"""Tier of a new memory; the setting is the default."""
Tag = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[^,]+$")]
Tags = Annotated[list[Tag], Meta(max_length=50, description="Tags.")]
Priority = Annotated[int, Meta(ge=1, le=10, description="Priority, 1 to 10.", extra={"short": "p"})]
Confidence = Annotated[float, Meta(ge=0, le=1, description="Confidence, 0 to 1.", extra={"advanced": True})]
AgentId = Annotated[str, Meta(min_length=1, max_length=128, description="Agent id.")]
Actor = Annotated[str, Meta(min_length=1, max_length=128, description="Act as this agent.", extra={"role": "actor"})]
Timestamp = Annotated[
    str, Meta(min_length=4, max_length=40, description="RFC 3339 time or date.", extra={"time": True})
]
AsOf = Annotated[Timestamp, Meta(description="State as it was true at this time.")]
StoredSince = Annotated[Timestamp, Meta(description="Only memories stored at or after this time.")]
StoredUntil = Annotated[Timestamp, Meta(description="Only memories stored at or before this time.")]
KnownAt = Annotated[Timestamp, Meta(description="State as this store knew it at this time.", extra={"advanced": True})]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results.")]
Skip = Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Number of results to skip.", extra={"advanced": True})]
Metadata = Annotated[dict[str, Any], Meta(description="Any JSON object.", extra={"advanced": True})]
SourceUri = Annotated[
    str,
    Meta(
        min_length=5,
        max_length=4096,
        description="Source URI: uri:, doc: or file:, followed by a name.",
        extra={"advanced": True},
    ),
]


class EmbeddingInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An embedding computed by the caller."""

    model: Annotated[str, Meta(min_length=1, max_length=MAX_MODEL_CHARS)]
    vector: Annotated[list[float], Meta(min_length=1, max_length=MAX_DIMENSIONS)]


EmbeddingField = Annotated[
    EmbeddingInput,
    Meta(description="Precomputed embedding: model and vector.", extra={"not_on": ("mcp",), "advanced": True}),
]


def embedding_of(given: EmbeddingInput | None) -> Embedding | None:
    """Validate the embedding of a request."""
    return None if given is None else validate_embedding(given.model, given.vector)


class SpanInput(Span, frozen=True, forbid_unknown_fields=True):
    """A half-open range of bytes."""


class CitationInput(Citation, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Source of a claim."""

    span: SpanInput | None = None
