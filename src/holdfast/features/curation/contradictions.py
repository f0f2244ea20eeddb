"""Detect contradictions between two memories, by rules and optionally by a model."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.contradiction_rules import Evidence, find_contradictions
from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.similarity import Similarity, compare
from holdfast.kernel.text.words import fold_name

MAX_CHARACTERS = 16_384
MAX_EVIDENCE = 20


class Comparison(NamedTuple):
    a: Memory
    b: Memory
    evidence: list[Evidence]
    likeness: Similarity
    how: MethodUsed

    @property
    def is_contradiction(self) -> bool:
        return bool(self.evidence)


class Verdict(Struct, frozen=True):
    """Whether the texts contradict each other, and the contradicting sentences, verbatim."""

    contradicts: bool
    sentence_a: str = ""
    sentence_b: str = ""
    difference: str = ""


def detect_contradictions(ctx: Context, id_a: str, id_b: str) -> Comparison:
    """Check whether two memories contradict each other, and where."""
    with ctx.reading() as session:
        a, b = (memories.resolve(session, ctx.caller, id, ctx.now()) for id in (id_a, id_b))
    if a.id == b.id:
        raise Invalid("id_b must be a different memory than id_a", fields=["id_b"])
    return compare_memories(ctx, a, b)


def compare_memories(ctx: Context, a: Memory, b: Memory) -> Comparison:
    """Compare two memories by rules, and by a model if one is set. Never call it inside a transaction."""
    found, likeness = compare_by_rules(a, b)
    if ctx.model is None:
        return Comparison(a, b, found, likeness, BY_RULES)
    evidence, how = _compare_by_model(ctx, a, b, found)
    return Comparison(a, b, evidence, likeness, how)


def compare_by_rules(a: Memory, b: Memory) -> tuple[list[Evidence], Similarity]:
    subject = a.title if fold_name(a.title) == fold_name(b.title) else ""
    found = find_contradictions(a.content[:MAX_CHARACTERS], b.content[:MAX_CHARACTERS], subject=subject)
    return found[:MAX_EVIDENCE], compare(a.content, b.content)


def _compare_by_model(ctx: Context, a: Memory, b: Memory, found: list[Evidence]) -> tuple[list[Evidence], MethodUsed]:
    """Ask a model. A verdict with quotes that are not in the texts is ignored."""
    task = Task(
        "contradiction",
        "Decide whether the texts A and B contradict each other: whether they cannot both be true of the same thing at "
        "the same time. If so, quote the sentence of each, verbatim, and state the difference in a few words. Texts "
        "about different things do not contradict each other.",
        Verdict,
        1024,
    )
    hints = "\n".join(f"{one.sort}: {one.difference}" for one in found) or "none"
    material = [
        Material("A", f"{a.title}\n{a.content[:MAX_CHARACTERS]}"),
        Material("B", f"{b.title}\n{b.content[:MAX_CHARACTERS]}"),
        Material("differences by rules", hints),
    ]
    answer, how = ask_or_fallback(ctx, task, material)
    if answer is None:
        return found, how
    if not answer.contradicts:
        return [], how
    if not _is_quote(answer.sentence_a, a) or not _is_quote(answer.sentence_b, b):
        return found, rejected_answer("the model quoted text that is not in the memories")
    return [Evidence("model", answer.sentence_a, answer.sentence_b, answer.difference[:512])], how


def _is_quote(sentence: str, memory: Memory) -> bool:
    quote = " ".join(sentence.split()).casefold()
    return bool(quote) and quote in " ".join(f"{memory.title} {memory.content}".split()).casefold()
