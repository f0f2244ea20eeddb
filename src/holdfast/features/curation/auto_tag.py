"""Suggest tags for a text, and add them to a memory on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.tagging import MOST, labels
from holdfast.features.llm.assist import BY_RULES, How, aid, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_change
from holdfast.features.memories.update_memory import must_be_version
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import rarity
from holdfast.kernel.text.words import STOP, fold, runs

InUse = Callable[[Session, str], dict[str, int]]
MOST_WORDS = 4
MOST_CHARACTERS = 16_384
"""Characters of a text sent to a model."""


class Tagged(NamedTuple):
    memory: Memory | None
    new: list[str]
    """Suggested tags that the memory does not have."""
    all: list[str]
    applied: bool
    how: How


class Labels(Struct, frozen=True):
    """Tags for the text, best first."""

    tags: list[str]


def auto_tag(hold: Hold, id: str, *, apply: bool = False, expected_version: int | None = None) -> Tagged:
    """Suggest tags for a memory; with `apply` add them, unless the memory changed meanwhile."""
    with hold.reading() as session:
        memory = memories.resolve(session, hold.caller, id, hold.now())
        must_be_version(memory, expected_version)
    result = labelled(hold, memory)
    if apply and result.new:
        result = result._replace(memory=add(hold, memory, result.new), applied=True)
    return result


def labelled(hold: Hold, memory: Memory, in_use: InUse | None = None) -> Tagged:
    """Suggest tags for a memory; `in_use` returns those of a namespace. Never call it inside a transaction."""
    with hold.reading() as session:
        in_namespace = in_use(session, memory.namespace) if in_use else used(hold, session, memory.namespace)
        found = _by_rules(session, in_namespace, memory.title, memory.content, memory.tags)
    new, how = _by_model(hold, memory.title, memory.content, found, in_namespace, memory.tags)
    new = new[: door.MOST_TAGS - len(memory.tags)]
    return Tagged(memory, new, [*memory.tags, *new], False, how)


def suggest(hold: Hold, title: str, content: str, namespace: str) -> Tagged:
    """Suggest tags for a text that is not stored."""
    title, content, namespace = door.title(title), door.content(content), door.namespace(namespace)
    with hold.reading() as session:
        in_namespace = used(hold, session, namespace)
        found = _by_rules(session, in_namespace, title, content, ())
    new, how = _by_model(hold, title, content, found, in_namespace, ())
    return Tagged(None, new, new, False, how)


def add(hold: Hold, memory: Memory, tags: list[str]) -> Memory:
    """Add tags to a memory. Raises if it changed since it was read."""
    with hold.writing() as write:
        now = memories.resolve(write.session, hold.caller, memory.id, write.now)
        must_change(hold, write, now)
        must_be_version(now, memory.version)
        return write.change(MEMORY, now, replace(now, tags=door.tags((*now.tags, *tags))), "tag")


def used(hold: Hold, session: Session, namespace: str) -> dict[str, int]:
    """Count the tags of a namespace."""
    return curation.tags(session, hold.caller, namespace, hold.now())


def _by_rules(session: Session, known: dict[str, int], title: str, content: str, had: tuple[str, ...]) -> list[str]:
    """Suggest tags from the words of the text."""
    words = rarity(session, runs(f"{title} {content[:MOST_CHARACTERS]}"))
    return [label.tag for label in labels(title, content, known=known, rarity=words, without=had)]


def _by_model(
    hold: Hold, title: str, content: str, found: list[str], known: dict[str, int], had: tuple[str, ...]
) -> tuple[list[str], How]:
    """Suggest tags with a model; without a valid answer return the rule-based ones."""
    if hold.model is None:
        return found, BY_RULES
    task = Task(
        "tag",
        "Suggest three to eight short tags for the text: lower case, one or two words each, best first. Prefer tags "
        "that are already in use. Do not add topics that the text does not mention.",
        Labels,
        512,
    )
    material = [
        Material("tags in use", "\n".join(list(known)[:100]) or "none"),
        Material("tags by rules", "\n".join(found) or "none"),
        Material("title", title),
        Material("text", content[:MOST_CHARACTERS]),
    ]
    answer, how = aid(hold, task, material)
    if answer is None:
        return found, how
    seen_tags = {fold(tag) for tag in had}
    clean = {fold(tag): tag for tag in map(_clean, reversed(answer.tags)) if tag and fold(tag) not in seen_tags}
    tags = list(reversed(clean.values()))[:MOST]
    return (tags, how) if tags else (found, unfit("the model returned no usable tag"))


def _clean(tag: str) -> str:
    """Normalize a tag; empty if it is meaningless or too long."""
    words = runs(tag)
    if not 0 < len(words) <= MOST_WORDS or all(word in STOP or word.isdigit() for word in words):
        return ""
    try:
        return door.tags([tag.strip().lower().replace(" ", "-")])[0]
    except Invalid:
        return ""
