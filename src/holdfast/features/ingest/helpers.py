"""Deterministic helpers that run before any model: word overlap, embedding similarity, kind of knowledge.

Pure functions. With `compat` they return exactly what ai-memory does, including its faults.
"""

import re
from collections.abc import Iterable, Sequence
from math import hypot, isfinite
from typing import Any, Literal

from msgspec import Struct

from holdfast.kernel.text.similarity import jaccard
from holdfast.kernel.text.terms import MONTH_NAMES
from holdfast.kernel.text.words import STOP, may_lack_blanks, terms

FactKind = Literal["procedural", "episodic", "declarative"]
HELPERS = ("fts_classifier", "jaccard_overlap", "cosine_pre_filter")
MAX_SHOWN = 10
"""Candidates listed in the overlap result."""
MIN_OVERLAP = 0.40
"""Minimum overlap that counts as overlapping."""
MIN_COSINE = 0.20
"""Default minimum cosine for a candidate to pass."""
PREVIEW_LENGTH = 120
"""Default length of a preview in characters."""


class MemoryHandle(Struct, frozen=True):
    """A candidate: a stored memory that a text is compared with."""

    id: str
    body: str
    embedding: Sequence[float] | None = None
    namespace: str | None = None


class HelperOutput(Struct, frozen=True):
    """Result of a helper: its name, a one-line summary, and details as JSON."""

    kind: str
    summary: str
    payload: dict[str, Any]


def tokens(text: str, *, compat: bool = False) -> frozenset[str]:
    """Return the distinct lower-case words of a text; character bigrams for scripts without spaces."""
    words = [trimmed for word in text.split() if (trimmed := _trim_word(word).lower())]
    if compat or not may_lack_blanks(text):
        return frozenset(words)
    return frozenset(part for word in words for part in (terms(word) if may_lack_blanks(word) else [word]))


def _trim_word(word: str) -> str:
    """Strip characters that are neither letters nor digits from both ends of a word."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end]


def contained(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of the smaller word set that the larger one contains, ignoring stop words."""
    one, other = one - STOP, other - STOP
    least = min(len(one), len(other))
    return len(one & other) / least if least else 0.0


def jaccard_overlap(content: str, candidates: Iterable[MemoryHandle], *, compat: bool = False) -> HelperOutput:
    """Compute the word overlap of a text with each candidate, highest first."""
    own_words = tokens(content, compat=compat)
    token_sets = [(one, tokens(one.body, compat=compat)) for one in candidates]
    scored = sorted(((jaccard(own_words, words), one, words) for one, words in token_sets), key=lambda found: -found[0])
    top = scored[:MAX_SHOWN]
    counted = top if compat else scored
    above = sum(overlap >= MIN_OVERLAP for overlap, *_ in counted)
    payload: dict[str, Any] = {
        "helper": "jaccard_overlap",
        "candidates_scored": len(scored),
        "top_candidates": [
            {"id": one.id, "overlap": overlap, "preview": preview(one.body, compat=compat)} for overlap, one, _ in top
        ],
    }
    if not compat:
        payload |= {"candidates_above": above, "candidates_left_out": len(scored) - len(top)}
        for row, (_, _, words) in zip(payload["top_candidates"], top, strict=True):
            row["contained"] = contained(own_words, words)
    return HelperOutput("jaccard_overlap", f"{above} of {len(scored)} candidates overlap by {MIN_OVERLAP:.2f}", payload)


def cosine_pre_filter(
    embedding: Sequence[float] | None,
    candidates: Iterable[MemoryHandle],
    *,
    threshold: float = MIN_COSINE,
    compat: bool = False,
) -> HelperOutput:
    """Compute the cosine of a text's embedding with each candidate's; null where either is missing."""
    scored = [(one.id, one.body, _score(embedding, one.embedding, compat=compat)) for one in candidates]
    return build_pre_filter(scored, threshold=threshold, compat=compat)


