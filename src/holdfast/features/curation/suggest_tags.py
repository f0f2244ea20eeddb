"""Suggest tags: prominent words and phrases, tags of the namespace, optionally a model; add them on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.llm.assist import (
    BY_RULES,
    MethodInfo,
    MethodUsed,
    ask_or_fallback,
    method_fields,
    rejected_answer,
)
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import require_write_access
from holdfast.features.memories.update_memory import check_version
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import word_weights
from holdfast.kernel.text.words import STOP, UNSEGMENTED, fold_name, may_lack_blanks, split_words, strip_invisible

MAX_TAGS = 8
MIN_LETTERS = 3
MAX_RUN_LENGTH = 8
FALLBACK_TAGS = 3
MAX_TEXT_LENGTH = 16_384
"""Characters of a text used for tag extraction."""
MAX_UNSPACED_LENGTH = 2048
TITLE_WEIGHT = 2.0
"""Additional weight of a word for each occurrence in the title."""
_COMMON_WORDS = frozenset(
    """again all also always another because become before after between both during each even ever every few first
    get gets given got however last less let like made make makes may might more most must need needs never new next
    no nor not now off often once one only onto other others out over own per rather same see shall since still take
    than though through thus ten two three four five six seven eight nine under until up
    upon use used uses using very via want way well yes yet und der die das
    ist nicht mit les des est une pas los las una por que para con""".split()
)
_DIGIT = re.compile(r"\d")
_BREAK = re.compile(r"[^\w\s'’-]|\n")


class TagSuggestion(NamedTuple):
    """A suggested tag."""

    tag: str
    weight: float
    is_known: bool
    """Whether the namespace already uses it."""


def extract_tags(
    title: str,
    content: str,
    *,
    known: Mapping[str, int] | None = None,
    rarity: Callable[[str], float] = lambda word: 1.0,
    existing: Collection[str] = (),
    limit: int = MAX_TAGS,
) -> list[TagSuggestion]:
    """Extract the best tags for a text, tags in use first, then by weight. Deterministic.

    `rarity` weighs a word by its rarity elsewhere; `existing` are the tags the text already has.
    """
    counts, title_counts = Counter(_extract_phrases(content[:MAX_TEXT_LENGTH])), Counter(_extract_phrases(title))
    weights = _weigh_phrases(counts, title_counts, rarity)
    had = {fold_name(tag) for tag in existing}
    found = {fold_name(label.tag): label for label in _find_new_tags(weights, counts, title_counts)}
    found |= {fold_name(label.tag): label for label in _match_known_tags(title, content, weights, known or {})}
    ranked = sorted(
        (label for name, label in found.items() if name not in had),
        key=lambda one: (not one.is_known, -one.weight, one.tag),
    )
    return _drop_overlapping(ranked, existing)[:limit]


def _drop_overlapping(labels: list[TagSuggestion], existing: Collection[str]) -> list[TagSuggestion]:
    """Drop new tags whose words are a subset or superset of a better or existing tag."""
    result: list[TagSuggestion] = []
    for label in labels:
        if label.is_known or not any(
            _is_overlapping(label.tag, tag) for tag in (*existing, *(one.tag for one in result))
        ):
            result.append(label)
    return result


def _is_overlapping(one: str, other: str) -> bool:
    if may_lack_blanks(one):
        return one in other or other in one
    words, others = set(_split_tag(one)), set(_split_tag(other))
    return words < others or words > others


def _weigh_phrases(
    counts: Counter[str], title_counts: Counter[str], rarity: Callable[[str], float]
) -> dict[str, float]:
    """Weigh each word and phrase of the text and its title."""
    return {
        phrase: (counts[phrase] + TITLE_WEIGHT * title_counts[phrase])
        * _average_rarity(phrase, rarity)
        * _phrase_factor(phrase)
        for phrase in counts | title_counts
    }


def _average_rarity(phrase: str, rarity: Callable[[str], float]) -> float:
    words = phrase.split()
    return sum(rarity(word) for word in words) / len(words)


def _phrase_factor(phrase: str) -> float:
    """Weigh phrases higher than single words."""
    return 1.5 if " " in phrase else 1.0


def _find_new_tags(
    weights: Mapping[str, float], counts: Counter[str], title_counts: Counter[str]
) -> Iterator[TagSuggestion]:
    """Find phrases that repeat or occur in the title; if there are none, the rarest words."""
    often = [phrase for phrase in weights if counts[phrase] + 2 * title_counts[phrase] > 1]
    single = sorted((phrase for phrase in weights if " " not in phrase), key=lambda one: (-weights[one], one))
    for phrase in often or single[:FALLBACK_TAGS]:
        yield TagSuggestion(phrase.replace(" ", "-"), weights[phrase], False)


def _match_known_tags(
    title: str, content: str, weights: Mapping[str, float], known: Mapping[str, int]
) -> Iterator[TagSuggestion]:
    """Match tags of the namespace whose words all occur in the text."""
    text = strip_invisible(f"{title}\n{content}").casefold()
    words = set(split_words(text))
    for tag in known:
        parts = _split_tag(tag)
        content_parts = [part for part in parts if not _is_common(part)]
        if content_parts and all(part in words or (may_lack_blanks(part) and part in text) for part in parts):
            yield TagSuggestion(tag, max(1.0, *(weights.get(part, 1.0) for part in parts)), True)


def _split_tag(tag: str) -> list[str]:
    return split_words(tag.casefold())


def _extract_phrases(text: str) -> Iterator[str]:
    """Yield words and pairs of adjacent words without common words; repeated runs in scripts without spaces."""
    clean = strip_invisible(text).casefold()
    if may_lack_blanks(clean):
        yield from _find_unspaced_words(clean)
        clean = _unspaced_pattern().sub("\n", clean)
    for stretch in _BREAK.split(clean):
        yield from _pair_words(split_words(stretch))


def _pair_words(words: list[str]) -> Iterator[str]:
    may = [_can_be_tag(word) for word in words]
    for at, word in enumerate(words):
        if may[at]:
            yield word
            if at + 1 < len(words) and may[at + 1] and words[at + 1] != word:
                yield f"{word} {words[at + 1]}"


def _can_be_tag(word: str) -> bool:
    return len(word) >= MIN_LETTERS and not _is_common(word) and _DIGIT.search(word) is None


def _is_common(word: str) -> bool:
    return word in STOP or word in _COMMON_WORDS


def _find_unspaced_words(text: str) -> Iterator[str]:
    """Yield katakana names, short runs of Han, and repeated runs.

    In scripts without spaces, nothing else is reliably a word.
    """
    yield from _name_pattern().findall(text)
    yield from (run for run in split_words(text) if 2 < len(run) <= MAX_RUN_LENGTH and _is_name(run))
    counts = Counter(
        run[at : at + size]
        for run in _unspaced_pattern().findall(text[:MAX_UNSPACED_LENGTH])
        for size in range(2, MAX_RUN_LENGTH + 1)
        for at in range(len(run) - size + 1)
    )
    often = [part for part, count in counts.items() if count > 1 and not _hiragana_pattern().search(part)]
    for part in often:
        if not any(part != other and part in other and counts[other] == counts[part] for other in often):
            yield from [part] * counts[part]


def _is_name(run: str) -> bool:
    """Whether a short run of mixed scripts looks like a name: no hiragana, not only one script."""
    return (
        _unspaced_pattern().fullmatch(run) is not None
        and not _hiragana_pattern().search(run)
        and not _name_pattern().fullmatch(run)
    )


@cache
def _unspaced_pattern() -> re.Pattern[str]:
    return re.compile(f"[{UNSEGMENTED}]+")


@cache
def _hiragana_pattern() -> re.Pattern[str]:
    return re.compile("[\u3041-\u309f]")


@cache
def _name_pattern() -> re.Pattern[str]:
    """Match a run of katakana, or two to four Han characters not adjacent to other Han."""
    return re.compile("[\u30a1-\u30fa\u30fc]{3,12}|(?<![\u3400-\u9fff])[\u3400-\u9fff]{2,4}(?![\u3400-\u9fff])")


TagCounter = Callable[[Session, str], dict[str, int]]
MAX_TAG_WORDS = 4
MAX_MODEL_CHARACTERS = 16_384
"""Characters of a text sent to a model."""


class AutoTagResult(MethodInfo, frozen=True, kw_only=True):
    id: str | None = None
    new_tags: list[str]
    """Suggested tags that the memory does not have, best first."""
    all_tags: list[str]
    applied: bool = False
    version: int | None = None


class SuggestedTags(Struct, frozen=True):
    """Tags for the text, best first."""

    tags: list[str]


def tag_memory(ctx: Context, id: str, *, apply: bool = False, expected_version: int | None = None) -> AutoTagResult:
    """Suggest tags for a memory; with `apply` add them, unless the memory changed meanwhile."""
    with ctx.reading() as session:
        memory = memories.resolve(session, ctx.caller, id, ctx.now())
        check_version(memory, expected_version)
    result = suggest_memory_tags(ctx, memory)
    if apply and result.new_tags:
        result = replace(result, applied=True, version=add_tags(ctx, memory, result.new_tags).version)
    return result


def suggest_memory_tags(ctx: Context, memory: Memory, count_known: TagCounter | None = None) -> AutoTagResult:
    """Suggest tags for a memory; `count_known` counts those of a namespace. Never call it inside a transaction."""
    new, how = _suggest_tags(ctx, memory.title, memory.content, memory.namespace, memory.tags, count_known)
    new = new[: validate.MAX_TAGS - len(memory.tags)]
    return AutoTagResult(
        id=memory.id, new_tags=new, all_tags=[*memory.tags, *new], version=memory.version, **method_fields(how)
    )


def suggest_text_tags(ctx: Context, title: str, content: str, namespace: str) -> AutoTagResult:
    """Suggest tags for a text that is not stored."""
    title, content, namespace = validate.title(title), validate.content(content), validate.namespace(namespace)
    new, how = _suggest_tags(ctx, title, content, namespace, ())
    return AutoTagResult(new_tags=new, all_tags=new, **method_fields(how))


def _suggest_tags(
    ctx: Context,
    title: str,
    content: str,
    namespace: str,
    existing: tuple[str, ...],
    count_known: TagCounter | None = None,
) -> tuple[list[str], MethodUsed]:
    """Suggest tags from the words of the text, and by a model if one is set."""
    with ctx.reading() as session:
        known = (
            count_known(session, namespace)
            if count_known
            else curation.count_tags(session, ctx.caller, namespace, ctx.now())
        )
        words = word_weights(session, split_words(f"{title} {content[:MAX_MODEL_CHARACTERS]}"))
        labels = extract_tags(title, content, known=known, rarity=words, existing=existing)
    return _suggest_by_model(ctx, title, content, [label.tag for label in labels], known, existing)


def add_tags(ctx: Context, memory: Memory, tags: list[str]) -> Memory:
    """Add tags to a memory. Raises if it changed since it was read."""
    with ctx.transaction() as write:
        now = memories.resolve(write.session, ctx.caller, memory.id, write.now)
        require_write_access(ctx, write, now)
        check_version(now, memory.version)
        return write.change(MEMORY, now, replace(now, tags=validate.tags((*now.tags, *tags))), "tag")


def _suggest_by_model(
    ctx: Context, title: str, content: str, found: list[str], known: dict[str, int], existing: tuple[str, ...]
) -> tuple[list[str], MethodUsed]:
    """Suggest tags with a model; without a valid answer return the rule-based ones."""
    if ctx.model is None:
        return found, BY_RULES
    task = Task(
        "tag",
        "Suggest three to eight short tags for the text: lower case, one or two words each, best first. Prefer tags "
        "that are already in use. Do not add topics that the text does not mention.",
        SuggestedTags,
        512,
    )
    material = [
        Material("tags in use", "\n".join(list(known)[:100]) or "none"),
        Material("tags by rules", "\n".join(found) or "none"),
        Material("title", title),
        Material("text", content[:MAX_MODEL_CHARACTERS]),
    ]
    answer, how = ask_or_fallback(ctx, task, material)
    if answer is None:
        return found, how
    seen_tags = {fold_name(tag) for tag in existing}
    clean = {
        fold_name(tag): tag
        for tag in map(_normalize_tag, reversed(answer.tags))
        if tag and fold_name(tag) not in seen_tags
    }
    tags = list(reversed(clean.values()))[:MAX_TAGS]
    return (tags, how) if tags else (found, rejected_answer("the model returned no usable tag"))


def _normalize_tag(tag: str) -> str:
    """Normalize a tag; empty if it is meaningless or too long."""
    words = split_words(tag)
    if not 0 < len(words) <= MAX_TAG_WORDS or all(word in STOP or word.isdigit() for word in words):
        return ""
    try:
        return validate.tags([tag.strip().lower().replace(" ", "-")])[0]
    except Invalid:
        return ""
