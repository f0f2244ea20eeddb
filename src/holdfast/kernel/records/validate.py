"""Validation of memories: every row is validated here, whoever sent it."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import IMPORTED_FROM, SOURCES, Category, Citation, Kind, Memory, Scope, Span, Tier
from holdfast.kernel.storage.index_terms import parse_head, parse_spoken_time
from holdfast.kernel.timestamps import DAY, NO_END, SECOND, parse_timestamp
from holdfast.kernel.vector import MAX_MODEL_CHARS, Embedding, unit_vector


class Lifetimes(Struct, frozen=True, forbid_unknown_fields=True):
    """Lifetimes in seconds; 0 or less means forever."""

    short: int = 6 * 3600
    """Lifetime of a short-term memory."""
    mid: int = 7 * 86_400
    """Lifetime of a mid-term memory."""
    short_extend: int = 3600
    """Minimum remaining lifetime of a short-term memory after a recall."""
    mid_extend: int = 86_400
    """Minimum remaining lifetime of a mid-term memory after a recall."""
    promote_after: int = 5
    """Recalls after which a mid-term memory becomes long-term; 0: never."""

    def expiry(self, tier: Tier, now: int) -> int | None:
        seconds = 0 if tier == "long" else getattr(self, tier)
        return now + seconds * SECOND if seconds > 0 else None

    def extend(self, tier: Tier, used_at: int) -> int:
        """Return the time until which a recall keeps a memory alive."""
        return used_at + (0 if tier == "long" else getattr(self, f"{tier}_extend")) * SECOND


class Retention(NamedTuple):
    """Retention of usage, task runs and runs, in days; 0: forever."""

    usage: int = 0
    task_runs: int = 0
    runs: int = 0


def lives_until(memory: Memory, used_until: int = 0) -> int:
    """Return the effective end of a memory: a recall can extend the lifetime, never shorten it."""
    if memory.expires_at is None:
        return NO_END
    return max(memory.expires_at, used_until) if used_until else memory.expires_at  # a peer's end may be before 1970


MAX_BYTES = {"title": 512, "content": 65_536, "namespace": 512, "tag": 128, "metadata": 65_536, "source_uri": 4096}
MAX_TAGS = 50
MAX_CITATIONS = 64
MAX_SEGMENTS = 8
INVALIDATIONS_VIEW = "_invalidations"
"""Last namespace segment under which other programs look for invalidations."""
MAX_JSON_DEPTH = 32
MAX_TTL_SECONDS = 365 * 86_400
MAX_IMPORT_DEPTH = 1000
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


def memory_from_draft(
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
    speech = _detect_speech(draft)

    def get_field(name: str, default: Any) -> Any:
        value = getattr(draft, name)
        return default if value is UNSET else value

    memory = Memory(
        id=id,
        namespace=namespace(draft.namespace),
        title=title(draft.title),
        content=content(draft.content),
        kind=get_field("kind", "observation"),
        category=get_field("category", None),
        tier=get_field("tier", default_tier),
        priority=get_field("priority", 5),
        confidence=get_field("confidence", 1.0),
        source=draft.source,
        scope=get_field("scope", declared_scope(draft.metadata) or "collective"),
        agent=agent,
        tags=tags(get_field("tags", ())),
        metadata=(metadata if imported else caller_metadata)(get_field("metadata", {})),
        citations=get_field("citations", ()),
        source_uri=get_field("source_uri", None),
        source_span=get_field("source_span", None),
        reflection_depth=0,
        valid_from=get_field("valid_from", None),
        valid_until=get_field("valid_until", None),
        speaker=get_field("speaker", speech["speaker"]),
        occurred_at=get_field("occurred_at", speech["occurred_at"]),
        thread=get_field("thread", speech["thread"]),
        place=get_field("place", speech["place"]),
        expires_at=expiry(draft, get_field("tier", default_tier), now, lifetimes),
        state="live",
        reason=None,
        created_at=now,
        updated_at=now,
        origin=origin,
        version=1,
        extra={},
    )
    return check_memory(memory)


def check_memory(memory: Memory) -> Memory:
    """Check all rules of a memory except those of single text fields. Used for drafts, patches and imports."""
    require_storable(memory.namespace)
    _check_range("priority", memory.priority, 1, 10)
    _check_range("confidence", memory.confidence, 0.0, 1.0)
    _check_choice("source", memory.source, SOURCES)
    _check_choice("tier", memory.tier, get_args(Tier))
    _check_choice("kind", memory.kind, get_args(Kind))
    _check_choice("scope", memory.scope, get_args(Scope))
    if memory.category is not None:
        _check_choice("category", memory.category, get_args(Category))
    if memory.source_uri is not None:
        uri("source_uri", memory.source_uri)
    if memory.source_span is not None:
        span("source_span", memory.source_span)
    if len(memory.citations) > MAX_CITATIONS:
        raise _invalid("citations", f"must be at most {MAX_CITATIONS}, got {len(memory.citations)}")
    for citation in memory.citations:
        _check_citation(citation)
    for name in ("speaker", "thread", "reason"):
        if (value := getattr(memory, name)) is not None:
            label(name, value)
    if memory.valid_from is not None and memory.valid_until is not None and memory.valid_until <= memory.valid_from:
        raise _invalid("valid_until", "must be later than valid_from")
    return memory


def check_replicated(memory: Memory) -> Memory:
    """Check a memory received from another store. A deleted one may be empty."""
    if namespace(memory.namespace) != memory.namespace or title(memory.title) != memory.title:
        raise _invalid("title", "namespace and title must be normalized (NFC, trimmed)")
    if memory.state != "deleted":
        content(memory.content)
    noted = {key: value for key, value in memory.metadata.items() if value is not None}
    if tags(memory.tags) != memory.tags or metadata(noted) != noted:
        raise _invalid("tags", "tags and metadata must be normalized")
    foreign_json("extra", memory.extra)
    if not 0 <= memory.reflection_depth <= MAX_IMPORT_DEPTH:
        raise _invalid("reflection_depth", f"must be 0 to {MAX_IMPORT_DEPTH}")
    return check_memory(memory)


def normalize_name(text: str) -> str:
    """Normalize a name to NFC, without validating it."""
    return unicodedata.normalize("NFC", text)


def namespace(text: str, field: str = "namespace") -> str:
    text = normalize_name(_check_unicode(field, text))
    if not text or len(text.encode()) > MAX_BYTES["namespace"]:
        raise _invalid(field, f"must be 1 to {MAX_BYTES['namespace']} bytes")
    if _NOT_IN_NAMESPACE.search(text):
        raise _invalid(field, "must not contain blanks, control or invisible characters, * or backslashes")
    segments = text.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise _invalid(field, f"must have at most {MAX_SEGMENTS} segments, got {len(segments)}")
    if any(segment in ("", ".", "..") for segment in segments):
        raise _invalid(field, "must not have empty, . or .. segments, or start or end with /")
    return text


def require_storable(namespace_: str, field: str = "namespace") -> None:
    """Raise if memories cannot be stored in a namespace, because it is a view."""
    if namespace_.rpartition("/")[2] == INVALIDATIONS_VIEW:
        raise _invalid(
            field, f"a namespace that ends in {INVALIDATIONS_VIEW} is a read-only view: write to another one"
        )


def title(text: str, field: str = "title") -> str:
    text = normalize_name(_check_unicode(field, text)).strip()
    return _check_control_characters(field, _check_size(field, text, MAX_BYTES["title"]))


def content(text: str, field: str = "content") -> str:
    if not _check_unicode(field, text).strip():
        raise _invalid(field, "must not be empty")
    if "\x00" in text:
        raise _invalid(field, "must not contain NUL")
    return _check_size(field, text, MAX_BYTES["content"])


def label(field: str, text: str, max_bytes: int = 512) -> str:
    """Validate a short one-line text, such as a name, a reason or a capability."""
    if "\n" in text or "\t" in text:
        raise _invalid(field, "must be one line")
    return _check_control_characters(field, _check_size(field, _check_unicode(field, text), max_bytes))


def tags(values: Iterable[str]) -> tuple[str, ...]:
    clean = tuple(dict.fromkeys(_check_tag(value) for value in values))
    if len(clean) > MAX_TAGS:
        raise _invalid("tags", f"must be at most {MAX_TAGS}, got {len(clean)}")
    return clean


def _check_tag(value: str) -> str:
    tag = _check_control_characters(
        "tags", _check_size("tags", _check_unicode("tags", value).strip(), MAX_BYTES["tag"])
    )
    if "," in tag:
        raise _invalid("tags", "a tag must not contain a comma")
    return tag


RESERVED_METADATA = ("agent_id", "scope")
"""Metadata keys set by Holdfast; a caller's values are ignored."""


