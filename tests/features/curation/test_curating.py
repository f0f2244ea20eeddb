"""The curator's rules: nothing that was said is lost, and the same grounds move an importance once."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.features.curation.rules import IDLE, lasting, moved, united
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft, admit
from holdfast.kernel.text.sentences import sentences
from holdfast.kernel.text.similarity import compare
from holdfast.kernel.text.words import runs
from holdfast.kernel.timestamps import DAY

NOW = 400 * DAY


def near(one: str, other: str) -> bool:
    return compare(one, other).relation in ("same", "near")


def memory(**more: object) -> Memory:
    draft = Draft(title="T", content="x", tier="long")
    made = admit(draft, id="1", agent="a", origin="o", now=NOW - 10 * DAY, lifetimes=Lifetimes())
    return replace(made, **more)


def test_one_text_says_what_several_say() -> None:
    assert united(["The gate is red.", "The Gate is red! It squeaks, too."]) == "The Gate is red! It squeaks, too."
    assert united(["A is so. B is so.", "A is so. C is, too."]) == "A is so. C is, too.\nB is so."


@given(st.lists(st.text(alphabet="ab. 。\n", min_size=1, max_size=30), min_size=1, max_size=4))
def test_every_sentence_is_in_the_united_text(texts: list[str]) -> None:
    whole = united(texts)
    said = [whole[start:end] for start, end in sentences(whole)]
    for text in texts:
        for start, end in sentences(text):
            one = text[start:end]
            assert one in said or any(runs(one) == runs(other) or near(other, one) for other in said)
    assert united([whole]) == whole


def test_what_takes_the_place_of_several_lives_as_long_as_any_of_them() -> None:
    assert lasting([memory(tier="mid", expires_at=5), memory(tier="short", expires_at=9)]) == ("mid", 9)
    assert lasting([memory(tier="mid", expires_at=5), memory(tier="long", expires_at=None)]) == ("long", None)
    assert lasting([memory(tier="mid", expires_at=5), memory(tier="mid", expires_at=None)]) == ("long", None)
    assert lasting([memory(tier="long", expires_at=5), memory(tier="short", expires_at=9)]) == ("long", 9)


def test_use_raises_an_importance_once_for_every_ten_uses() -> None:
    one = memory(priority=5)
    assert moved(one, 9, NOW, NOW, None) is None
    then = moved(one, 12, NOW, NOW, None)
    assert then is not None
    assert (then.priority, then.grounds) == (6, "used 12")
    assert moved(one, 21, NOW, NOW, "used 12") is None
    again = moved(one, 22, NOW, NOW, "used 12")
    assert again is not None
    assert again.priority == 6
    assert moved(one, 22, NOW - 8 * DAY, NOW, "used 12") is None
    assert moved(memory(priority=10), 50, NOW, NOW, None) is None


def test_what_is_never_used_becomes_less_important_once_in_thirty_days() -> None:
    one = memory(priority=5, created_at=NOW - IDLE)
    then = moved(one, 0, 0, NOW, None)
    assert then is not None
    assert (then.priority, then.grounds) == (4, "idle 1")
    assert moved(one, 0, 0, NOW + IDLE - 1, "idle 1") is None
    assert moved(one, 0, 0, NOW + IDLE, "idle 1") is not None
    assert moved(memory(priority=1, created_at=0), 0, 0, NOW, None) is None
    assert moved(memory(priority=5), 0, 0, NOW, None) is None
