"""A memory is found by its own words, whichever memories have embeddings."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random

import msgspec
import pytest

import holdfast
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.agent_hosts.host import parse_event
from holdfast.features.embeddings import service as embed
from holdfast.features.recall import lexical_hits
from holdfast.features.recall import search_index as asking
from holdfast.features.recall.render import render_recall

pytestmark = pytest.mark.usefixtures("vectors_made")

ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "br", "gr", "kl", "pl", "st")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou", "ee")
ENDINGS = ("", "l", "n", "r", "s", "m", "nd", "rk")
TEMPLATES = (
    "Ticket {code} for {name} was closed on {date} because the {thing} of the {other} had failed.",
    "The {thing} with number {code} belongs to {name} and is kept in the {other} room since {date}.",
    "{name} moved {code} to the {thing} on {date}; the {other} stays where it is.",
    "{name} reported error {code} in the {thing} service, and restarted the {other} on {date}.",
    "Customer {name} ordered {code} and asked for a {thing} with a blue {other} by {date}.",
    "We decided to release {code} with the {thing} on {date}, said {name} about the {other}.",
    "{thing} {other} {code} {name} {thing} {date} {other}, confirmed",
)
NUMBERS = count()
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def coin_word(random: Random, syllables: int) -> str:
    parts = (random.choice(ONSETS) + random.choice(VOWELS) + random.choice(ENDINGS) for _ in range(syllables))
    return "".join(parts)


def code(random: Random) -> str:
    letters = "".join(random.choices(LETTERS, k=3))
    return random.choice(
        (
            f"{letters[:2]}-{random.randint(1000, 9999)}",
            f"{random.getrandbits(28):07x}",
            f"{letters}-{random.randint(10, 99)}-{random.randint(100, 999)}",
            f"{random.randint(10**6, 10**7)}",
            f"{letters}{random.randint(1000, 9999)}",
            f"PROJ-{random.randint(1, 99999)}",
        )
    )


def texts(number: int, seed: int) -> list[str]:
    """Make texts of invented words and names that share all but a code, which is among the first eight words of each.

    Each has a ninth word: a captured prompt that a question repeats whole is no hit.
    """
    random = Random(seed)
    words, names = [coin_word(random, 3) for _ in range(60)], [coin_word(random, 2).title() for _ in range(50)]
    found: dict[str, str] = {}
    while len(found) < number:
        thing, other = random.sample(words, 2)
        date = f"2025-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        name, unique = " ".join(random.sample(names, 2)), code(random)
        sentences = random.choice((1, 1, 4))
        first = random.choice(TEMPLATES).format(code=unique, name=name, thing=thing, other=other, date=date)
        more = (
            random.choice(TEMPLATES).format(
                code=coin_word(random, 2), name=name, thing=random.choice(words), other=random.choice(words), date=date
            )
            for _ in range(sentences - 1)
        )
        found[unique] = " ".join((first, *more))
    return list(found.values())


def beginning(text: str) -> str:
    return " ".join(text.split()[:8])


def places(hold: holdfast.Holdfast, asked: Sequence[str]) -> list[int | None]:
    """Return the rank of each text among the first five hits for its first eight words."""
    found: list[int | None] = []
    for text in asked:
        hits = [hit.content for hit in hold.recall(beginning(text), limit=5).memories]
        found.append(hits.index(text) + 1 if text in hits else None)
    return found


def keep(hold: holdfast.Holdfast, many: Sequence[str]) -> None:
    """Store each text as a memory with its own title: two with the same title would become one memory."""
    hold.bulk_store(memories=[{"title": f"Note {next(NUMBERS)}", "content": text} for text in many])


def make_vectors(hold: holdfast.Holdfast, at_least: int) -> None:
    """Run steps of the background worker until at least this many memories have embeddings."""
    while vectors_kept(hold) < at_least:
        assert hold.ctx.embedder is not None
        assert embed.embed_next(hold.ctx, hold.ctx.embedder) is not None


def vectors_kept(hold: holdfast.Holdfast) -> int:
    return sum(count.memories for count in hold.stats().embeddings)


@pytest.fixture
def hold(db: str) -> Iterator[holdfast.Holdfast]:
    """A store without a background worker: tests compute embeddings themselves."""
    with holdfast.open(db, agent_id="ai:tester@here", once=True) as opened:
        yield opened


@pytest.mark.parametrize(
    ("number", "asked"), [(120, 40), pytest.param(420, 60, marks=pytest.mark.full)], ids=["120", "420"]
)
def test_a_memory_ranks_first_by_its_first_words_however_many_have_embeddings(
    hold: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch, number: int, asked: int
) -> None:
    monkeypatch.setattr(embed, "BATCH", number // 6)
    many = texts(number, seed=11)
    sample = Random(12).sample(many, asked)
    keep(hold, many)
    first = {}
    for with_vectors in (0, number // 6, number // 2, number):
        make_vectors(hold, with_vectors)
        first[vectors_kept(hold)] = places(hold, sample).count(1)
    assert list(first) == [0, number // 6, number // 2, number]
    assert min(first.values()) >= 0.99 * asked, first


def test_a_just_stored_memory_ranks_first_before_it_is_embedded(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    many = texts(64 + 3 * 20, seed=13)
    older, stored, mined, captured = many[:64], many[64:84], many[84:104], many[104:]
    keep(hold, older)
    make_vectors(hold, 64)
    keep(hold, stored)
    hold.mine(content=transcript(mined), format="claude-code")
    for place, text in enumerate(captured):
        raw = {"session_id": f"s-{place // 7}", "cwd": str(tmp_path), "prompt": text}
        host_hooks.capture_event(hold.ctx, parse_event("prompt", msgspec.json.encode(raw), None), hold.call)
    assert vectors_kept(hold) == 64
    assert places(hold, stored + mined + captured) == [1] * 60
    assert places(hold, older) == [1] * 64


def transcript(said: Sequence[str]) -> str:
    turns = (
        {
            "type": "user",
            "sessionId": "mined",
            "uuid": f"turn-{number}",
            "timestamp": f"2026-01-05T10:{number:02}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(said)
    )
    return "\n".join(map(json.dumps, turns))


def test_an_estimated_similarity_has_no_cosine(hold: holdfast.Holdfast) -> None:
    many = texts(64 + 40, seed=14)
    keep(hold, many[:64])
    make_vectors(hold, 64)
    keep(hold, many[64:])
    for text, is_measured in ((many[0], True), (many[-1], False)):
        answer = hold.call("recall", {"context": beginning(text), "limit": 1, "explain": True})
        (hit,) = answer.memories
        assert hit.content == text
        assert hit.why.parts["vector"].value > 0
        assert (hit.why.cosine is not msgspec.UNSET) == is_measured
        assert ("estimated vector" in "\n".join(render_recall(answer))) == (not is_measured)


def test_keyword_search_is_unaffected_while_many_embeddings_are_missing(
    hold: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ROW_BUDGET", 20)
    keep(hold, [f"The kettle stands in room {number}." for number in range(64)])
    make_vectors(hold, 64)
    lanterns = [f"Lantern number {number}." for number in range(12)]
    keep(hold, ["A blue zebra.", "A green zebra.", *lanterns, *(f"Room {number} is empty." for number in range(30))])
    found = [hit.content for hit in hold.recall("zebra, green, lantern", limit=50).memories]
    assert set(lanterns) <= set(found)


def test_a_long_memory_with_a_unique_word_is_a_candidate_in_a_large_store(
    hold: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_hits, "SMALL_STORE", 0)
    words = ("kettle", "lantern", "zebra", "bicycle", "harbour")
    long = f"QX7781 {' '.join(words)} again. " + "The fence around the garden is not painted yet. " * 150
    short = [f"A {words[number % len(words)]} in room {number}." for number in range(200)]
    keep(hold, [long.strip(), *short])
    assert places(hold, [long.strip()]) == [1]
