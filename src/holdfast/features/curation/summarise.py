"""Summarise memories: by a model, or by their most relevant sentences, verbatim."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.features.curation.summary import meant, summary
from holdfast.features.llm.assist import BY_RULES, How, aid, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.kernel.context import Hold
from holdfast.kernel.records import validate as door
from holdfast.kernel.text.idf import rarity

SENTENCES = 6
MOST_CHARACTERS = 100_000


class Summary(Struct, frozen=True):
    """A summary of the texts."""

    text: str


def summarise(hold: Hold, ids: Sequence[str]) -> tuple[str, How]:
    """Summarise memories that the caller may see. Never call it inside a transaction."""
    with hold.reading() as session:
        sources = [memories.resolve(session, hold.caller, id, hold.now()) for id in ids]
        text = "\n".join(source.content for source in sources)
        rules = summary(text, SENTENCES, rarity(session, meant(text)))
    if hold.model is None:
        return _fitting(rules), BY_RULES
    task = Task(
        "summarise",
        "Summarise the texts in a few plain sentences. Keep names, numbers and dates. Add nothing that no text states.",
        Summary,
        2048,
    )
    material = [
        Material(f"text {n}", f"{one.title}\n{one.content[:MOST_CHARACTERS]}") for n, one in enumerate(sources, 1)
    ]
    answer, how = aid(hold, task, material)
    if answer is None:
        return _fitting(rules), how
    if not answer.text.strip() or "\x00" in answer.text:
        return _fitting(rules), unfit("the model returned an empty summary")
    return _fitting(answer.text.strip()), how


def _fitting(text: str) -> str:
    return text.encode()[: door.MOST_BYTES["content"]].decode(errors="ignore")
