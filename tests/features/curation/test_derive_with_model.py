"""Derivation with a model: answers must be valid for the texts, otherwise the rules decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import holdfast
from holdfast.kernel.text.token_count import count_tokens
from holdfast.settings import Settings
from model_server import Provider, prompt_of, provider, replying, saying

LONG = " ".join(f"Part {number} of the report tells how the gate {number} was built." for number in range(16))
PAIR = ("Ada leads the team of twelve.", "Since spring the team of twelve is led by Bob.")


@contextmanager
def open_store(db: str, server: Provider, **more: Any) -> Iterator[Any]:
    settings = Settings(
        db=db,
        agent_id="ai:tester@here",
        embedder="none",
        llm="openai",
        llm_url=server.url,
        llm_model="m",
        llm_key="k",
        **more,
    )
    with holdfast.app.open(settings=settings, once=True) as hold:
        yield hold


def test_tags_of_a_model_are_normalized_and_attributed(db: str) -> None:
    given = ["Gates", "the", "Port, and more", "x" * 500, "gates", "Building Works"]
    with provider(saying({"tags": given})) as server, open_store(db, server) as ctx:
        id = ctx.store(title="Report", content=LONG, tags=["port"]).id
        found = ctx.auto_tag(id)
    assert (found.new_tags, found.method, found.model) == (["gates", "building-works"], "llm", "m-1")
    assert "tags by rules" in prompt_of(server.asked[0])


def test_a_query_is_expanded_by_a_model(db: str) -> None:
    with (
        provider(saying({"terms": ["door", "gates of the town", "", "gate"]})) as server,
        open_store(db, server) as ctx,
    ):
        found = ctx.expand_query("gate")
    assert (found.expanded_terms, found.method) == (["door", "gates of the town"], "llm")


def test_a_model_finds_a_contradiction_that_rules_miss(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": PAIR[0], "sentence_b": PAIR[1], "difference": "who leads"}
    with provider(saying(verdict)) as server, open_store(db, server) as ctx:
        a, b = (ctx.store(title=title, content=text).id for title, text in zip(("Old", "New"), PAIR, strict=True))
        found = ctx.detect_contradiction(a, b)
    assert (found.contradicts, found.method, found.evidence[0].difference) == (True, "llm", "who leads")


def test_a_contradiction_with_invented_quotes_is_ignored(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": "Eve leads.", "sentence_b": PAIR[1], "difference": "x"}
    with provider(saying(verdict)) as server, open_store(db, server) as ctx:
        a, b = (ctx.store(title=title, content=text).id for title, text in zip(("Old", "New"), PAIR, strict=True))
        found = ctx.detect_contradiction(a, b)
    assert (found.contradicts, found.method) == (False, "heuristic")
    assert found.reason == "the model quoted text that is not in the memories"


def test_a_model_decides_where_atoms_start_but_not_their_text(db: str) -> None:
    with provider(saying({"begins": [3, 11]})) as server, open_store(db, server) as ctx:
        id = ctx.store(title="Report", content=LONG).id
        done = ctx.atomise(id, max_atom_tokens=200)
        atoms = [ctx.get(one) for one in done.atom_ids]
    assert (done.method, done.model) == ("llm", "m-1")
    assert " ".join(atom.content for atom in atoms) == LONG
    assert [atom.content.split()[1] for atom in atoms] == ["0", "3", "11"]
    assert all(count_tokens(atom.content) <= 200 for atom in atoms)
    assert atoms[0].metadata == {"atom_of": id, "method": "llm", "model": "m-1"}


@pytest.mark.parametrize("begins", [[99], [3, 1], [0]])
def test_invalid_sentence_numbers_are_ignored(db: str, begins: list[int]) -> None:
    with provider(saying({"begins": begins})) as server, open_store(db, server) as ctx:
        done = ctx.atomise(ctx.store(title="Report", content=LONG).id, max_atom_tokens=100)
    assert (done.method, done.reason) == ("heuristic", "the model returned sentence numbers that do not exist")


def test_a_persona_by_a_model_must_cite_its_sources(db: str) -> None:
    with provider(saying({"text": "Ada writes programs [1]."})) as server, open_store(db, server) as ctx:
        ctx.store(title="One", content="Ada wrote the first program.")
        good = ctx.persona_generate("Ada")
    assert (good.method, good.persona.content.startswith("Ada writes programs [1].\n\n[1] One")) == ("llm", True)
    with provider(saying({"text": "Ada rules the world [7]."})) as server, open_store(db, server) as ctx:
        ctx.store(title="Two", content="Ada likes tea.")
        bad = ctx.persona_generate("Ada")
    assert (bad.method, "rules the world" in bad.persona.content) == ("heuristic", False)


def test_a_failing_model_falls_back_to_rules_and_is_reported(db: str) -> None:
    with provider(replying(b"<html>no</html>", status=500)) as server, open_store(db, server) as ctx:
        id = ctx.store(title="Report", content=LONG).id
        found = ctx.auto_tag(id)
        assert (found.method, bool(found.reason), bool(found.new_tags)) == ("heuristic", True, True)
        assert ctx.atomise(id, max_atom_tokens=100).method == "heuristic"


def test_a_closed_conversation_is_summarised_from_its_beginning(db: str) -> None:
    turns = [{"role": "user", "content": f"Gate {number} opens at {number * 7}."} for number in range(80)]
    with provider(saying({"text": "They spoke of gates."})) as server, open_store(db, server) as ctx:
        ctx.conversation_say(turns=turns)
        (going,) = ctx.conversation_list().conversations
        assert (going.covered, server.asked) == (30, [])
        closed = ctx.conversation_close()
    assert (closed.summary, closed.covered, closed.summary_id) == ("They spoke of gates.", 80, going.summary_id)
    assert all(turn["content"] in prompt_of(server.asked[0]) for turn in turns)


def test_an_empty_summary_of_a_model_is_ignored(db: str) -> None:
    with provider(saying({"text": "Gates were built."})) as server, open_store(db, server) as ctx:
        ids = [ctx.store(title=title, content=LONG.replace("gate", title)).id for title in ("gates", "doors")]
        done = ctx.consolidate(ids=ids, title="Building", summarise=True)
    assert (done.memory.content, done.method, done.memory.metadata["model"]) == ("Gates were built.", "llm", "m-1")


def test_a_curator_run_respects_its_token_limit(db: str) -> None:
    with provider(saying({"tags": ["gates"]})) as server, open_store(db, server) as ctx:
        for number in range(3):
            ctx.store(title=f"Report {number}", content=LONG.replace("gate", f"gate{number}x"))
        ctx.curate(steps=["tags"], max_tokens=0)
        assert len(server.asked) == 0
        ctx.curate(steps=["tags"], max_tokens=1)
        assert len(server.asked) == 1
        methods = [one.what for one in ctx.curate(steps=["tags"]).done]
    assert (len(server.asked), len(methods)) == (3, 3)


def test_answers_of_a_model_are_only_proposed(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": "", "sentence_b": "", "difference": "", "tags": ["gates"]}
    with provider(saying(verdict)) as server, open_store(db, server) as ctx:
        id = ctx.store(title="Report", content=LONG).id
        done = ctx.curate(apply=True)
        (offer,) = ctx.curate_proposals().proposals
    assert (done.changed, offer.kind, offer.details["method"], offer.details["tags"]) == (0, "tags", "llm", ["gates"])
    assert offer.memory_id == id


LIFTS = [f"The old lift got stuck on day {day}." for day in range(3)]
DRAFT = {"title": "The lift", "text": "The old lift gets stuck every day."}


def add_observations(ctx: Any, texts: list[str], namespace: str = "house") -> None:
    for text in texts:
        ctx.store(title=text, content=text, namespace=namespace)


def test_a_model_drafts_the_conclusion_of_a_proposal(db: str) -> None:
    with provider(saying(DRAFT)) as server, open_store(db, server) as ctx:
        add_observations(ctx, LIFTS)
        (one,) = ctx.reflect_suggest().suggestions
        assert all(text in prompt_of(server.asked[0]) for text in LIFTS)
        assert ctx.get(ctx.reflect(one.source_ids, one.draft.title, one.draft.content).id).content == DRAFT["text"]
    assert (one.draft.title, one.draft.content) == ("The lift", "The old lift gets stuck every day.")
    assert (one.draft.method, one.draft.model, one.method) == ("llm", "m-1", "heuristic")


@pytest.mark.parametrize("how", [{"dry_run": True}, {"draft": False}], ids=["a look", "switched off"])
def test_no_model_is_asked_without_a_request_for_drafts(db: str, how: dict[str, bool]) -> None:
    with provider(saying(DRAFT)) as server, open_store(db, server) as ctx:
        add_observations(ctx, LIFTS)
        (one,) = ctx.reflect_suggest(**how).suggestions
    assert len(server.asked) == 0
    assert one.draft is None if "draft" in how else one.draft.method == "heuristic"


@pytest.mark.parametrize(
    "said", [{"title": "", "text": "It is stuck."}, {"title": "The lift", "text": " "}, {"title": "A\x00", "text": "B"}]
)
def test_an_invalid_draft_is_replaced_by_sentences_of_the_sources(db: str, said: dict[str, str]) -> None:
    with provider(saying(said)) as server, open_store(db, server) as ctx:
        add_observations(ctx, LIFTS)
        (one,) = ctx.reflect_suggest().suggestions
    assert (one.draft.method, one.draft.content) == ("heuristic", " ".join(LIFTS))
    assert one.draft.reason.startswith("the model's draft is invalid: ")


def test_drafts_stop_at_the_daily_budget_but_proposals_do_not(db: str) -> None:
    with provider(saying(DRAFT)) as server, open_store(db, server, llm_daily_tokens=1940) as ctx:
        for place in ("lift", "gate", "stairs"):
            add_observations(ctx, [text.replace("lift", place) for text in LIFTS], place)
        methods = [one.draft.method for one in ctx.reflect_suggest().suggestions]
    assert (methods[0], methods[-1]) == ("llm", "heuristic")
    assert len(server.asked) == methods.count("llm")


def test_a_repeated_draft_is_served_from_cache(db: str) -> None:
    with provider(saying(DRAFT)) as server, open_store(db, server) as ctx:
        add_observations(ctx, LIFTS)
        first = ctx.reflect_suggest().suggestions
        assert ctx.reflect_suggest(again=True).suggestions == first
    assert len(server.asked) == 1
