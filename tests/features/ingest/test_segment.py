"""Splitting documents into segments: exact spans, whole blocks, bounded sizes, nothing lost."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.features.ingest.split_document import (
    MAX_CODE_LENGTH,
    Segment,
    build_byte_counter,
    parse_outline,
    split_segments,
)

lines = st.sampled_from(
    [
        "# Top",
        "## Below",
        "#no heading",
        "Title",
        "===",
        "---",
        "- item one",
        "  inside it",
        "2) another item",
        "| a | b |",
        "|---|---|",
        "```",
        "~~~",
        "    code",
        "A sentence. Another one! 第一句。第二句。",
        "Look here:",
        "",
        "word " * 40,
        "x" * 300,
        "> said",
        "naïve 👍🏽",
        "\ufeff",
    ]
)
documents = st.tuples(st.lists(lines, max_size=14), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans()).map(
    lambda made: made[1].join(made[0]) + (made[1] if made[2] else "")
)


def list_segments(text: str, longest: int = 1200) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.kind, one.path, text[one.start : one.end]) for one in split_segments(text, longest)]


@given(documents, st.sampled_from([200, 1200]))
@settings(max_examples=150)
def test_segments_are_ordered_disjoint_bounded_and_complete(text: str, longest: int) -> None:
    found = parse_outline(text, longest)
    at = found.front[1] if found.front else 0
    between = []
    for one in found.segments:
        assert at <= one.start < one.end
        assert one.end - one.start <= (MAX_CODE_LENGTH if one.kind == "code" else longest)
        assert text[one.start : one.end].strip()
        between.append(text[at : one.start])
        at = one.end
    headings = "".join(text[one.start : one.end] for one in found.headings)
    left = "".join([*between, text[at:]])
    for word in re.findall(r"\w+", left):
        assert word in headings
    assert list(split_segments(text, longest)) == found.segments


@given(documents)
@settings(max_examples=40)
def test_byte_offsets_are_those_of_utf_8(text: str) -> None:
    before = build_byte_counter(text)
    for one in split_segments(text):
        start, end = before(one.start), before(one.end)
        assert text.encode()[start:end].decode() == text[one.start : one.end]


def test_headings_are_the_path_of_the_segments_below() -> None:
    text = "# Handbook\n\nHello.\n\n## Deploy ##\nOn Tuesdays.\n\nRollback\n--------\n\nCall Ann.\n# Other\nBye."
    assert list_segments(text) == [
        ("paragraph", ("Handbook",), "Hello."),
        ("paragraph", ("Handbook", "Deploy"), "On Tuesdays."),
        ("paragraph", ("Handbook", "Rollback"), "Call Ann."),
        ("paragraph", ("Other",), "Bye."),
    ]


def test_a_heading_without_content_is_a_segment() -> None:
    assert list_segments("# A\n## Buy milk\n## B\ntext\n# Last") == [
        ("heading", ("A",), "## Buy milk"),
        ("paragraph", ("A", "B"), "text"),
        ("heading", (), "# Last"),
    ]


def test_fenced_code_is_one_segment_and_its_lines_are_no_headings() -> None:
    text = "````sh\n# not a heading\n\n```\nmake\n````\nafter"
    assert list_segments(text) == [("code", (), text[:-6]), ("paragraph", (), "after")]


def test_an_unclosed_fence_extends_to_the_end() -> None:
    assert list_segments("before\n~~~\n# x\n\ny") == [("paragraph", (), "before"), ("code", (), "~~~\n# x\n\ny")]


def test_a_list_is_one_segment_with_nested_content() -> None:
    text = "- one\n- two\n\n  still two\n- three\n\nNot of the list."
    assert list_segments(text) == [("list", (), text[: text.index("\n\nNot")]), ("paragraph", (), "Not of the list.")]


def test_a_long_list_is_split_between_items() -> None:
    text = "".join(f"- item number {number} of the list\n" for number in range(30))
    found = list_segments(text, 200)
    assert len(found) > 3
    assert all(one[2].startswith("- item") and len(one[2]) <= 200 for one in found)


def test_a_sentence_ending_in_a_colon_joins_the_list_or_code_below() -> None:
    assert list_segments("Do this:\n\n- a\n- b") == [("list", (), "Do this:\n\n- a\n- b")]
    assert list_segments("Run:\n```\nmake\n```") == [("code", (), "Run:\n```\nmake\n```")]
    assert len(list_segments("Do this.\n\n- a\n- b")) == 2


def test_tables_are_recognised_with_and_without_outer_bars() -> None:
    assert list_segments("a | b\n--|--\n1 | 2\n\n| c |\n|---|") == [
        ("table", (), "a | b\n--|--\n1 | 2"),
        ("table", (), "| c |\n|---|"),
    ]


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"], ids=["crlf", "lf", "cr"])
def test_every_kind_of_line_end_separates_paragraphs(end: str) -> None:
    assert [one[2] for one in list_segments(f"# T{end}{end}a{end}b{end}{end}c")] == [f"a{end}b", "c"]


def test_a_byte_order_mark_is_not_part_of_a_segment() -> None:
    assert list_segments("\ufeff# T\nx") == [("paragraph", ("T",), "x")]
    assert parse_outline("\ufeff---\ntitle: Named\n---\nx").title == "Named"


def test_front_matter_is_skipped_and_may_contain_the_title() -> None:
    found = parse_outline('---\ntitle: "The plan"\ntags: [a]\n---\n# Head\nx\n')
    assert (found.title, found.front) == ("The plan", (0, 36))
    assert found.segments == [Segment(43, 44, "paragraph", ("Head",))]
    assert parse_outline("---\nno matter\n---\nx").front is None
    assert parse_outline("---\ntitle: x\nnever closed").front is None


def test_a_long_paragraph_is_split_between_sentences_of_any_script() -> None:
    for sentence in ("It holds this much. ", "これは一つの文です。"):
        found = [one[2] for one in list_segments(sentence * 40, 200)]
        assert len(found) > 1
        assert all(len(one) <= 200 and one.endswith(sentence.strip()) for one in found)


def test_a_long_sentence_is_split_between_words_and_a_long_word_between_characters() -> None:
    assert all(len(one[2]) <= 200 and not one[2].startswith("ord") for one in list_segments("word " * 200, 200))
    assert [len(one[2]) for one in list_segments("x" * 500, 200)] == [200, 200, 100]


def test_a_line_of_megabytes_is_split_lazily() -> None:
    text = "x" * 3_000_000
    found = split_segments(text)
    assert next(found) == Segment(0, 1200, "paragraph", ())
    assert sum(one.end - one.start for one in found) == 3_000_000 - 1200


def test_an_empty_text_has_no_segments() -> None:
    for text in ("", "\n \r\n", "\ufeff", "---\n", "***\n\n"):
        assert list_segments(text) == []