def build_pre_filter(
    scored: Iterable[tuple[str, str, float | None]], *, threshold: float = MIN_COSINE, compat: bool = False
) -> HelperOutput:
    """Build the `cosine_pre_filter` result from candidates (id, text, score) with known scores."""
    rows: list[dict[str, Any]] = [
        {
            "id": id,
            "score": score,
            "above_threshold": score is not None and score >= threshold,
            "preview": preview(body, compat=compat),
        }
        for id, body, score in scored
    ]
    passed = sum(row["above_threshold"] for row in rows)
    payload = {
        "helper": "cosine_pre_filter",
        "threshold": threshold,
        "candidates_scored": len(rows),
        "candidates_kept": passed,
        "candidates": rows,
    }
    if not compat:
        payload["candidates_without_score"] = sum(row["score"] is None for row in rows)
    return HelperOutput("cosine_pre_filter", f"{passed}/{len(rows)} candidates kept at {threshold:.2f}", payload)


def _score(one: Sequence[float] | None, other: Sequence[float] | None, *, compat: bool) -> float | None:
    if one is None or other is None:
        return None
    found = cosine(one, other)
    return 0.0 if found is None and compat else found


def cosine(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the cosine of two vectors, -1 to 1; None if lengths differ or a vector is empty, zero or not finite."""
    if len(one) != len(other) or not one or not all(map(isfinite, (*one, *other))):
        return None
    first, second = _normalize_vector(one), _normalize_vector(other)
    if first is None or second is None:
        return None
    return max(-1.0, min(1.0, sum(a * b for a, b in zip(first, second, strict=True))))


def _normalize_vector(numbers: Sequence[float]) -> list[float] | None:
    """Scale a vector to length one without overflow; None for a zero vector."""
    largest = max(map(abs, numbers))
    if not largest:
        return None
    scaled = [number / largest for number in numbers]
    length = hypot(*scaled)
    return [number / length for number in scaled]


class Signal(Struct, frozen=True):
    """A pattern that indicates a kind. One of weight 2 is sufficient alone."""

    kind: FactKind
    weight: int
    pattern: re.Pattern[str]


_NUMBERED = r"^\s{0,3}(?:\d{1,3}[.)]|step\s+\d+\b)"
_IMPERATIVES = (
    r"run|install|open|click|select|set|add|create|copy|check|make|press|enter|start|stop|restart|configure|remove|delete|"
    r"download|build|deploy|update|use|type|choose|save|edit|pull|push|call|wait"
)
_MONTHS = "|".join(MONTH_NAMES)


def _build_signal(kind: FactKind, weight: int, pattern: str) -> Signal:
    return Signal(kind, weight, re.compile(pattern, re.IGNORECASE | re.MULTILINE))


_SIGNALS = (
    _build_signal("procedural", 2, _NUMBERED + r".*\n(?:.*\n)*?\s{0,3}(?:\d{1,3}[.)]|step\s+\d+\b)"),
    _build_signal("procedural", 2, r"\bfirst(?:ly)?,(?:(?!\bfirst(?:ly)?,).)*\b(?:then|next|after that|finally)\b"),
    _build_signal("procedural", 2, r"\bhow to\b"),
    _build_signal("procedural", 1, r"\bsteps?\b"),
    _build_signal("procedural", 1, r"\bfirst(?:ly)?,"),
    _build_signal("procedural", 1, r"\bthen\b"),
    _build_signal(
        "procedural",
        1,
        rf"(?:^|[.!:;]\s+|\bthen\s+|\band\s+)(?:please\s+)?(?:{_IMPERATIVES})\s+(?!of\b|in\b|is\b|was\b)\w",
    ),
    _build_signal(
        "episodic", 2, r"\b(?:yesterday|last (?:night|week|month|year)|this morning|(?:days?|weeks?|months?) ago)\b"
    ),
    _build_signal("episodic", 2, r"\b(?:happened|occurred|took place)\b"),
    _build_signal("episodic", 2, rf"\bon (?:\d{{1,2}} )?(?:{_MONTHS})\b|\bon \d{{4}}-\d{{2}}-\d{{2}}\b"),
    _build_signal("episodic", 1, r"\b(?:today|tonight)\b"),
    _build_signal("episodic", 1, r"\bevents?\b"),
    _build_signal(
        "episodic", 1, r"\b(?:we|i|he|she|they) (?:met|went|visited|fixed|decided|moved|shipped|released|saw|found)\b"
    ),
    _build_signal("procedural", 2, r"首先(?:(?!首先).)*(?:然后|接着|最后)|步骤|まず(?:(?!まず).)*(?:次に|最後に)|手順"),
    _build_signal("episodic", 2, r"昨天|前天|上周|上个月|发生了|昨日|先週|先月|어제|지난주"),
    _build_signal("episodic", 1, r"今天|今日|오늘"),
)
_MIN_WEIGHT = 2
"""Total weight from which a classification is not weak."""


class Evidence(Struct, frozen=True):
    """Words of a text that indicate a kind."""

    kind: FactKind
    text: str
    weight: int


class Classified(Struct, frozen=True):
    """Kind of knowledge in a text, with confidence and evidence."""

    fact_kind: FactKind
    confidence: float
    weak: bool
    evidence: tuple[Evidence, ...]


MAX_CLASSIFIED_LENGTH = 4000
"""Characters of a text used for classification."""


def classified(content: str) -> Classified:
    """Classify a text by whole words. `weak`: the evidence is too little or ambiguous."""
    content = content[:MAX_CLASSIFIED_LENGTH]
    evidence = tuple(
        Evidence(sign.kind, preview(" ".join(found[0].split()), 40), sign.weight)
        for sign in _SIGNALS
        if (found := sign.pattern.search(content))
    )
    weights: dict[FactKind, int] = {"procedural": 0, "episodic": 0}
    for one in evidence:
        weights[one.kind] += one.weight
    best = max(weights, key=lambda kind: weights[kind])
    most, rest = weights[best], sum(weights.values()) - weights[best]
    if not most:
        return Classified("declarative", 0.5, True, ())
    weak = most < _MIN_WEIGHT or most == rest
    return Classified(best, round((most + 1) / (most + rest + 2), 2), weak, evidence)


def fts_classifier(content: str, *, namespace: str | None = None, compat: bool = False) -> HelperOutput:
    """Classify a text: how something is done (procedural), what happened (episodic), or what is (declarative)."""
    payload: dict[str, Any] = {"helper": "fts_classifier"}
    distinct = len(tokens(content, compat=compat))
    if compat:
        kind = classify_literally(content)
        payload |= {"fact_kind": kind, "namespace": namespace, "tokens": distinct}
        return HelperOutput("fts_classifier", f"{kind}, {distinct} distinct tokens", payload)
    found = classified(content)
    payload |= {
        "fact_kind": found.fact_kind,
        "namespace": namespace,
        "tokens": distinct,
        "confidence": found.confidence,
        "weak": found.weak,
        "evidence": [{"kind": one.kind, "text": one.text, "weight": one.weight} for one in found.evidence],
    }
    sure = "weak" if found.weak else f"{found.confidence:.2f}"
    return HelperOutput("fts_classifier", f"{found.fact_kind} ({sure}), {distinct} distinct tokens", payload)


def classify_literally(content: str) -> FactKind:
    """Classify as ai-memory does: by substrings, even inside other words."""
    lowered = content.lower()
    if any(part in lowered for part in ("step ", "first, ", "then ")):
        return "procedural"
    if any(part in lowered for part in ("yesterday", "today", "happened", "event")):
        return "episodic"
    return "declarative"


def preview(text: str, most: int = PREVIEW_LENGTH, *, compat: bool = False) -> str:
    """Return the beginning of a text, with an ellipsis if it was cut."""
    if len(text) <= most:
        return text
    return text[:most] if compat else text[: most - 1] + "…"
