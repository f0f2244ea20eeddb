"""Conversations for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table


def said(answer: Any) -> Iterator[str]:
    yield f"{answer.conversation_id}" + ("  (a new one)" if answer.began else "")
    yield from _turns(answer.turns)


def _turns(turns: list[Any]) -> Iterator[str]:
    for turn in turns:
        yield f"{turn.place:>5}  {click.style(turn.role, bold=True)}: {one_line(turn.content, 300)}"


def whole(answer: Any) -> Iterator[str]:
    yield from closed(answer.conversation)
    yield from _turns(answer.turns)


def closed(one: Any) -> Iterator[str]:
    yield click.style(f"{one.id}  {one.state}  {one.turns} turns", bold=True)
    if isinstance(one.summary, str):
        yield f"  {safe(one.summary)}"


def listed(answer: Any) -> Iterator[str]:
    if not answer.conversations:
        yield "There are none."
        return
    rows = [
        (one.id, one.state, str(one.turns), one.last_at[:16] + "Z", one_line(_told(one), 60))
        for one in answer.conversations
    ]
    yield from table(rows, ("ID", "STATE", "TURNS", "LAST", "SUMMARY"))


def _told(one: Any) -> str:
    return one.summary if isinstance(one.summary, str) else ""


def reaped(answer: Any) -> Iterator[str]:
    yield f"{len(answer.closed)} closed, {len(answer.pruned)} pruned"


_GATES = {"lease": "another does it just now", "time": "it is too early", "conversations": "too little is new"}


def consolidated(answer: Any) -> Iterator[str]:
    if isinstance(answer.gate, str):
        yield f"Nothing was done: {_GATES[answer.gate]}."
        return
    yield f"{answer.closed} closed, {answer.pruned} pruned, {answer.interactions_erased} interactions erased"
    yield f"{answer.outcomes_archived} outcomes archived, {answer.outcomes_dropped} dropped"
