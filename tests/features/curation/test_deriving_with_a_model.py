"""A model improves what is derived; what it says must be true of the texts, and without it the rules decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.kernel.text.token_count import count
from holdfast.settings import Settings
from model_server import Provider, prompt_of, provider, replying, saying

LONG = " ".join(f"Part {number} of the report tells how the gate {number} was built." for number in range(16))
PAIR = ("Ada leads the team of twelve.", "Since spring the team of twelve is led by Bob.")


@contextmanager
def opened(db: str, server: Provider, **more: Any) -> Iterator[Any]:
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


def test_labels_of_a_model_are_cleaned_and_named_as_its_own(db: str) -> None:
    given = ["Gates", "the", "Port, and more", "x" * 500, "gates", "Building Works"]
    with provider(saying({"tags": given})) as server, opened(db, server) as hold:
        id = hold.store(title="Report", content=LONG, tags=["port"]).id
        found = hold.auto_tag(id)
    assert (found.new_tags, found.method, found.model) == (["gates", "building-works"], "llm", "m-1")
    assert "tags by rules" in prompt_of(server.asked[0])


def test_a_question_is_widened_by_a_model(db: str) -> None:
    with provider(saying({"terms": ["door", "gates of the town", "", "gate"]})) as server, opened(db, server) as hold:
        found = hold.expand_query("gate")
    assert (found.expanded_terms, found.method) == (["door", "gates of the town"], "llm")


def test_a_contradiction_that_no_rule_sees_is_found_by_a_model(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": PAIR[0], "sentence_b": PAIR[1], "difference": "who leads"}
    with provider(saying(verdict)) as server, opened(db, server) as hold:
        a, b = (hold.store(title=title, content=text).id for title, text in zip(("Old", "New"), PAIR, strict=True))
        found = hold.detect_contradiction(a, b)
    assert (found.contradicts, found.method, found.evidence[0].difference) == (True, "llm", "who leads")


def test_a_contradiction_with_words_that_nobody_wrote_does_not_count(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": "Eve leads.", "sentence_b": PAIR[1], "difference": "x"}
    with provider(saying(verdict)) as server, opened(db, server) as hold:
        a, b = (hold.store(title=title, content=text).id for title, text in zip(("Old", "New"), PAIR, strict=True))
        found = hold.detect_contradiction(a, b)
    assert (found.contradicts, found.method) == (False, "heuristic")
    assert found.reason == "the model quoted text that is not in the memories"


def test_a_model_says_where_atoms_begin_and_not_what_they_say(db: str) -> None:
    with provider(saying({"begins": [3, 11]})) as server, opened(db, server) as hold:
        id = hold.store(title="Report", content=LONG).id
        done = hold.atomise(id, max_atom_tokens=200)
        atoms = [hold.get(one) for one in done.atom_ids]
    assert (done.method, done.model) == ("llm", "m-1")
    assert " ".join(atom.content for atom in atoms) == LONG
    assert [atom.content.split()[1] for atom in atoms] == ["0", "3", "11"]
    assert all(count(atom.content) <= 200 for atom in atoms)
    assert atoms[0].metadata == {"atom_of": id, "method": "llm", "model": "m-1"}


@pytest.mark.parametrize("begins", [[99], [3, 1], [0]])
def test_beginnings_that_are_not_in_the_text_do_not_count(db: str, begins: list[int]) -> None:
    with provider(saying({"begins": begins})) as server, opened(db, server) as hold:
        done = hold.atomise(hold.store(title="Report", content=LONG).id, max_atom_tokens=100)
    assert (done.method, done.reason) == ("heuristic", "the model returned sentence numbers that do not exist")


def test_a_persona_by_a_model_cites_its_sources_or_is_made_by_rules(db: str) -> None:
    with provider(saying({"text": "Ada writes programs [1]."})) as server, opened(db, server) as hold:
        hold.store(title="One", content="Ada wrote the first program.")
        good = hold.persona_generate("Ada")
    assert (good.method, good.persona.content.startswith("Ada writes programs [1].\n\n[1] One")) == ("llm", True)
    with provider(saying({"text": "Ada rules the world [7]."})) as server, opened(db, server) as hold:
        hold.store(title="Two", content="Ada likes tea.")
        bad = hold.persona_generate("Ada")
    assert (bad.method, "rules the world" in bad.persona.content) == ("heuristic", False)


def test_a_model_that_fails_leaves_it_to_the_rules_and_is_told(db: str) -> None:
    with provider(replying(b"<html>no</html>", status=500)) as server, opened(db, server) as hold:
        id = hold.store(title="Report", content=LONG).id
        found = hold.auto_tag(id)
        assert (found.method, bool(found.reason), bool(found.new_tags)) == ("heuristic", True, True)
        assert hold.atomise(id, max_atom_tokens=100).method == "heuristic"


def test_a_conversation_summarised_in_passing_is_told_from_its_beginning_when_it_is_closed(db: str) -> None:
    turns = [{"role": "user", "content": f"Gate {number} opens at {number * 7}."} for number in range(80)]
    with provider(saying({"text": "They spoke of gates."})) as server, opened(db, server) as hold:
        hold.conversation_say(turns=turns)
        (going,) = hold.conversation_list().conversations
        assert (going.covered, server.asked) == (30, [])
        closed = hold.conversation_close()
    assert (closed.summary, closed.covered, closed.summary_id) == ("They spoke of gates.", 80, going.summary_id)
    assert all(turn["content"] in prompt_of(server.asked[0]) for turn in turns)


def test_a_summary_is_a_models_if_it_says_something(db: str) -> None:
    with provider(saying({"text": "Gates were built."})) as server, opened(db, server) as hold:
        ids = [hold.store(title=title, content=LONG.replace("gate", title)).id for title in ("gates", "doors")]
        done = hold.consolidate(ids=ids, title="Building", summarise=True)
    assert (done.memory.content, done.method, done.memory.metadata["model"]) == ("Gates were built.", "llm", "m-1")


def test_a_run_of_a_curator_asks_no_more_than_it_may_spend(db: str) -> None:
    with provider(saying({"tags": ["gates"]})) as server, opened(db, server) as hold:
        for number in range(3):
            hold.store(title=f"Report {number}", content=LONG.replace("gate", f"gate{number}x"))
        hold.curate(steps=["tags"], max_tokens=0)
        assert len(server.asked) == 0
        hold.curate(steps=["tags"], max_tokens=1)
        assert len(server.asked) == 1
        methods = [one.what for one in hold.curate(steps=["tags"]).done]
    assert (len(server.asked), len(methods)) == (3, 3)


def test_a_curator_only_proposes_what_a_model_says(db: str) -> None:
    verdict = {"contradicts": True, "sentence_a": "", "sentence_b": "", "difference": "", "tags": ["gates"]}
    with provider(saying(verdict)) as server, opened(db, server) as hold:
        id = hold.store(title="Report", content=LONG).id
        done = hold.curate(apply=True)
        (offer,) = hold.curate_proposals().proposals
    assert (done.changed, offer.kind, offer.details["method"], offer.details["tags"]) == (0, "tags", "llm", ["gates"])
    assert offer.memory_id == id


LIFTS = [f"The old lift got stuck on day {day}." for day in range(3)]
DRAFT = {"title": "The lift", "text": "The old lift gets stuck every day."}


def observed(hold: Any, texts: list[str], namespace: str = "house") -> None:
    for text in texts:
        hold.store(title=text, content=text, namespace=namespace)


def test_a_model_drafts_what_a_proposal_could_conclude_from_its_sources(db: str) -> None:
    with provider(saying(DRAFT)) as server, opened(db, server) as hold:
        observed(hold, LIFTS)
        (one,) = hold.reflect_suggest().suggestions
        assert all(text in prompt_of(server.asked[0]) for text in LIFTS)
        assert hold.get(hold.reflect(one.source_ids, one.draft.title, one.draft.content).id).content == DRAFT["text"]
    assert (one.draft.title, one.draft.content) == ("The lift", "The old lift gets stuck every day.")
    assert (one.draft.method, one.draft.model, one.method) == ("llm", "m-1", "heuristic")


@pytest.mark.parametrize("how", [{"dry_run": True}, {"draft": False}], ids=["a look", "switched off"])
def test_no_model_is_asked_for_a_draft_by_a_look_or_if_none_is_wanted(db: str, how: dict[str, bool]) -> None:
    with provider(saying(DRAFT)) as server, opened(db, server) as hold:
        observed(hold, LIFTS)
        (one,) = hold.reflect_suggest(**how).suggestions
    assert len(server.asked) == 0
    assert one.draft is msgspec.UNSET if "draft" in how else one.draft.method == "heuristic"


@pytest.mark.parametrize(
    "said", [{"title": "", "text": "It is stuck."}, {"title": "The lift", "text": " "}, {"title": "A\x00", "text": "B"}]
)
def test_a_draft_that_could_not_be_kept_is_made_of_the_sources_own_sentences(db: str, said: dict[str, str]) -> None:
    with provider(saying(said)) as server, opened(db, server) as hold:
        observed(hold, LIFTS)
        (one,) = hold.reflect_suggest().suggestions
    assert (one.draft.method, one.draft.content) == ("heuristic", " ".join(LIFTS))
    assert one.draft.reason.startswith("the model's draft is invalid: ")


def test_drafts_end_with_the_budget_of_a_day_and_the_proposals_do_not(db: str) -> None:
    with provider(saying(DRAFT)) as server, opened(db, server, llm_daily_tokens=1940) as hold:
        for place in ("lift", "gate", "stairs"):
            observed(hold, [text.replace("lift", place) for text in LIFTS], place)
        methods = [one.draft.method for one in hold.reflect_suggest().suggestions]
    assert (methods[0], methods[-1]) == ("llm", "heuristic")
    assert len(server.asked) == methods.count("llm")


def test_a_draft_that_is_asked_for_again_is_not_paid_for_again(db: str) -> None:
    with provider(saying(DRAFT)) as server, opened(db, server) as hold:
        observed(hold, LIFTS)
        first = hold.reflect_suggest().suggestions
        assert hold.reflect_suggest(again=True).suggestions == first
    assert len(server.asked) == 1
