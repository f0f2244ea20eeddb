"""Measure how often the prompt hook adds a relevant memory, and how often an irrelevant one."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from holdfast import app
from holdfast.app import Holdfast
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.memories.read_memories import Filter
from holdfast.features.recall.quality.question_files import BUNDLED_QUESTIONS, Sample
from holdfast.features.recall.query import RecallRequest
from holdfast.settings import load
from holdfast.surfaces.bench.clients import AGENT

PROMPTS = Path(__file__).with_name("prompts.json")
"""A project's memories, answers of an agent, and relevant and irrelevant prompts."""
BUDGET = 600


class Relevant(Struct, frozen=True):
    prompt: str
    title: str
    """Title of the relevant memory."""


class Prompts(Struct, frozen=True):
    relevant: list[Relevant]
    irrelevant: list[str]


class Fixture(Struct, frozen=True):
    project: str
    memories: list[dict[str, str]]
    turns: list[str]
    tuned_on: Prompts
    """Prompts used to tune the threshold."""
    held_out: Prompts


class FiringResult(Struct, frozen=True, kw_only=True):
    """Shares of prompts for which the hook fired."""

    answered: float
    """Share of relevant prompts that got any memory."""
    right: float
    """Share of relevant prompts that got the right memory."""
    wrongly: float
    """Share of irrelevant prompts that got a memory anyway."""
    relevant: int
    irrelevant: int

    def text(self) -> str:
        return (
            f"{self.relevant} relevant prompts: {self.answered:.0%} got a memory, {self.right:.0%} the right one.\n"
            f"{self.irrelevant} irrelevant prompts: {self.wrongly:.1%} got a memory."
        )


def load_fixture() -> Fixture:
    return msgspec.json.decode(PROMPTS.read_bytes(), type=Fixture)


def fill(hold: Holdfast, given: Fixture, *, background: bool) -> None:
    """Store the fixture's memories and answers; with `background`, also the bundled conversations and notes."""
    place = given.project
    hold.call("bulk_store", {"memories": [{**one, "namespace": place} for one in given.memories]})
    for number, text in enumerate(given.turns):
        turn = {"host_session_id": "old", "host_turn_index": number, "role": "assistant", "content": text}
        hold.call("capture_turn", {**turn, "namespace": place, "host_kind": "claude-code"})
    if background:
        for begin in range(0, len(others := _background_memories(place)), 500):
            hold.call("bulk_store", {"memories": others[begin : begin + 500]})


def _background_memories(place: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for sample in msgspec.json.decode(BUNDLED_QUESTIONS.read_bytes(), type=list[Sample]):
        said = [(turn.dia_id, turn.full_text()) for _, _, turns in sample.sessions() for turn in turns]
        said += [(f"{note.id} {note.title}", note.content) for note in sample.notes]
        found += [{"title": f"{sample.sample_id} {name}", "content": text, "namespace": place} for name, text in said]
    return found


def measure_prompts(hold: Holdfast, given: Fixture, prompts: Prompts) -> FiringResult:
    """Run every prompt as the hook does, each in its own session."""
    which = Filter(namespaces=(given.project,))
    ids = {one["title"]: one["id"] for one in _list_stored(hold, given.project)}

    def cited_for(prompt: str) -> Sequence[str]:
        return host_hooks.pack_relevant(hold.ctx, RecallRequest(prompt, which, host_hooks.MAX_HITS), "", BUDGET).cited

    relevant = [(cited_for(one.prompt), ids[one.title]) for one in prompts.relevant]
    irrelevant = [cited_for(prompt) for prompt in prompts.irrelevant]
    return FiringResult(
        answered=sum(bool(cited) for cited, _ in relevant) / len(relevant),
        right=sum(id in cited for cited, id in relevant) / len(relevant),
        wrongly=sum(map(bool, irrelevant)) / len(irrelevant),
        relevant=len(relevant),
        irrelevant=len(irrelevant),
    )


def _list_stored(hold: Holdfast, place: str) -> list[dict[str, str]]:
    found = hold.call("list", {"namespace": place, "limit": 1000}).memories
    return [{"title": one.title, "id": one.id} for one in found]


def measure_firing(*, background: bool = True) -> FiringResult:
    """Measure the held-out prompts in a temporary store, with embeddings if enabled."""
    given = load_fixture()
    with (
        TemporaryDirectory() as place,
        app.open(settings=load({"db": f"{place}/prompts.db", "agent_id": AGENT})) as hold,
    ):
        fill(hold, given, background=background)
        if hold.ctx.embedder is not None:
            hold.call("reembed", {})
        return measure_prompts(hold, given, given.held_out)
