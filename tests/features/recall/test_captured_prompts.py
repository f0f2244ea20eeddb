"""Captured prompts: the prompt that asked a query is not an answer to it."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.agent_hosts.host import Event, HostEvent, parse_event
from holdfast.features.recall import lexical_hits

Capture = Callable[..., str]
ASK = "may we deploy to production on a Friday?"
FACT = "We deploy to production on Tuesdays, never on a Friday."
REPEATS = (
    ASK,
    "May we deploy to production on a Friday",
    "MAY WE DEPLOY TO PRODUCTION ON A FRIDAY??",
    "On a Friday, may we deploy to production?",
    "may we deploy on friday to production?",
    "Hey, may we please deploy to production this Friday? Thanks!",
    "ok, so can we deploy to production on Fridays",
    "Can you tell me if we may deploy to production on a Friday?",
    "may we deploy?",
    "\nmay we deploy to production on a Friday?",
)


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def captures(ctx: Any) -> Capture:
    """Capture turns as a hook does."""
    numbers = count()

    def capture(content: str, role: str = "user", session: str = "s-1", **more: Any) -> str:
        told = {"host_session_id": session, "host_turn_index": next(numbers), "host_kind": "claude-code"}
        id: str = ctx.capture_turn(content=content, role=role, **told, **more).memory_id
        return id

    return capture


@pytest.fixture
def capture(hold: Any) -> Capture:
    return captures(hold)


def find_ids(ctx: Any, query: str = ASK, **filters: Any) -> list[str]:
    return [hit.id for hit in ctx.recall(query, **filters).memories]


def test_prompts_repeating_a_query_give_way_to_its_answers(hold: Any, capture: Capture) -> None:
    fact = hold.store(title="Deploy day", content=FACT).id
    other = hold.store(title="Freeze", content="The freeze ends in January.").id
    for prompt in REPEATS:
        capture(prompt)
    assert find_ids(hold, limit=1) == [fact]
    assert find_ids(hold) == [fact]
    assert set(find_ids(hold, "may we deploy to production on a Friday after the freeze?", limit=2)) == {fact, other}
    assert hold.recall(ASK).meta.candidates == 1


@pytest.mark.parametrize("prompt", REPEATS)
def test_a_prompt_that_adds_nothing_is_left_out_in_any_wording(hold: Any, capture: Capture, prompt: str) -> None:
    capture(prompt)
    assert find_ids(hold) == []


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("fix the flaky login test", "fix the flaky login test"),
        ("Please fix the flaky login test!", "fix flaky login test"),
        ("deploy the shop to production", "how do we deploy the shop to production?"),
        ("is the deploy on Thursday?", "deploy thursday"),
        ("What about the deploy of the shop?", "shop deploy policy"),
        ("remind me when we deploy", "when do we deploy"),
        ("Task: mend the till", "Task: mend the till"),
        ("Wann wird der Laden ausgeliefert", "Wann wird der Laden ausgeliefert?"),
        ("いつデプロイしますか？", "いつデプロイしますか？"),
        ("どの日にデプロイする?", "どの日にデプロイする"),
    ],
)
def test_imperative_keyword_and_foreign_prompts_are_compared_too(
    hold: Any, capture: Capture, prompt: str, query: str
) -> None:
    capture(prompt)
    assert find_ids(hold, query) == []


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("We moved the deploy to Thursday.", "when do we deploy?"),
        ("The deploy is on Thursday.", "is the deploy on Thursday?"),
        ("The deploy is on Thursday.", "deploy thursday"),
        ("We deploy on Thursday", "do we deploy on Thursday?"),
        ("May we deploy on a Friday, now that the freeze is over?", "may we deploy on a Friday?"),
        ("Why don't we deploy on a Friday?", "do we deploy on a Friday?"),
        ("do we deploy release 7 on a Friday?", "do we deploy on a Friday?"),
        ("When we deploy, the freeze is over.", "deploy freeze"),
        ("When we deploy, we freeze.", "deploy freeze"),
        ("Redis: fix the flaky test", "fix the flaky test"),
        ("Redis: fix the flaky test", "Kafka: fix the flaky test"),
        ("fix the test\nAnn: fix the test\nBen: fix the test\nAnn: fix the test", "fix the test"),
        ("deploy on Friday. " + "Then the shop is closed. " * 20, "deploy on Friday?"),
        ("Wir liefern am Montag aus.", "Liefern wir am Montag aus?"),
    ],
)
def test_a_prompt_with_more_than_the_query_or_with_a_statement_is_a_hit(
    hold: Any, capture: Capture, prompt: str, query: str
) -> None:
    id = capture(prompt)
    assert find_ids(hold, query) == [id]


def test_an_answer_is_a_hit_whether_it_repeats_the_query_or_none_of_its_words(hold: Any, capture: Capture) -> None:
    capture(ASK)
    short = capture("Tuesdays only.", "assistant")
    capture(ASK, session="s-2")
    long = capture("May we deploy to production on a Friday?", "assistant", session="s-2")
    assert set(find_ids(hold)) == {short, long}


def test_empty_answers_to_a_repeated_prompt_rank_after_the_fact(hold: Any, capture: Capture) -> None:
    fact = hold.store(title="Deploy day", content="To production on Tuesdays.").id
    capture(ASK, session="s-2")
    capture("Hm.", "assistant", session="s-2")
    for _ in range(4):
        capture(ASK)
        capture("Let me see about this Friday.", "assistant")
    first, *others = hold.recall(ASK, explain=True).memories
    assert first.id == fact
    assert len(others) == 5
    for other in others:
        assert {"before", "answers"} <= other.why.parts.keys()
        assert "after" not in other.why.parts


def test_stored_memories_and_messages_of_people_never_count_as_captured_prompts(hold: Any) -> None:
    about = {"kind": "conversation", "thread": "t"}
    ids = {
        hold.store(title="Question", content=ASK).id,
        hold.store(title="Question of a user", content=ASK, speaker="user", thread="t", force=True).id,
        hold.store(title="Question of Ann", content=ASK, speaker="Ann", force=True, **about).id,
    }
    prompt = hold.store(title="Turn", content=ASK, speaker="user", force=True, **about).id
    hits = hold.recall(ASK).memories
    assert {hit.id for hit in hits} | {id for hit in hits for id in hit.like or ()} == ids
    assert prompt not in ids


def test_a_prompt_repeating_the_query_is_found_when_requested_explicitly(hold: Any, capture: Capture) -> None:
    id = capture(ASK)
    assert find_ids(hold, kinds=["conversation"]) == [id]
    assert find_ids(hold, source_uri_prefix="uri:claude-code:s-1") == [id]
    assert hold.get(id).content == ASK
    assert [one.id for one in hold.list().memories] == [id]
    assert [one.id for one in hold.search("deploy friday").results] == [id]


def test_why_not_reports_a_prompt_that_only_repeats_the_query(
    hold: Any, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact, prompt = hold.store(title="Deploy day", content=FACT).id, capture(ASK)
    told = hold.why_not(prompt, ASK)
    assert (told.returned, [one.code for one in told.reasons]) == (False, ["repeats_question"])
    assert hold.why_not(fact, ASK).place == 1
    assert hold.why_not(prompt, ASK, kinds=["conversation"]).returned
    monkeypatch.setattr(lexical_hits, "WIDE", lexical_hits.Breadth(1, 1, 1))
    for number in range(3):
        capture(ASK, session=f"t-{number}")
    assert [one.code for one in hold.why_not(prompt, ASK).reasons] == ["repeats_question"]


def test_prompts_are_left_out_of_past_snapshots(hold: Any, capture: Capture, clock: Any) -> None:
    fact = hold.store(title="Deploy day", content=FACT, tier="long").id
    prompt = capture(ASK, tier="long")
    at = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(fact, content="Never again.")
    hold.update(prompt, content="Never again, they said.")
    assert find_ids(hold, known_at=at) == [fact]


def test_prompts_do_not_crowd_the_answer_out_of_the_candidates(
    hold: Any, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each channel returns at most four."""
    monkeypatch.setattr(lexical_hits, "WIDE", lexical_hits.Breadth(4, 4, 4))
    vector = {"model": "own", "vector": [1, 0]}
    fact = hold.store(
        title="Deploy day", content="To production on Tuesdays.", embedding={"model": "own", "vector": [3, 1]}
    )
    for number in range(20):
        turn = {"kind": "conversation", "speaker": "user", "thread": f"t {number}", "force": True}
        hold.store(title=f"Turn {number}", content=ASK, embedding=vector, **turn)
    assert find_ids(hold) == [fact.id]
    assert find_ids(hold, embedding=vector) == [fact.id]


