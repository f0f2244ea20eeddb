"""Summarise memories: by a model, or by their most relevant sentences, verbatim."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.records import validate
from holdfast.kernel.text.extract_summary import extract_content_words, extract_summary
from holdfast.kernel.text.idf import word_weights

MAX_SENTENCES = 6
MAX_CHARACTERS = 100_000


class Summary(Struct, frozen=True):
    """A summary of the texts."""

    text: str


def summarise_memories(ctx: Context, ids: Sequence[str]) -> tuple[str, MethodUsed]:
    """Summarise memories that the caller may see. Never call it inside a transaction."""
    with ctx.reading() as session:
        sources = [memories.resolve(session, ctx.caller, id, ctx.now()) for id in ids]
        text = "\n".join(source.content for source in sources)
        rules = extract_summary(text, MAX_SENTENCES, word_weights(session, extract_content_words(text)))
    if ctx.model is None:
        return _truncate(rules), BY_RULES
    task = Task(
        "summarise",
        "Summarise the texts in a few plain sentences. Keep names, numbers and dates. Add nothing that no text states.",
        Summary,
        2048,
    )
    material = [
        Material(f"text {n}", f"{one.title}\n{one.content[:MAX_CHARACTERS]}") for n, one in enumerate(sources, 1)
    ]
    answer, how = ask_or_fallback(ctx, task, material)
    if answer is None:
        return _truncate(rules), how
    if not answer.text.strip() or "\x00" in answer.text:
        return _truncate(rules), rejected_answer("the model returned an empty summary")
    return _truncate(answer.text.strip()), how


def _truncate(text: str) -> str:
    return text.encode()[: validate.MAX_BYTES["content"]].decode(errors="ignore")
