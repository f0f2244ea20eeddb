"""Suggest tags for a text, and add them to a memory on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.extract_tags import MAX_TAGS, extract_tags
from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
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
from holdfast.kernel.text.words import STOP, fold_name, split_words

TagCounter = Callable[[Session, str], dict[str, int]]
MAX_TAG_WORDS = 4
MAX_MODEL_CHARACTERS = 16_384
"""Characters of a text sent to a model."""


class TagResult(NamedTuple):
    memory: Memory | None
    new_tags: list[str]
    """Suggested tags that the memory does not have."""
    all_tags: list[str]
    is_applied: bool
    how: MethodUsed


class SuggestedTags(Struct, frozen=True):
    """Tags for the text, best first."""

    tags: list[str]


def tag_memory(ctx: Context, id: str, *, apply: bool = False, expected_version: int | None = None) -> TagResult:
    """Suggest tags for a memory; with `apply` add them, unless the memory changed meanwhile."""
    with ctx.reading() as session:
        memory = memories.resolve(session, ctx.caller, id, ctx.now())
        check_version(memory, expected_version)
    result = suggest_memory_tags(ctx, memory)
    if apply and result.new_tags:
        result = result._replace(memory=add_tags(ctx, memory, result.new_tags), is_applied=True)
    return result


def suggest_memory_tags(ctx: Context, memory: Memory, count_known: TagCounter | None = None) -> TagResult:
    """Suggest tags for a memory; `count_known` counts those of a namespace. Never call it inside a transaction."""
    with ctx.reading() as session:
        in_namespace = (
            count_known(session, memory.namespace) if count_known else count_tags(ctx, session, memory.namespace)
        )
        found = _suggest_by_rules(session, in_namespace, memory.title, memory.content, memory.tags)
    new, how = _suggest_by_model(ctx, memory.title, memory.content, found, in_namespace, memory.tags)
    new = new[: validate.MAX_TAGS - len(memory.tags)]
    return TagResult(memory, new, [*memory.tags, *new], False, how)


def suggest_text_tags(ctx: Context, title: str, content: str, namespace: str) -> TagResult:
    """Suggest tags for a text that is not stored."""
    title, content, namespace = validate.title(title), validate.content(content), validate.namespace(namespace)
    with ctx.reading() as session:
        in_namespace = count_tags(ctx, session, namespace)
        found = _suggest_by_rules(session, in_namespace, title, content, ())
    new, how = _suggest_by_model(ctx, title, content, found, in_namespace, ())
    return TagResult(None, new, new, False, how)


def add_tags(ctx: Context, memory: Memory, tags: list[str]) -> Memory:
    """Add tags to a memory. Raises if it changed since it was read."""
    with ctx.transaction() as write:
        now = memories.resolve(write.session, ctx.caller, memory.id, write.now)
        require_write_access(ctx, write, now)
        check_version(now, memory.version)
        return write.change(MEMORY, now, replace(now, tags=validate.tags((*now.tags, *tags))), "tag")


def count_tags(ctx: Context, session: Session, namespace: str) -> dict[str, int]:
    """Count the tags of a namespace."""
    return curation.count_tags(session, ctx.caller, namespace, ctx.now())


def _suggest_by_rules(
    session: Session, known: dict[str, int], title: str, content: str, existing: tuple[str, ...]
) -> list[str]:
    """Suggest tags from the words of the text."""
    words = word_weights(session, split_words(f"{title} {content[:MAX_MODEL_CHARACTERS]}"))
    return [label.tag for label in extract_tags(title, content, known=known, rarity=words, existing=existing)]


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
