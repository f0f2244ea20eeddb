"""The one door in: nothing unvalidated reaches a table, whoever sent it."""

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
"""The last segment of a namespace under which other programs look for invalidations."""
MOST_DEPTH = 32
LONGEST_TTL = 365 * 86_400
DEEPEST_TAKEN_IN = 1000
"""What comes from elsewhere may be deeper than any policy here allows, but not without end."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NOT_IN_NAMESPACE = re.compile("[\\x00-\\x20\\x7f*\\\\\\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Draft(Struct, frozen=True, kw_only=True):
    """What a caller hands in. Unset fields take their defaults on a create and stay as they are on a merge."""

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
    """A memory from a draft, every field checked, normalised and filled in. Only what is imported names who had it."""
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
    """Every rule on a whole memory that is not about one text field; the same for a draft, a patch and an import."""
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
        raise _invalid("citations", f"at most {MOST_CITATIONS}, got {len(memory.citations)}")
    for citation in memory.citations:
        _cited(citation)
    for name in ("speaker", "thread", "reason"):
        if (value := getattr(memory, name)) is not None:
            label(name, value)
    if memory.valid_from is not None and memory.valid_until is not None and memory.valid_until <= memory.valid_from:
        raise _invalid("valid_until", "must be later than valid_from")
    return memory


def whole(memory: Memory) -> Memory:
    """Every rule on a memory that comes ready-made from another store. What is deleted need say nothing any more."""
    if namespace(memory.namespace) != memory.namespace or title(memory.title) != memory.title:
        raise _invalid("title", "namespace and title must be in normal form, without blanks around them")
    if memory.state != "deleted":
        content(memory.content)
    noted = {key: value for key, value in memory.metadata.items() if value is not None}
    if tags(memory.tags) != memory.tags or metadata(noted) != noted:
        raise _invalid("tags", "tags and metadata must be such as are stored")
    foreign("extra", memory.extra)
    if not 0 <= memory.reflection_depth <= DEEPEST_TAKEN_IN:
        raise _invalid("reflection_depth", f"from 0 to {DEEPEST_TAKEN_IN}")
    return check(memory)


def normal(text: str) -> str:
    """In the form in which names are kept, whether it can be kept or not."""
    return unicodedata.normalize("NFC", text)


def namespace(text: str, field: str = "namespace") -> str:
    text = normal(_encodable(field, text))
    if not text or len(text.encode()) > MOST_BYTES["namespace"]:
        raise _invalid(field, f"1 to {MOST_BYTES['namespace']} bytes")
    if _NOT_IN_NAMESPACE.search(text):
        raise _invalid(field, "no blanks, control or invisible characters, * or backslashes")
    segments = text.split("/")
    if len(segments) > MOST_SEGMENTS:
        raise _invalid(field, f"at most {MOST_SEGMENTS} segments, got {len(segments)}")
    if any(segment in ("", ".", "..") for segment in segments):
        raise _invalid(field, "no empty, . or .. segments, and no / at either end")
    return text


def must_be_kept(place: str, field: str = "namespace") -> None:
    """Raise if a namespace holds no memories of its own."""
    if place.rpartition("/")[2] == VIEW:
        raise _invalid(field, f"one that ends in {VIEW} is a view of what others were told: write into another")


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
    """A short text of one's own, in one line: a name, a reason, what an agent can do."""
    if "\n" in text or "\t" in text:
        raise _invalid(field, "must be one line")
    return _clean(field, _sized(field, _encodable(field, text), most))


def tags(values: Iterable[str]) -> tuple[str, ...]:
    clean = tuple(dict.fromkeys(_tag(value) for value in values))
    if len(clean) > MOST_TAGS:
        raise _invalid("tags", f"at most {MOST_TAGS}, got {len(clean)}")
    return clean


def _tag(value: str) -> str:
    tag = _clean("tags", _sized("tags", _encodable("tags", value).strip(), MOST_BYTES["tag"]))
    if "," in tag:
        raise _invalid("tags", "a tag has no comma")
    return tag


RESERVED_METADATA = ("agent_id", "scope")
"""What only Holdfast says of a memory; a caller's own entry under such a key does not count."""


