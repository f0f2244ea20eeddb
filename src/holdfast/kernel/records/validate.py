"""Validation of memories: every row is validated here, whoever sent it."""

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.memory import IMPORTED_FROM, SOURCES, Category, Citation, Kind, Memory, Scope, Span, Tier
from holdfast.kernel.text.passages import head, spoken_time
from holdfast.kernel.timestamps import DAY, SECOND, from_text

MOST_BYTES = {"title": 512, "content": 65_536, "namespace": 512, "tag": 128, "metadata": 65_536, "source_uri": 4096}
MOST_TAGS = 50
MOST_CITATIONS = 64
MOST_SEGMENTS = 8
VIEW = "_invalidations"
"""Last namespace segment under which other programs look for invalidations."""
MOST_DEPTH = 32
LONGEST_TTL = 365 * 86_400
DEEPEST_TAKEN_IN = 1000
"""Depth limit of imported reflections, beyond any local policy."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NOT_IN_NAMESPACE = re.compile("[\\x00-\\x20\\x7f*\\\\\\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Draft(Struct, frozen=True, kw_only=True):
    """A caller's input. Unset fields get defaults in a create and stay unchanged in a merge."""

    title: str
    content: str
    namespace: str = "global"
    tier: Tier | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    category: Category | None | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    source: str = "api"
    scope: Scope | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    citations: tuple[Citation, ...] | UnsetType = UNSET
    source_uri: str | None | UnsetType = UNSET
    source_span: Span | None | UnsetType = UNSET
    valid_from: int | None | UnsetType = UNSET
    valid_until: int | None | UnsetType = UNSET
    speaker: str | None | UnsetType = UNSET
    occurred_at: int | None | UnsetType = UNSET
    thread: str | None | UnsetType = UNSET
    place: int | None | UnsetType = UNSET
    expires_at: int | None | UnsetType = UNSET
    ttl_secs: int | None = None


def admit(
    draft: Draft,
    *,
    id: str,
    agent: str,
    origin: str,
    now: int,
    lifetimes: Lifetimes,
    default_tier: Tier = "long",
    imported: bool = False,
) -> Memory:
    """Create a memory from a draft: validate, normalize and fill every field. Only imports set the original author."""
    told = _told(draft)

    def given(name: str, default: Any) -> Any:
        value = getattr(draft, name)
        return default if value is UNSET else value

    memory = Memory(
        id=id,
        namespace=namespace(draft.namespace),
        title=title(draft.title),
        content=content(draft.content),
        kind=given("kind", "observation"),
        category=given("category", None),
        tier=given("tier", default_tier),
        priority=given("priority", 5),
        confidence=given("confidence", 1.0),
        source=draft.source,
        scope=given("scope", declared_scope(draft.metadata) or "collective"),
        agent=agent,
        tags=tags(given("tags", ())),
        metadata=(metadata if imported else said_metadata)(given("metadata", {})),
        citations=given("citations", ()),
        source_uri=given("source_uri", None),
        source_span=given("source_span", None),
        reflection_depth=0,
        valid_from=given("valid_from", None),
        valid_until=given("valid_until", None),
        speaker=given("speaker", told["speaker"]),
        occurred_at=given("occurred_at", told["occurred_at"]),
        thread=given("thread", told["thread"]),
        place=given("place", told["place"]),
        expires_at=expiry(draft, given("tier", default_tier), now, lifetimes),
        state="live",
        reason=None,
        created_at=now,
        updated_at=now,
        origin=origin,
        version=1,
        extra={},
    )
    return check(memory)


def check(memory: Memory) -> Memory:
    """Check all rules of a memory except those of single text fields. Used for drafts, patches and imports."""
    must_be_kept(memory.namespace)
    _between("priority", memory.priority, 1, 10)
    _between("confidence", memory.confidence, 0.0, 1.0)
    _one_of("source", memory.source, SOURCES)
    _one_of("tier", memory.tier, get_args(Tier))
    _one_of("kind", memory.kind, get_args(Kind))
    _one_of("scope", memory.scope, get_args(Scope))
    if memory.category is not None:
        _one_of("category", memory.category, get_args(Category))
    if memory.source_uri is not None:
        uri("source_uri", memory.source_uri)
    if memory.source_span is not None:
        span("source_span", memory.source_span)
    if len(memory.citations) > MOST_CITATIONS:
        raise _invalid("citations", f"must be at most {MOST_CITATIONS}, got {len(memory.citations)}")
    for citation in memory.citations:
        _cited(citation)
    for name in ("speaker", "thread", "reason"):
        if (value := getattr(memory, name)) is not None:
            label(name, value)
    if memory.valid_from is not None and memory.valid_until is not None and memory.valid_until <= memory.valid_from:
        raise _invalid("valid_until", "must be later than valid_from")
    return memory


