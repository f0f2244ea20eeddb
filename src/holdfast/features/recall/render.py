"""Terminal output of recall, its explanation and its feedback."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.features.memories.render import format_stale_mark
from holdfast.kernel.terminal import escape, shorten, style


def render_recall(answer: Any) -> Iterator[str]:
    """Print the namespace standards, then each hit with its text."""
    if answer.toon:
        yield from map(escape, answer.toon.splitlines())
        return
    for standard in answer.standards or ():
        yield style(f"      {escape(standard.title)}: {shorten(standard.content, 200)}", fg="cyan")
    if not answer.memories:
        yield "Nothing found."
    for hit in answer.memories:
        yield style(f"{hit.score:.2f}  {escape(hit.title)}", bold=True)
        yield style(f"      {hit.id}  {escape(hit.namespace)}  by {escape(hit.agent_id)}", dim=True)
        yield "      " + shorten(hit.content, 200)
        if hit.matched and hit.matched.start > 0:
            passage = hit.content[hit.matched.start : hit.matched.end]
            yield style(f"      characters {hit.matched.start} to {hit.matched.end}: ", dim=True) + shorten(
                passage, 200
            )
        if hit.stale:
            yield "      " + format_stale_mark(hit.stale)
        if hit.untrusted:
            yield style(f"      untrusted: {', '.join(hit.untrusted)}", fg="yellow")
        if hit.why:
            yield from _render_score(hit.why, "      ")
    if answer.meta.degraded:
        yield style(answer.meta.degraded, fg="yellow")


def render_explanation(answer: Any) -> Iterator[str]:
    """Print why a memory was or was not returned, and its score."""
    yield style(escape(answer.title), bold=True) + style(f"  {answer.id}", dim=True)
    for reason in answer.reasons:
        yield style(f"  {escape(reason.message)}", fg="green" if answer.returned else "yellow")
    if answer.why:
        yield from _render_score(answer.why, "  ")


def _render_score(why: Any, indent: str) -> Iterator[str]:
    """Print the parts that a score is made of."""
    names = {name: name.replace("_", " ") for name in why.parts}
    if why.cosine is msgspec.UNSET:
        names["vector"] = "estimated vector"
    parts = [f"{names[name]} {part.value:.2f} x {part.weight:g}" for name, part in why.parts.items()]
    total = " + ".join(parts) or "nothing"
    adjusted = ", ".join(
        f"{name} {value:{'g' if name == 'over' else '+.3f'}}" for name, value in why.adjustments.items()
    )
    factor = f"{why.adjustment:.3f}" + (f" ({adjusted})" if adjusted else "")
    yield style(f"{indent}score {why.score:.3f} = ({total}) x {factor}", dim=True)
    if why.terms:
        yield style(f"{indent}contains {', '.join(map(escape, why.terms))}", dim=True)


def render_feedback(answer: Any) -> Iterator[str]:
    for one in answer.judged:
        again = "" if one.outcome == "applied" else " (unchanged)"
        yield f"{one.id} {one.verdict}{again}. Its utility is {one.utility:+.2f}."


def render_recall_log(answer: Any) -> Iterator[str]:
    if not answer.recalls:
        yield "No recalls are logged."
    for one in answer.recalls:
        yield style(shorten(one.question) if one.question else "(query not stored)", bold=True)
        yield style(f"  {one.recall_id}  {one.asked_at[:19].replace('T', ' ')}  by {escape(one.agent_id)}", dim=True)
        for hit in one.hits:
            verdicts = ", ".join(f"{verdict} by {escape(agent)}" for agent, verdict in hit.verdicts.items())
            yield f"  {hit.score:.3f}  {hit.id}  {verdicts}".rstrip()


def render_reembedding(answer: Any) -> Iterator[str]:
    yield f"Embedded {answer.memories} memories ({answer.passages} passages) with {answer.model}."
    if answer.dropped:
        yield style(f"Dropped {answer.dropped} older embeddings with another number of dimensions.", fg="yellow")
    for one in answer.refused:
        yield style(f"{one.id} was not embedded: {one.error}", fg="yellow")
