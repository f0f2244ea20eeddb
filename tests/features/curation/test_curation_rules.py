"""The curator's rules: merging loses nothing, and the same grounds change a priority once."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.features.curation.steps import IDLE_PERIOD, find_longest_lifetime, merge_texts, suggest_priority
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft, Lifetimes, memory_from_draft
from holdfast.kernel.text.sentences import split_sentences
from holdfast.kernel.text.similarity import compare
from holdfast.kernel.text.words import split_words
from holdfast.kernel.timestamps import DAY

NOW = 400 * DAY


def near(one: str, other: str) -> bool:
    return compare(one, other).relation in ("same", "near")


def memory(**more: object) -> Memory:
    draft = Draft(title="T", content="x", tier="long")
    made = memory_from_draft(draft, id="1", agent="a", origin="o", now=NOW - 10 * DAY, lifetimes=Lifetimes())
    return replace(made, **more)


def test_merged_texts_keep_every_statement() -> None:
    assert merge_texts(["The gate is red.", "The Gate is red! It squeaks, too."]) == "The Gate is red! It squeaks, too."
    assert merge_texts(["A is so. B is so.", "A is so. C is, too."]) == "A is so. C is, too.\nB is so."


@given(st.lists(st.text(alphabet="ab. 。\n", min_size=1, max_size=30), min_size=1, max_size=4))
def test_every_sentence_is_in_the_merged_text(texts: list[str]) -> None:
    whole = merge_texts(texts)
    said = [whole[start:end] for start, end in split_sentences(whole)]
    for text in texts:
        for start, end in split_sentences(text):
            one = text[start:end]
            assert one in said or any(split_words(one) == split_words(other) or near(other, one) for other in said)
    assert merge_texts([whole]) == whole


def test_a_merged_memory_has_the_longest_lifetime_of_its_sources() -> None:
    assert find_longest_lifetime([memory(tier="mid", expires_at=5), memory(tier="short", expires_at=9)]) == ("mid", 9)
    assert find_longest_lifetime([memory(tier="mid", expires_at=5), memory(tier="long", expires_at=None)]) == (
        "long",
        None,
    )
    assert find_longest_lifetime([memory(tier="mid", expires_at=5), memory(tier="mid", expires_at=None)]) == (
        "long",
        None,
    )
    assert find_longest_lifetime([memory(tier="long", expires_at=5), memory(tier="short", expires_at=9)]) == ("long", 9)


def test_use_raises_the_priority_once_per_ten_uses() -> None:
    one = memory(priority=5)
    assert suggest_priority(one, 9, NOW, NOW, None) is None
    then = suggest_priority(one, 12, NOW, NOW, None)
    assert then is not None
    assert (then.priority, then.basis) == (6, "used 12")
    assert suggest_priority(one, 21, NOW, NOW, "used 12") is None
    again = suggest_priority(one, 22, NOW, NOW, "used 12")
    assert again is not None
    assert again.priority == 6
    assert suggest_priority(one, 22, NOW - 8 * DAY, NOW, "used 12") is None
    assert suggest_priority(memory(priority=10), 50, NOW, NOW, None) is None


def test_unused_memories_lose_priority_every_thirty_days() -> None:
    one = memory(priority=5, created_at=NOW - IDLE_PERIOD)
    then = suggest_priority(one, 0, 0, NOW, None)
    assert then is not None
    assert (then.priority, then.basis) == (4, "idle 1")
    assert suggest_priority(one, 0, 0, NOW + IDLE_PERIOD - 1, "idle 1") is None
    assert suggest_priority(one, 0, 0, NOW + IDLE_PERIOD, "idle 1") is not None
    assert suggest_priority(memory(priority=1, created_at=0), 0, 0, NOW, None) is None
    assert suggest_priority(memory(priority=5), 0, 0, NOW, None) is None