def declared_scope(given: dict[str, Any] | UnsetType) -> Scope | None:
    """Return the scope given in metadata, as older clients do; honoured so that private memories stay private."""
    scope = given.get("scope") if isinstance(given, dict) else None
    if scope is not None:
        _check_choice("metadata.scope", scope, get_args(Scope))
    return scope


def metadata(value: dict[str, Any], field: str = "metadata") -> dict[str, Any]:
    """Validate metadata. Null values are dropped: stores replicate a removed key as null."""
    value = {key: item for key, item in value.items() if item is not None and key not in RESERVED_METADATA}
    _check_json(field, value, 0)
    if len(msgspec.json.encode(value)) > MAX_BYTES["metadata"]:
        raise _invalid(field, f"must be at most {MAX_BYTES['metadata']} bytes as JSON")
    return value


def caller_metadata(value: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Validate a caller's metadata; the original author of an import is kept and cannot be set."""
    first = {IMPORTED_FROM: before[IMPORTED_FROM]} if before and IMPORTED_FROM in before else {}
    return metadata({key: item for key, item in value.items() if key != IMPORTED_FROM} | first)


def foreign_json(field: str, value: Any) -> Any:
    """Validate another program's value: any storable JSON."""
    _check_json(field, value, 0)
    return value


def foreign_name(name: str) -> str:
    """Validate another program's field name; it is limited like a title, because it can be looked up."""
    foreign_json("field", name)
    if (size := len(name.encode())) > MAX_BYTES["title"]:
        raise _invalid("field", f"a name must be at most {MAX_BYTES['title']} bytes, got {size}")
    return name


def _check_json(field: str, value: Any, depth: int) -> None:
    """Check that a nested value is JSON that every store and client supports; `depth` is its nesting level."""
    match value:
        case dict() | list() | tuple():
            if depth == MAX_JSON_DEPTH:
                raise _invalid(field, f"must be at most {MAX_JSON_DEPTH} levels deep")
            for item in (*value, *value.values()) if isinstance(value, dict) else value:
                _check_json(field, item, depth + 1)
        case str():
            if "\x00" in _check_unicode(field, value):
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
    _check_choice("tier", tier, get_args(Tier))
    if draft.expires_at is not UNSET and draft.expires_at is not None:
        if draft.expires_at <= now:
            raise _invalid("expires_at", "must be in the future")
        return draft.expires_at
    if draft.ttl_secs is not None:
        _check_range("ttl_secs", draft.ttl_secs, 1, MAX_TTL_SECONDS)
        return now + draft.ttl_secs * SECOND
    return lifetimes.expiry(tier, now)


def uri(field: str, text: str) -> str:
    _check_control_characters(field, _check_size(field, _check_unicode(field, text), MAX_BYTES["source_uri"]))
    if not re.match(r"(uri|doc|file):.", text):
        raise _invalid(field, "must start with uri:, doc: or file:, followed by a name")
    return text


def span(field: str, value: Span) -> Span:
    if not 0 <= value.start < value.end:
        raise _invalid(field, "start must be at least 0 and less than end")
    return value


def _check_citation(citation: Citation) -> None:
    _check_control_characters(
        "citations", _check_size("citations", _check_unicode("citations", citation.uri), MAX_BYTES["source_uri"])
    )
    parse_timestamp(citation.accessed_at, "citations.accessed_at")
    if citation.hash is not None and not re.fullmatch(r"[0-9a-f]{64}", citation.hash):
        raise _invalid("citations.hash", "must be 64 hexadecimal digits")
    if citation.span is not None:
        span("citations.span", citation.span)


def _detect_speech(draft: Draft) -> dict[str, Any]:
    """Detect speaker, time, thread and position from metadata or the head of the content."""
    meta = draft.metadata if isinstance(draft.metadata, dict) else {}
    said = parse_head(draft.content)
    at = parse_spoken_time(meta["occurred_at"]) if isinstance(meta.get("occurred_at"), str) else None
    place = meta.get("place")
    return {
        "speaker": _short_text(meta.get("speaker")) or said.speaker,
        "occurred_at": said.at if at is None else at,
        "thread": _short_text(meta.get("thread")),
        "place": place if isinstance(place, int) and 0 <= place < 1 << 53 and not isinstance(place, bool) else None,
    }


def _short_text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 128 and not _CONTROL.search(value) else None


def days(field: str, value: int) -> int:
    _check_range(field, value, 0, 36_500)
    return value * DAY


def _check_unicode(field: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(field, "must be valid Unicode text (contains a lone surrogate)") from None
    return text


def _check_size(field: str, text: str, max_bytes: int) -> str:
    if not text.strip():
        raise _invalid(field, "must not be empty")
    if (size := len(text.encode())) > max_bytes:
        raise _invalid(field, f"must be at most {max_bytes} bytes, got {size}")
    return text


def _check_control_characters(field: str, text: str) -> str:
    if _CONTROL.search(text):
        raise _invalid(field, "must not contain control characters")
    return text


def _check_range(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise _invalid(field, f"must be between {least} and {most}, got {value}")


def _check_choice(field: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise _invalid(field, f"must be one of {', '.join(allowed)}")


def _invalid(field: str, what: str) -> Invalid:
    return Invalid(f"{field}: {what}", fields=[field])


def validate_embedding(model: str, numbers: Sequence[float]) -> Embedding:
    """Validate an embedding given by a caller; errors name the field."""
    return Embedding(label("embedding.model", model, MAX_MODEL_CHARS), unit_vector(numbers))
