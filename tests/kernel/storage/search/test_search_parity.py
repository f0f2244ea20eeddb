"""Both engines find the same memories for any words."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from engines import Postgres
from holdfast import Holdfast
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter
from holdfast.kernel.context import Caller
from holdfast.kernel.text.words import query_words

ME = Caller("ai:tester@here")
LONG = "x" * 2046
WORDS = [
    *("deploy", "deployed", "Tuesday", "café", "cafe", "cafe\u0301", "naïve", "running", "ran", "run", "x1", "ß", "İ"),
    *(
        "日本語",
        "日本",
        "한국어",
        "русский",
        "ﬁre",
        "٣",
        "½",
        "👍",
        "मन",
        "don't",
        "don",
        "t",
        "C++",
        "C",
        "e-mail",
        "mail",
    ),
    *("me@example.org", "example.org", "/usr/local/bin", "v1.2.3", "a_b", "'", '"', "\\", "\\'", "''", "&", "|", "!"),
    *(":*", "<->", "(", ")", "NEAR", "AND", "OR", "*", "^a", "-a", "a:b", "title:x", "+", "%", "%s", "{}", "$1"),
    *(LONG, LONG + "a", LONG + "b", LONG + "ab", "語" * 700, "語" * 700 + "日"),
]
ANY = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=6),
)
TEXTS = st.lists(ANY, min_size=1, max_size=6).map(" ".join)


@pytest.fixture
def engine() -> None:
    """Both engines at once."""


@pytest.fixture(scope="module")
def both(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Holdfast, Holdfast]]:
    path = tmp_path_factory.mktemp("words") / "memory.db"
    with (
        postgres.new_store() as url,
        holdfast.open(str(path), agent_id=ME.agent) as one,
        holdfast.open(url, agent_id=ME.agent) as other,
    ):
        yield one, other


_places = count(1)


def keep(both: tuple[Holdfast, Holdfast], texts: Sequence[dict[str, Any]]) -> str:
    """Store the same memories in both stores; return their namespace."""
    place = f"place{next(_places)}"
    for hold in both:
        outcomes = hold.bulk_store(
            memories=[{"title": str(n), "namespace": place, **each} for n, each in enumerate(texts)]
        )
        assert len(outcomes.ids) == len(texts)
    return place


def find_titles(hold: Holdfast, place: str, words: Sequence[str], *, every: bool) -> set[str]:
    """Return the titles of the hits."""
    with hold.ctx.reading() as session:
        hits = memories.search_words(
            session, ME, words, Filter(namespace=place), hold.ctx.now(), limit=1000, match_all=every
        )
        read = memories.by_ids(session, ME, [hit.id for hit in hits], hold.ctx.now())
    return {memory.title for memory in read.values()}


def find_on_both(both: tuple[Holdfast, Holdfast], place: str, words: Sequence[str], *, every: bool = False) -> set[str]:
    one, other = (find_titles(hold, place, words, every=every) for hold in both)
    assert one == other, words
    return one


def worth_keeping(text: str) -> bool:
    return bool(text.strip())


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(TEXTS.filter(worth_keeping), min_size=1, max_size=5), st.lists(ANY, min_size=1, max_size=4))
def test_both_engines_find_the_same_memories_by_any_and_by_every_word(
    both: tuple[Holdfast, Holdfast], texts: list[str], question: list[str]
) -> None:
    place = keep(both, [{"content": text} for text in texts])
    for words in (question, [word for text in texts for word in query_words(text)], query_words(" ".join(question))):
        for every in (False, True):
            if words:
                find_on_both(both, place, words, every=every)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(ANY.filter(worth_keeping), ANY.filter(worth_keeping)), min_size=1, max_size=4),
    st.lists(st.sampled_from(["deploy", "run", "日本語", "t don", "x1 café"]), min_size=1, max_size=3, unique=True),
)
def test_tags_are_searchable_and_no_phrase_spans_two_fields(
    both: tuple[Holdfast, Holdfast], texts: list[tuple[str, str]], tags: list[str]
) -> None:
    place = keep(both, [{"content": f"{one} {other}", "tags": tags} for one, other in texts])
    for one, other in texts:
        find_on_both(both, place, [f"{one} {other}"])
        find_on_both(both, place, [f"{tags[-1]} {one}"])
        find_on_both(both, place, [f"{other} {tags[0]}"])
    for tag in tags:
        assert len(find_on_both(both, place, [tag])) == len(texts)


@pytest.mark.parametrize("words", [WORDS[at : at + 5] for at in range(0, len(WORDS), 5)], ids=range(0, len(WORDS), 5))
def test_each_awkward_word_is_found_where_it_occurs(both: tuple[Holdfast, Holdfast], words: list[str]) -> None:
    place = keep(both, [{"content": f"before {word} after"} for word in WORDS])
    for word in words:
        with_tokens = find_on_both(both, place, [word])
        assert not with_tokens or str(WORDS.index(word)) in with_tokens


def test_a_word_longer_than_the_database_limit_is_found_and_distinguished(both: tuple[Holdfast, Holdfast]) -> None:
    place = keep(both, [{"content": LONG + end} for end in ("a", "b", "ab", "")])
    assert [find_on_both(both, place, [LONG + end]) for end in ("a", "b", "ab", "")] == [{"0"}, {"1"}, {"2"}, {"3"}]


def test_every_word_of_the_longest_content_is_found(both: tuple[Holdfast, Holdfast]) -> None:
    """More words than a tsvector has positions."""
    different = " ".join(chr(0x4E00 + n) for n in range(16_383))
    alike = "a b " * 16_383 + "last"
    place = keep(both, [{"content": different}, {"content": alike}, {"content": "word"}])
    assert len(alike.split()) > 2 * 16_383
    assert find_on_both(both, place, [chr(0x4E00)]) == find_on_both(both, place, [chr(0x4E00 + 16_382)]) == {"0"}
    assert find_on_both(both, place, ["last"]) == {"1"}
    assert find_on_both(both, place, ["a", "word"]) == {"1", "2"}
    assert find_on_both(both, place, ["last", "b"], every=True) == {"1"}


def test_equally_good_matches_are_ordered_by_age_on_both_engines(both: tuple[Holdfast, Holdfast]) -> None:
    place = keep(both, [{"content": f"soup day{number}"} for number in range(100)])
    for hold in both:
        found = hold.search(query="soup", namespace=place, limit=5).results
        assert [memory.title for memory in found] == ["0", "1", "2", "3", "4"]
