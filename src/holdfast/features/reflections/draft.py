"""Draft a conclusion from observations, from their sentences or with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.extract_summary import extract_content_words, extract_summary
from holdfast.kernel.text.idf import word_weights

DRAFT_SENTENCES = 3
MAX_CHARACTERS = 4000
"""Of each source."""
MAX_TITLE = 120
INSTRUCTIONS = (
    "State in one to three plain sentences what follows from the sources together: a pattern, a cause or a rule that "
    "no single source states, with a short title. Keep names, numbers and dates. Claim nothing that the sources do not "
    "support."
)


class Conclusion(NamedTuple):
    """A draft for `reflect`; not stored."""

    title: str
    content: str
    method: MethodUsed


class ModelConclusion(Struct, frozen=True):
    """The model's answer: a conclusion and its title."""

    title: str
    text: str


def draft_conclusion(ctx: Context, sources: Sequence[Memory], shared: Sequence[str], *, ask: bool) -> Conclusion:
    """Draft a conclusion, with the model if one is set and `ask` is true. Never call inside a transaction."""
    rules = _draft_by_rules(ctx, sources, shared)
    if ctx.model is None or not ask:
        return rules
    material = [
        Material(f"source {number}", f"{one.title}\n{one.content[:MAX_CHARACTERS]}")
        for number, one in enumerate(sources, 1)
    ]
    answer, how = ask_or_fallback(ctx, Task("conclude", INSTRUCTIONS, ModelConclusion, 1024), material)
    if answer is None:
        return rules._replace(method=how)
    try:
        return Conclusion(validate.title(answer.title), validate.content(answer.text.strip()), how)
    except Invalid as error:
        return rules._replace(method=rejected_answer(f"the model's draft is invalid: {error.message}"))


def _draft_by_rules(ctx: Context, sources: Sequence[Memory], shared: Sequence[str]) -> Conclusion:
    """Quote the most important sentences of the sources, titled with their shared words."""
    text = "\n".join(source.content[:MAX_CHARACTERS] for source in sources)
    with ctx.reading() as session:
        sentences = extract_summary(text, DRAFT_SENTENCES, word_weights(session, extract_content_words(text)))
    title = ", ".join(shared)[:MAX_TITLE].strip(", ")
    return Conclusion(title or sources[0].title, sentences, BY_RULES)