def test_prompts_of_the_queried_day_do_not_hide_other_memories_of_that_day(
    hold: Any, capture: Capture, clock: Any
) -> None:
    ask = "what happened on 31 January?"
    for number in range(12):
        capture(ask, session=f"s-{number}")
    happened = hold.store(title="Till", content="The till broke.", tier="long").id
    clock.move(days=3)
    assert find_ids(hold, ask) == [happened]


def test_prompts_asking_for_the_same_extra_are_one_hit(hold: Any, capture: Capture, clock: Any) -> None:
    for number in range(30):
        capture(f"{'Hey, ' * (number % 2)}may we deploy the shop to production on a Friday?", session=f"s-{number}")
        clock.move(seconds=1)
    fact = hold.store(title="Deploy day", content="To production on Tuesdays.").id
    hits = hold.recall("who may deploy to production?", limit=2).memories
    assert len(hits) == 2
    assert [hit.id for hit in hits if not hit.like] == [fact]
    assert [len(hit.like) for hit in hits if hit.like] == [29]
    assert hold.why_not(fact, "who may deploy to production?", limit=2).returned


# Every operation that agents call


def test_a_context_never_contains_the_prompt_it_answers(hold: Any, capture: Capture) -> None:
    fact = hold.store(title="Deploy day", content=FACT).id
    for prompt in REPEATS:
        capture(prompt)
    hold.conversation_say(turns=[{"role": "user", "content": ASK}])
    assert hold.context(query=ASK).cited == [fact]
    for channel in ("", "elsewhere"):
        (recalled,) = [
            part for part in hold.build_context(message=ASK, parts=["recalled"], channel=channel).parts if part.items
        ]
        assert [item.id for item in recalled.items] == [fact]


