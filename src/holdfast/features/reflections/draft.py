"""Draft a conclusion from observations, from their sentences or with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.summary import meant, summary
from holdfast.features.llm.assist import BY_RULES, How, aid, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.idf import rarity

SENTENCES = 3
MOST_CHARACTERS = 4000
"""Of each source."""
LONGEST_TITLE = 120
INSTRUCTIONS = (
    "State in one to three plain sentences what follows from the sources together: a pattern, a cause or a rule that "
    "no single source states, with a short title. Keep names, numbers and dates. Claim nothing that the sources do not "
    "support."
)


class Conclusion(NamedTuple):
    """A draft for `reflect`; not stored."""

    title: str
    content: str
    how: How


class Concluded(Struct, frozen=True):
    """The model's answer: a conclusion and its title."""

    title: str
    text: str


def conclude(hold: Hold, sources: Sequence[Memory], shared: Sequence[str], *, ask: bool) -> Conclusion:
    """Draft a conclusion, with the model if one is set and `ask` is true. Never call inside a transaction."""
    rules = _by_rules(hold, sources, shared)
    if hold.model is None or not ask:
        return rules
    material = [
        Material(f"source {number}", f"{one.title}\n{one.content[:MOST_CHARACTERS]}")
        for number, one in enumerate(sources, 1)
    ]
    answer, how = aid(hold, Task("conclude", INSTRUCTIONS, Concluded, 1024), material)
    if answer is None:
        return rules._replace(how=how)
    try:
        return Conclusion(door.title(answer.title), door.content(answer.text.strip()), how)
    except Invalid as error:
        return rules._replace(how=unfit(f"the model's draft is invalid: {error.message}"))


def _by_rules(hold: Hold, sources: Sequence[Memory], shared: Sequence[str]) -> Conclusion:
    """Quote the most important sentences of the sources, titled with their shared words."""
    text = "\n".join(source.content[:MOST_CHARACTERS] for source in sources)
    with hold.reading() as session:
        sentences = summary(text, SENTENCES, rarity(session, meant(text)))
    title = ", ".join(shared)[:LONGEST_TITLE].strip(", ")
    return Conclusion(title or sources[0].title, sentences, BY_RULES)