def whole(memory: Memory) -> Memory:
    """Check a memory received from another store. A deleted one may be empty."""
    if namespace(memory.namespace) != memory.namespace or title(memory.title) != memory.title:
        raise _invalid("title", "namespace and title must be normalized (NFC, trimmed)")
    if memory.state != "deleted":
        content(memory.content)
    noted = {key: value for key, value in memory.metadata.items() if value is not None}
    if tags(memory.tags) != memory.tags or metadata(noted) != noted:
        raise _invalid("tags", "tags and metadata must be normalized")
    foreign("extra", memory.extra)
    if not 0 <= memory.reflection_depth <= DEEPEST_TAKEN_IN:
        raise _invalid("reflection_depth", f"must be 0 to {DEEPEST_TAKEN_IN}")
    return check(memory)


def normal(text: str) -> str:
    """Normalize a name to NFC, without validating it."""
    return unicodedata.normalize("NFC", text)


def namespace(text: str, field: str = "namespace") -> str:
    text = normal(_encodable(field, text))
    if not text or len(text.encode()) > MOST_BYTES["namespace"]:
        raise _invalid(field, f"must be 1 to {MOST_BYTES['namespace']} bytes")
    if _NOT_IN_NAMESPACE.search(text):
        raise _invalid(field, "must not contain blanks, control or invisible characters, * or backslashes")
    segments = text.split("/")
    if len(segments) > MOST_SEGMENTS:
        raise _invalid(field, f"must have at most {MOST_SEGMENTS} segments, got {len(segments)}")
    if any(segment in ("", ".", "..") for segment in segments):
        raise _invalid(field, "must not have empty, . or .. segments, or start or end with /")
    return text


def must_be_kept(place: str, field: str = "namespace") -> None:
    """Raise if memories cannot be stored in a namespace, because it is a view."""
    if place.rpartition("/")[2] == VIEW:
        raise _invalid(field, f"a namespace that ends in {VIEW} is a read-only view: write to another one")


def title(text: str, field: str = "title") -> str:
    text = normal(_encodable(field, text)).strip()
    return _clean(field, _sized(field, text, MOST_BYTES["title"]))


def content(text: str, field: str = "content") -> str:
    if not _encodable(field, text).strip():
        raise _invalid(field, "must not be empty")
    if "\x00" in text:
        raise _invalid(field, "must not contain NUL")
    return _sized(field, text, MOST_BYTES["content"])


def label(field: str, text: str, most: int = 512) -> str:
    """Validate a short one-line text, such as a name, a reason or a capability."""
    if "\n" in text or "\t" in text:
        raise _invalid(field, "must be one line")
    return _clean(field, _sized(field, _encodable(field, text), most))


def tags(values: Iterable[str]) -> tuple[str, ...]:
    clean = tuple(dict.fromkeys(_tag(value) for value in values))
    if len(clean) > MOST_TAGS:
        raise _invalid("tags", f"must be at most {MOST_TAGS}, got {len(clean)}")
    return clean


def _tag(value: str) -> str:
    tag = _clean("tags", _sized("tags", _encodable("tags", value).strip(), MOST_BYTES["tag"]))
    if "," in tag:
        raise _invalid("tags", "a tag must not contain a comma")
    return tag


RESERVED_METADATA = ("agent_id", "scope")
"""Metadata keys set by Holdfast; a caller's values are ignored."""


def declared_scope(given: dict[str, Any] | UnsetType) -> Scope | None:
    """Return the scope given in metadata, as older clients do; honoured so that private memories stay private."""
    scope = given.get("scope") if isinstance(given, dict) else None
    if scope is not None:
        _one_of("metadata.scope", scope, get_args(Scope))
    return scope


def metadata(value: dict[str, Any], field: str = "metadata") -> dict[str, Any]:
    """Validate metadata. Null values are dropped: stores replicate a removed key as null."""
    value = {key: item for key, item in value.items() if item is not None and key not in RESERVED_METADATA}
    _walk(field, value, 0)
    if len(msgspec.json.encode(value)) > MOST_BYTES["metadata"]:
        raise _invalid(field, f"must be at most {MOST_BYTES['metadata']} bytes as JSON")
    return value


