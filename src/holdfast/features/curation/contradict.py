"""Detect contradictions between two memories, by rules and optionally by a model."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.contradiction import Evidence, contradictions
from holdfast.features.llm.assist import BY_RULES, How, aid, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.similarity import Likeness, compare
from holdfast.kernel.text.words import fold

MOST_CHARACTERS = 16_384
MOST_EVIDENCE = 20


class Detected(NamedTuple):
    a: Memory
    b: Memory
    evidence: list[Evidence]
    likeness: Likeness
    how: How

    @property
    def contradicts(self) -> bool:
        return bool(self.evidence)


class Verdict(Struct, frozen=True):
    """Whether the texts contradict each other, and the contradicting sentences, verbatim."""

    contradicts: bool
    sentence_a: str = ""
    sentence_b: str = ""
    difference: str = ""


def detect(hold: Hold, id_a: str, id_b: str) -> Detected:
    """Check whether two memories contradict each other, and where."""
    with hold.reading() as session:
        a, b = (memories.resolve(session, hold.caller, id, hold.now()) for id in (id_a, id_b))
    if a.id == b.id:
        raise Invalid("id_b must be a different memory than id_a", fields=["id_b"])
    return compared(hold, a, b)


def compared(hold: Hold, a: Memory, b: Memory) -> Detected:
    """Compare two memories by rules, and by a model if one is set. Never call it inside a transaction."""
    found, likeness = by_rules(a, b)
    if hold.model is None:
        return Detected(a, b, found, likeness, BY_RULES)
    evidence, how = _by_model(hold, a, b, found)
    return Detected(a, b, evidence, likeness, how)


def by_rules(a: Memory, b: Memory) -> tuple[list[Evidence], Likeness]:
    subject = a.title if fold(a.title) == fold(b.title) else ""
    found = contradictions(a.content[:MOST_CHARACTERS], b.content[:MOST_CHARACTERS], subject=subject)
    return found[:MOST_EVIDENCE], compare(a.content, b.content)


def _by_model(hold: Hold, a: Memory, b: Memory, found: list[Evidence]) -> tuple[list[Evidence], How]:
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
        Material("A", f"{a.title}\n{a.content[:MOST_CHARACTERS]}"),
        Material("B", f"{b.title}\n{b.content[:MOST_CHARACTERS]}"),
        Material("differences by rules", hints),
    ]
    answer, how = aid(hold, task, material)
    if answer is None:
        return found, how
    if not answer.contradicts:
        return [], how
    if not _quoted(answer.sentence_a, a) or not _quoted(answer.sentence_b, b):
        return found, unfit("the model quoted text that is not in the memories")
    return [Evidence("model", answer.sentence_a, answer.sentence_b, answer.difference[:512])], how


def _quoted(sentence: str, memory: Memory) -> bool:
    quote = " ".join(sentence.split()).casefold()
    return bool(quote) and quote in " ".join(f"{memory.title} {memory.content}".split()).casefold()
