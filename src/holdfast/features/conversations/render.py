"""Terminal output of turns and of consolidation."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, shorten, style

_GATE_LABELS = {
    "lease": "another process is running it",
    "time": "too early",
    "conversations": "too few new conversations",
}


def render_new_turns(answer: Any) -> Iterator[str]:
    yield f"{answer.conversation_id}" + ("  (new)" if answer.began else "")
    yield from _render_turns(answer.turns)


def render_conversation(answer: Any) -> Iterator[str]:
    one = answer.conversation
    yield style(f"{one.id}  {one.state}  {one.turns} turns", bold=True)
    if isinstance(one.summary, str):
        yield f"  {escape(one.summary)}"
    yield from _render_turns(answer.turns)


def _render_turns(turns: list[Any]) -> Iterator[str]:
    for turn in turns:
        yield f"{turn.place:>5}  {style(turn.role, bold=True)}: {shorten(turn.content, 300)}"


def render_conversation_consolidation(answer: Any) -> Iterator[str]:
    if isinstance(answer.gate, str):
        yield f"Skipped: {_GATE_LABELS[answer.gate]}."
        return
    yield f"{answer.closed} closed, {answer.pruned} pruned, {answer.interactions_erased} interactions erased"
    yield f"{answer.outcomes_archived} outcomes archived, {answer.outcomes_dropped} dropped"