def said_metadata(value: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Validate a caller's metadata; the original author of an import is kept and cannot be set."""
    first = {IMPORTED_FROM: before[IMPORTED_FROM]} if before and IMPORTED_FROM in before else {}
    return metadata({key: item for key, item in value.items() if key != IMPORTED_FROM} | first)


def foreign(field: str, value: Any) -> Any:
    """Validate another program's value: any storable JSON."""
    _walk(field, value, 0)
    return value


def foreign_name(name: str) -> str:
    """Validate another program's field name; it is limited like a title, because it can be looked up."""
    foreign("field", name)
    if (size := len(name.encode())) > MOST_BYTES["title"]:
        raise _invalid("field", f"a name must be at most {MOST_BYTES['title']} bytes, got {size}")
    return name


def _walk(field: str, value: Any, depth: int) -> None:
    """Check that a nested value is JSON that every store and client supports; `depth` is its nesting level."""
    match value:
        case dict() | list() | tuple():
            if depth == MOST_DEPTH:
                raise _invalid(field, f"must be at most {MOST_DEPTH} levels deep")
            for item in (*value, *value.values()) if isinstance(value, dict) else value:
                _walk(field, item, depth + 1)
        case str():
            if "\x00" in _encodable(field, value):
                raise _invalid(field, "must not contain NUL")
        case float():
            if not math.isfinite(value):
                raise _invalid(field, "numbers must be finite")
        case int():
            if not -(1 << 63) <= value < 1 << 64:
                raise _invalid(field, "integers must fit into 64 bits")
        case None:
            pass
        case _:
            raise _invalid(field, f"{type(value).__name__} is not JSON")


def expiry(draft: Draft, tier: Tier, now: int, lifetimes: Lifetimes) -> int | None:
    """Return the given expiry, else the given lifetime's end, else the tier's."""
    _one_of("tier", tier, get_args(Tier))
    if draft.expires_at is not UNSET and draft.expires_at is not None:
        if draft.expires_at <= now:
            raise _invalid("expires_at", "must be in the future")
        return draft.expires_at
    if draft.ttl_secs is not None:
        _between("ttl_secs", draft.ttl_secs, 1, LONGEST_TTL)
        return now + draft.ttl_secs * SECOND
    return lifetimes.expiry(tier, now)


def uri(field: str, text: str) -> str:
    _clean(field, _sized(field, _encodable(field, text), MOST_BYTES["source_uri"]))
    if not re.match(r"(uri|doc|file):.", text):
        raise _invalid(field, "must start with uri:, doc: or file:, followed by a name")
    return text


def span(field: str, value: Span) -> Span:
    if not 0 <= value.start < value.end:
        raise _invalid(field, "start must be at least 0 and less than end")
    return value


def _cited(citation: Citation) -> None:
    _clean("citations", _sized("citations", _encodable("citations", citation.uri), MOST_BYTES["source_uri"]))
    from_text(citation.accessed_at, "citations.accessed_at")
    if citation.hash is not None and not re.fullmatch(r"[0-9a-f]{64}", citation.hash):
        raise _invalid("citations.hash", "must be 64 hexadecimal digits")
    if citation.span is not None:
        span("citations.span", citation.span)


def _told(draft: Draft) -> dict[str, Any]:
    """Detect speaker, time, thread and position from metadata or the head of the content."""
    meta = draft.metadata if isinstance(draft.metadata, dict) else {}
    said = head(draft.content)
    at = spoken_time(meta["occurred_at"]) if isinstance(meta.get("occurred_at"), str) else None
    place = meta.get("place")
    return {
        "speaker": _short(meta.get("speaker")) or said.speaker,
        "occurred_at": said.at if at is None else at,
        "thread": _short(meta.get("thread")),
        "place": place if isinstance(place, int) and 0 <= place < 1 << 53 and not isinstance(place, bool) else None,
    }


def _short(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 128 and not _CONTROL.search(value) else None


def days(field: str, value: int) -> int:
    _between(field, value, 0, 36_500)
    return value * DAY


def _encodable(field: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(field, "must be valid Unicode text (contains a lone surrogate)") from None
    return text


def _sized(field: str, text: str, most: int) -> str:
    if not text.strip():
        raise _invalid(field, "must not be empty")
    if (size := len(text.encode())) > most:
        raise _invalid(field, f"must be at most {most} bytes, got {size}")
    return text


def _clean(field: str, text: str) -> str:
    if _CONTROL.search(text):
        raise _invalid(field, "must not contain control characters")
    return text


def _between(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise _invalid(field, f"must be between {least} and {most}, got {value}")


def _one_of(field: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise _invalid(field, f"must be one of {', '.join(allowed)}")


def _invalid(field: str, what: str) -> Invalid:
    return Invalid(f"{field}: {what}", fields=[field])