SERVICES = (
    *("amber basil cedar dahlia ember fennel garnet hazel indigo juniper kelp laurel maple nettle olive".split()),
    *("poppy quartz rowan saffron thistle umber violet willow yarrow zinnia".split()),
)
KNOWN = (
    ("which port does {} listen on?", "The {} service listens on port 80{:02}."),
    ("who is on call for {}?", "On call for {} in week {} is Priya."),
    ("when do we deploy {} to production?", "We deploy {} to production on day {} of a month."),
    ("where are the backups of {} kept?", "Backups of {} are kept in bucket {}."),
)
FORMS = (
    "{0}?",
    "{0}",
    "{0}??",
    "{0}!",
    "Hey, {0}?",
    "ok, {0}?",
    "Please tell me: {0}?",
    "So {0}? Thanks!",
    "{1}",
    "{2}?",
)


def ranks(ctx: Any, asked: dict[str, str]) -> dict[str, int | None]:
    """Return the rank of each question's answer."""
    hits = {query: find_ids(ctx, query, note=False) for query in asked}
    return {query: hits[query].index(id) + 1 if id in hits[query] else None for query, id in asked.items()}


def same_places(ctx: Any, sessions: int, *, answered: bool) -> int:
    """Count the sessions of ten prompts in which the answer has the same rank as without them."""
    asked: dict[str, str] = {}
    for number in range(sessions):
        service, (query, fact) = SERVICES[number // len(KNOWN)], KNOWN[number % len(KNOWN)]
        memory = ctx.store(title=f"Note {number}", content=fact.format(service, number), tier="long")
        asked[query.format(service)] = memory.id
    if ctx.ctx.embedder is not None:
        ctx.reembed()
    before, capture = ranks(ctx, asked), captures(ctx)
    for number, query in enumerate(asked):
        plain, words = query.removesuffix("?"), query.removesuffix("?").split()
        for form in FORMS:
            turned = " ".join((*words[-2:], *words[:-2]))
            capture(form.format(plain, plain.upper(), turned), session=f"s-{number}")
            if answered:
                capture("Let me see what is known.", "assistant", session=f"s-{number}")
    if ctx.ctx.embedder is not None:
        ctx.reembed()
    after = ranks(ctx, asked)
    return sum(before[query] == after[query] for query in asked)


def test_captured_prompts_do_not_change_the_rank_of_an_answer(hold: Any) -> None:
    assert same_places(hold, 30, answered=False) == 30


def test_captured_prompts_do_not_change_the_rank_of_an_answer_with_embeddings(vectors_made: None, db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as made:
        assert same_places(made, 3, answered=True) == 3


@pytest.mark.full
def test_captured_prompts_of_a_hundred_answered_sessions_do_not_change_the_rank_of_an_answer(hold: Any) -> None:
    assert same_places(hold, 100, answered=True) >= 99


# Context from hooks


def tell(event: Event, folder: Path, session: str = "s-1", **said: Any) -> HostEvent:
    return parse_event(event, msgspec.json.encode({"session_id": session, "cwd": str(folder), **said}), "claude-code")


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A project folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / ".holdfast.toml").write_text('namespace = "team/web"\n')
    return folder


def test_a_prompt_receives_the_answer_and_not_earlier_prompts(hold: Any, web: Path) -> None:
    hold.store(title="Deploy day", content=FACT, namespace="team/web")
    for number, prompt in enumerate((*REPEATS, "we moved the staging deploy to Thursday")):
        host_hooks.capture_event(hold.ctx, tell("prompt", web, f"s-{number}", prompt=prompt), hold.call)
    said = host_hooks.build_prompt_context(hold.ctx, tell("prompt", web, "s-11", prompt=ASK), 600)
    assert FACT in said
    assert ASK.lower() not in said.lower()
    host_hooks.capture_event(hold.ctx, tell("prompt", web, "s-11", prompt=ASK), hold.call)
    hits = [hit.content for hit in hold.recall(ASK, namespace="team/web").memories]
    assert hits[0] == FACT
    assert not {*hits} & {*REPEATS}


def test_earlier_messages_of_a_session_are_found_in_it(hold: Any, web: Path) -> None:
    for prompt in ("we moved the deploy to Thursday", "when is the deploy?"):
        host_hooks.capture_event(hold.ctx, tell("prompt", web, prompt=prompt), hold.call)
    (hit,) = hold.recall("when is the deploy?", namespace="team/web").memories
    assert hit.content == "we moved the deploy to Thursday"


def test_many_prompts_excluded_from_hooks_leave_room_for_facts(hold: Any, web: Path) -> None:
    for number in range(40):
        text = f"deploy to production on a Friday, after plan {number} of the shop was signed by friend {number}"
        host_hooks.capture_event(hold.ctx, tell("prompt", web, f"s-{number % 2}", prompt=text), hold.call)
    hold.store(title="Deploy day", content=FACT, namespace="team/web")
    assert FACT in host_hooks.build_prompt_context(hold.ctx, tell("prompt", web, prompt=ASK), 600)


def test_a_long_conversation_leaves_room_for_other_memories(hold: Any) -> None:
    for number in range(4):
        said = [f"we deploy plan {number} {turn} to production on a Friday" for turn in range(10)]
        hold.conversation_say(turns=[{"role": "user", "content": text} for text in said])
    fact = hold.store(title="Deploy day", content=FACT).id
    (recalled,) = hold.build_context(message=ASK, parts=["recalled"]).parts
    assert [item.id for item in recalled.items] == [fact]
