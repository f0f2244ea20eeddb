"""How often a prompt is told something that bears on it, and how often something that does not."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from holdfast import app
from holdfast.app import Holdfast
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.memories.store import Filter
from holdfast.features.recall.quality.question_files import OWN, Sample
from holdfast.features.recall.service import Ask
from holdfast.settings import load
from holdfast.surfaces.bench.clients import AGENT

PROMPTS = Path(__file__).with_name("prompts.json")
"""A project's memories, answers of an agent, and prompts on which some of them bear or none does."""
BUDGET = 600


class Relevant(Struct, frozen=True):
    prompt: str
    title: str
    """Of the memory that bears on it."""


class Prompts(Struct, frozen=True):
    relevant: list[Relevant]
    irrelevant: list[str]


class Fixture(Struct, frozen=True):
    project: str
    memories: list[dict[str, str]]
    turns: list[str]
    tuned_on: Prompts
    """Those by which the floor was set."""
    held_out: Prompts


class Fired(Struct, frozen=True, kw_only=True):
    """Shares of prompts."""

    told: float
    """Of those on which something bears: were told something."""
    right: float
    """Were told the memory that bears on them."""
    wrongly: float
    """Of those on which nothing bears: were told something nevertheless."""
    relevant: int
    irrelevant: int

    def text(self) -> str:
        return (
            f"{self.relevant} prompts on which a memory bears: {self.told:.0%} were told something, "
            f"{self.right:.0%} the right memory.\n"
            f"{self.irrelevant} on which none does: {self.wrongly:.1%} were told something."
        )


def fixture() -> Fixture:
    return msgspec.json.decode(PROMPTS.read_bytes(), type=Fixture)


def fill(hold: Holdfast, given: Fixture, *, background: bool) -> None:
    """The memories and answers of the fixture; as background, all conversations and notes that come with Holdfast."""
    place = given.project
    hold.call("bulk_store", {"memories": [{**one, "namespace": place} for one in given.memories]})
    for number, text in enumerate(given.turns):
        turn = {"host_session_id": "old", "host_turn_index": number, "role": "assistant", "content": text}
        hold.call("capture_turn", {**turn, "namespace": place, "host_kind": "claude-code"})
    if background:
        for begin in range(0, len(others := _others(place)), 500):
            hold.call("bulk_store", {"memories": others[begin : begin + 500]})


def _others(place: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for sample in msgspec.json.decode(OWN.read_bytes(), type=list[Sample]):
        said = [(turn.dia_id, turn.told()) for _, _, turns in sample.sessions() for turn in turns]
        said += [(f"{note.id} {note.title}", note.content) for note in sample.notes]
        found += [{"title": f"{sample.sample_id} {name}", "content": text, "namespace": place} for name, text in said]
    return found


def fired(hold: Holdfast, given: Fixture, prompts: Prompts) -> Fired:
    """Ask every prompt as the hook does, each in a session of its own."""
    which = Filter(namespaces=(given.project,))
    ids = {one["title"]: one["id"] for one in _stored(hold, given.project)}

    def told(prompt: str) -> Sequence[str]:
        return host_hooks.given(hold.hold, Ask(prompt, which, host_hooks.MOST_HITS), "", BUDGET).cited

    relevant = [(told(one.prompt), ids[one.title]) for one in prompts.relevant]
    irrelevant = [told(prompt) for prompt in prompts.irrelevant]
    return Fired(
        told=sum(bool(cited) for cited, _ in relevant) / len(relevant),
        right=sum(id in cited for cited, id in relevant) / len(relevant),
        wrongly=sum(map(bool, irrelevant)) / len(irrelevant),
        relevant=len(relevant),
        irrelevant=len(irrelevant),
    )


def _stored(hold: Holdfast, place: str) -> list[dict[str, str]]:
    found = hold.call("list", {"namespace": place, "limit": 1000}).memories
    return [{"title": one.title, "id": one.id} for one in found]


def measure_firing(*, background: bool = True) -> Fired:
    """By the prompts that were held out, with vectors as the settings say; the store is gone afterwards."""
    given = fixture()
    with (
        TemporaryDirectory() as place,
        app.open(settings=load({"db": f"{place}/prompts.db", "agent_id": AGENT})) as hold,
    ):
        fill(hold, given, background=background)
        if hold.hold.embedder is not None:
            hold.call("reembed", {})
        return fired(hold, given, given.held_out)
