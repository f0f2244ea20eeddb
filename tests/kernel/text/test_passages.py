"""Passages of a text: short, in order, complete except for the head."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.storage.index_terms import (
    MAX_PASSAGE_WORDS,
    MAX_QUESTION_WORDS,
    Head,
    Passage,
    is_question,
    parse_head,
    split_passages,
)
from holdfast.kernel.timestamps import parse_timestamp

SAID_AT = parse_timestamp("2023-05-08T13:56:00Z", "at")
SENTENCE = "one two three four five six seven eight nine ten eleven."


def pieces(text: str) -> list[str]:
    return [text[piece.start : piece.end] for piece in split_passages(text)]


def split_speech(text: str) -> list[tuple[str | None, str]]:
    return [(piece.speaker, text[piece.start : piece.end]) for piece in split_passages(text)]


def test_a_short_text_is_one_passage() -> None:
    assert split_passages(" We deploy on Tuesdays. ") == [Passage(1, 23)]


def test_sentences_are_joined_up_to_the_word_limit() -> None:
    assert pieces(" ".join([SENTENCE] * 5)) == [f"{SENTENCE} {SENTENCE}", f"{SENTENCE} {SENTENCE}", SENTENCE]


def test_a_too_long_sentence_is_split_evenly() -> None:
    words = [f"w{n}" for n in range(50)]
    text = f"{SENTENCE} {' '.join(words)}. {SENTENCE}"
    assert pieces(text) == [SENTENCE, " ".join(words[:25]), " ".join(words[25:]) + ".", SENTENCE]


@pytest.mark.parametrize(
    "end", [". ", "! ", "? ", "… ", '." ', ".) ", "\n", "\r\n", "؟ ", "。", "！", "？」", "। ", "။", "。\n"], ids=ascii
)
def test_a_passage_ends_at_a_sentence_or_line_end(end: str) -> None:
    first, then = " ".join(["word"] * 20), " ".join(["then"] * 20)
    assert pieces(f"{first}{end}{then}") == [f"{first}{end}".strip(), then]


def test_a_period_within_a_number_or_a_name_does_not_end_a_sentence() -> None:
    assert pieces(" ".join(["word"] * 31) + " 3.5 file.py") == [
        " ".join(["word"] * 16),
        " ".join(["word"] * 15) + " 3.5 file.py",
    ]


def test_two_characters_without_spaces_count_as_one_word() -> None:
    assert pieces("日" * 10 * MAX_PASSAGE_WORDS) == ["日" * 2 * MAX_PASSAGE_WORDS] * 5
    assert pieces("これは文です。" * 20) == ["これは文です。" * 8, "これは文です。" * 8, "これは文です。" * 4]


def test_an_endless_run_of_characters_is_split() -> None:
    assert max(map(len, pieces("x" * 1_000_000))) <= 64 * MAX_PASSAGE_WORDS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[2023-05-08 13:56] Caroline: I went hiking.", "I went hiking."),
        ("Mary Ann: I went hiking.", "I went hiking."),
        ("assistant: Take a tent.", "Take a tent."),
        ("[1:56 pm on 8 May, 2023] I went hiking.", "I went hiking."),
        ("[urgent] Renew the certificate.", "[urgent] Renew the certificate."),
        ("I went hiking: it was fine.", "I went hiking: it was fine."),
        ("https://example.org", "https://example.org"),
    ],
    ids=["time-and-name", "name", "role", "time", "other-brackets", "colon", "url"],
)
def test_the_speaker_and_date_header_is_not_part_of_a_passage(text: str, said: str) -> None:
    assert pieces(text) == [said]


@pytest.mark.parametrize(
    "text", ["Caroline: ", "[2023-05-08 13:56]", "user: \nuser: \n"], ids=["name", "time", "turns"]
)
def test_a_header_without_a_text_is_the_text(text: str) -> None:
    assert "".join(pieces(text)).split() == text.split()


def test_each_line_of_a_transcript_is_a_passage_of_its_speaker() -> None:
    text = "Caroline: Hi! How are you?\n[2023-05-08 13:56] Mel: Fine.\nwaves\n\nCaroline: Good."
    assert split_speech(text) == [
        ("Caroline", "Hi! How are you?"),
        ("Mel", "Fine."),
        (None, "waves"),
        ("Caroline", "Good."),
    ]


def test_a_text_with_names_before_fewer_than_half_of_its_lines_is_not_a_transcript() -> None:
    assert {speaker for speaker, _ in split_speech("Mel: Hi\nwaves\nMel: Bye\nleaves")} == {"Mel", None}
    assert {speaker for speaker, _ in split_speech("Mel: Hi\nwaves\nMel: Bye\nleaves\nreturns")} == {None}


def test_two_lines_with_roles_are_a_transcript() -> None:
    assert split_speech("user: Where?\nassistant: Here.") == [("user", "Where?"), ("assistant", "Here.")]


def test_a_long_transcript_line_is_split_and_keeps_its_speaker() -> None:
    assert split_speech(f"Mel: {SENTENCE} {SENTENCE} {SENTENCE}\nMel: Yes.") == [
        ("Mel", f"{SENTENCE} {SENTENCE}"),
        ("Mel", SENTENCE),
        ("Mel", "Yes."),
    ]


@pytest.mark.parametrize("text", ["Host: db1\nPort: 5432", "Title: Plan\nsome text\nmore text"], ids=["list", "title"])
def test_the_label_of_a_list_item_is_not_a_speaker(text: str) -> None:
    assert {piece.speaker for piece in split_passages(text)} == {None}


def test_a_list_keeps_its_labels_in_the_text() -> None:
    assert pieces("Host: db1\nPort: 5432") == ["Host: db1\nPort: 5432"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[2023-05-08 13:56] Caroline: Hi", Head(SAID_AT, "Caroline", 29)),
        ("  Mel: Hi", Head(None, "Mel", 7)),
        ("[2023-05-08 13:56] Hi", Head(SAID_AT, None, 19)),
        ("[urgent] Mel: Hi", Head(None, "Mel", 14)),
        ("[urgent] Hi", Head(None, None, 0)),
        ("Hi", Head(None, None, 0)),
        ("", Head(None, None, 0)),
    ],
    ids=["both", "name", "time", "brackets-and-name", "brackets", "none", "empty"],
)
def test_the_header_of_a_text_has_speaker_and_date(text: str, found: Head) -> None:
    assert parse_head(text) == found


@pytest.mark.parametrize(
    "text", ["What now?", "Fine. And you? \n", "本当？", "حقا؟", "a " * (MAX_QUESTION_WORDS - 1) + "b?"]
)
def test_a_short_text_ending_with_a_question_is_a_question(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["", "Fine.", "What? Never!", "a " * MAX_QUESTION_WORDS + "b?"])
def test_any_other_text_is_a_statement(text: str) -> None:
    assert not is_question(text)


PARTS = st.sampled_from(
    [
        "a",
        "B",
        "word ",
        "Mel: ",
        "user: ",
        "[2023-05-08 13:56] ",
        "。",
        ". ",
        "?",
        "\n",
        "\r",
        " ",
        "日本",
        "\u3000",
        "ไทย",
        "x" * 70,
    ]
)
TEXTS = st.text() | st.lists(PARTS, max_size=200).map("".join)


@given(TEXTS)
def test_passages_are_ordered_trimmed_and_short(text: str) -> None:
    found = split_passages(text)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(piece and piece == piece.strip() and len(piece.split()) <= MAX_PASSAGE_WORDS for piece in pieces(text))


@given(TEXTS)
def test_a_text_has_passages_unless_it_is_blank(text: str) -> None:
    assert bool(split_passages(text)) == bool(text.strip())


@given(st.lists(st.sampled_from(["word", "日本語。", "end.", "why?", "line\n", "x" * 100]), max_size=200))
def test_passages_of_a_text_without_a_header_omit_nothing(words: list[str]) -> None:
    text = " ".join(words)
    assert re.sub(r"\s", "", "".join(pieces(text))) == re.sub(r"\s", "", text)


HOSTILE = {
    "blanks": " ",
    "lines": "\n",
    "letters": "x",
    "heads": "A: ",
    "turns": "A: \n",
    "brackets": "[",
    "times": "[1234] ",
    "points": ".",
    "ends": '."',
    "sentences": ". ",
    "names": "Aa ",
    "wide-blanks": "\u3000",
    "marks": "\u0301",
    "indented": " " * 50 + "[",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_text_of_any_length_is_split_in_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    assert bool(split_passages(text)) == bool(text.strip())
    assert not is_question(text)