def declared_scope(given: dict[str, Any] | UnsetType) -> Scope | None:
    """A scope written into the metadata, as older clients do: never ignored, so that nothing private is shown."""
    scope = given.get("scope") if isinstance(given, dict) else None
    if scope is not None:
        _one_of("metadata.scope", scope, get_args(Scope))
    return scope


def metadata(value: dict[str, Any], field: str = "metadata") -> dict[str, Any]:
    """A key whose value is null is as good as none: that is how stores tell each other that one was removed."""
    value = {key: item for key, item in value.items() if item is not None and key not in RESERVED_METADATA}
    _walk(field, value, 0)
    if len(msgspec.json.encode(value)) > MOST_BYTES["metadata"]:
        raise _invalid(field, f"at most {MOST_BYTES['metadata']} bytes as JSON")
    return value


def said_metadata(value: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Metadata that a caller gives: from whom a memory was brought here is not theirs to say, and stays as it was."""
    first = {IMPORTED_FROM: before[IMPORTED_FROM]} if before and IMPORTED_FROM in before else {}
    return metadata({key: item for key, item in value.items() if key != IMPORTED_FROM} | first)


def foreign(field: str, value: Any) -> Any:
    """What another program says beside what we know: any JSON that can be kept."""
    _walk(field, value, 0)
    return value


def foreign_name(name: str) -> str:
    """The name under which another program says something; it can be looked up, so it is no longer than a title."""
    foreign("field", name)
    if (size := len(name.encode())) > MOST_BYTES["title"]:
        raise _invalid("field", f"a name of at most {MOST_BYTES['title']} bytes, got {size}")
    return name


def _walk(field: str, value: Any, depth: int) -> None:
    """Everything inside is JSON that every store and client can hold; `depth` objects and arrays are around it."""
    match value:
        case dict() | list() | tuple():
            if depth == MOST_DEPTH:
                raise _invalid(field, f"at most {MOST_DEPTH} levels deep")
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
                raise _invalid(field, "whole numbers must fit into 64 bits")
        case None:
            pass
        case _:
            raise _invalid(field, f"{type(value).__name__} is not JSON")


def expiry(draft: Draft, tier: Tier, now: int, lifetimes: Lifetimes) -> int | None:
    """A given moment, else a given lifetime, else the tier's."""
    _one_of("tier", tier, get_args(Tier))
    if draft.expires_at is not UNSET and draft.expires_at is not None:
        if draft.expires_at <= now:
            raise _invalid("expires_at", "lies in the past")
        return draft.expires_at
    if draft.ttl_secs is not None:
        _between("ttl_secs", draft.ttl_secs, 1, LONGEST_TTL)
        return now + draft.ttl_secs * SECOND
    return lifetimes.expiry(tier, now)


def uri(field: str, text: str) -> str:
    _clean(field, _sized(field, _encodable(field, text), MOST_BYTES["source_uri"]))
    if not re.match(r"(uri|doc|file):.", text):
        raise _invalid(field, "must begin with uri:, doc: or file: and name something")
    return text


def span(field: str, value: Span) -> Span:
    if not 0 <= value.start < value.end:
        raise _invalid(field, "start must be at least 0 and less than end")
    return value


def _cited(citation: Citation) -> None:
    _clean("citations", _sized("citations", _encodable("citations", citation.uri), MOST_BYTES["source_uri"]))
    from_text(citation.accessed_at, "citations.accessed_at")
    if citation.hash is not None and not re.fullmatch(r"[0-9a-f]{64}", citation.hash):
        raise _invalid("citations.hash", "64 hexadecimal digits")
    if citation.span is not None:
        span("citations.span", citation.span)


def _told(draft: Draft) -> dict[str, Any]:
    """Who said it, when and where in which conversation, as far as metadata or the head of the content tell."""
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
        raise _invalid(field, "is not valid Unicode text (a lone surrogate)") from None
    return text


def _sized(field: str, text: str, most: int) -> str:
    if not text.strip():
        raise _invalid(field, "must not be empty")
    if (size := len(text.encode())) > most:
        raise _invalid(field, f"at most {most} bytes, got {size}")
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
