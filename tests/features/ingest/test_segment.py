"""Documents in segments: exact places, whole blocks, bounded sizes, nothing lost."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.features.ingest.segment import WHOLE, Segment, outline, places, segments

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


def said(text: str, longest: int = 1200) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.kind, one.path, text[one.start : one.end]) for one in segments(text, longest)]


@given(documents, st.sampled_from([200, 1200]))
@settings(max_examples=150)
def test_segments_are_in_order_apart_bounded_and_nothing_but_headings_lies_between_them(
    text: str, longest: int
) -> None:
    found = outline(text, longest)
    at = found.front[1] if found.front else 0
    between = []
    for one in found.segments:
        assert at <= one.start < one.end
        assert one.end - one.start <= (WHOLE if one.kind == "code" else longest)
        assert text[one.start : one.end].strip()
        between.append(text[at : one.start])
        at = one.end
    headings = "".join(text[one.start : one.end] for one in found.headings)
    left = "".join([*between, text[at:]])
    for word in re.findall(r"\w+", left):
        assert word in headings
    assert list(segments(text, longest)) == found.segments


@given(documents)
@settings(max_examples=40)
def test_bytes_before_a_character_are_those_of_its_utf_8(text: str) -> None:
    before = places(text)
    for one in segments(text):
        start, end = before(one.start), before(one.end)
        assert text.encode()[start:end].decode() == text[one.start : one.end]


def test_headings_are_the_path_of_what_stands_below_them() -> None:
    text = "# Handbook\n\nHello.\n\n## Deploy ##\nOn Tuesdays.\n\nRollback\n--------\n\nCall Ann.\n# Other\nBye."
    assert said(text) == [
        ("paragraph", ("Handbook",), "Hello."),
        ("paragraph", ("Handbook", "Deploy"), "On Tuesdays."),
        ("paragraph", ("Handbook", "Rollback"), "Call Ann."),
        ("paragraph", ("Other",), "Bye."),
    ]


def test_a_heading_with_nothing_below_is_a_segment() -> None:
    assert said("# A\n## Buy milk\n## B\ntext\n# Last") == [
        ("heading", ("A",), "## Buy milk"),
        ("paragraph", ("A", "B"), "text"),
        ("heading", (), "# Last"),
    ]


def test_fenced_code_is_whole_and_its_lines_are_no_headings() -> None:
    text = "````sh\n# not a heading\n\n```\nmake\n````\nafter"
    assert said(text) == [("code", (), text[:-6]), ("paragraph", (), "after")]


def test_a_fence_that_is_never_closed_reaches_to_the_end() -> None:
    assert said("before\n~~~\n# x\n\ny") == [("paragraph", (), "before"), ("code", (), "~~~\n# x\n\ny")]


def test_a_list_is_one_segment_with_what_belongs_to_its_items() -> None:
    text = "- one\n- two\n\n  still two\n- three\n\nNot of the list."
    assert said(text) == [("list", (), text[: text.index("\n\nNot")]), ("paragraph", (), "Not of the list.")]


def test_a_long_list_is_cut_between_its_items() -> None:
    text = "".join(f"- item number {number} of the list\n" for number in range(30))
    found = said(text, 200)
    assert len(found) > 3
    assert all(one[2].startswith("- item") and len(one[2]) <= 200 for one in found)


def test_a_sentence_that_ends_in_a_colon_goes_with_the_list_or_code_that_it_announces() -> None:
    assert said("Do this:\n\n- a\n- b") == [("list", (), "Do this:\n\n- a\n- b")]
    assert said("Run:\n```\nmake\n```") == [("code", (), "Run:\n```\nmake\n```")]
    assert len(said("Do this.\n\n- a\n- b")) == 2


def test_tables_are_known_with_and_without_outer_bars() -> None:
    assert said("a | b\n--|--\n1 | 2\n\n| c |\n|---|") == [
        ("table", (), "a | b\n--|--\n1 | 2"),
        ("table", (), "| c |\n|---|"),
    ]


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"], ids=["crlf", "lf", "cr"])
def test_every_kind_of_line_end_parts_paragraphs(end: str) -> None:
    assert [one[2] for one in said(f"# T{end}{end}a{end}b{end}{end}c")] == [f"a{end}b", "c"]


def test_a_mark_of_byte_order_is_no_part_of_the_text() -> None:
    assert said("\ufeff# T\nx") == [("paragraph", ("T",), "x")]
    assert outline("\ufeff---\ntitle: Named\n---\nx").title == "Named"


def test_front_matter_is_set_apart_and_may_name_the_document() -> None:
    found = outline('---\ntitle: "The plan"\ntags: [a]\n---\n# Head\nx\n')
    assert (found.title, found.front) == ("The plan", (0, 36))
    assert found.segments == [Segment(43, 44, "paragraph", ("Head",))]
    assert outline("---\nno matter\n---\nx").front is None
    assert outline("---\ntitle: x\nnever closed").front is None


def test_a_long_paragraph_is_cut_between_sentences_of_any_script() -> None:
    for sentence in ("It holds this much. ", "これは一つの文です。"):
        found = [one[2] for one in said(sentence * 40, 200)]
        assert len(found) > 1
        assert all(len(one) <= 200 and one.endswith(sentence.strip()) for one in found)


def test_a_sentence_that_is_too_long_is_cut_between_words_and_a_word_between_characters() -> None:
    assert all(len(one[2]) <= 200 and not one[2].startswith("ord") for one in said("word " * 200, 200))
    assert [len(one[2]) for one in said("x" * 500, 200)] == [200, 200, 100]


def test_one_line_of_megabytes_is_cut_one_piece_at_a_time() -> None:
    text = "x" * 3_000_000
    found = segments(text)
    assert next(found) == Segment(0, 1200, "paragraph", ())
    assert sum(one.end - one.start for one in found) == 3_000_000 - 1200


def test_nothing_is_in_nothing() -> None:
    for text in ("", "\n \r\n", "\ufeff", "---\n", "***\n\n"):
        assert said(text) == []
