"""Parsing a query: words, language, named speakers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.recall.query import (
    MAX_WORDS,
    Query,
    find_asked_speakers,
    find_named_speakers,
    parse_query,
    rewrite_in_first_person,
)
from holdfast.kernel.timestamps import parse_timestamp

NOW = parse_timestamp("2023-05-24T15:00:00Z", "now")


def words(text: str) -> list[str]:
    return list(parse_query(text, NOW).words)


def test_a_query_is_parsed_once_for_all_of_recall() -> None:
    asked = parse_query("When did Caroline paint, and what did she paint on 8 May 2023?", NOW)
    [day] = asked.dates
    assert asked._replace(dates=()) == Query(
        "When did Caroline paint, and what did she paint on 8 May 2023?",
        ("caroline", "paint", "8", "may", "2023"),
        True,
        (),
    )
    assert day.text == "8 May 2023"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("who are you", ["who", "are", "you"]),
        ("Wo ist der Schlüssel?", ["wo", "ist", "der", "schlüssel"]),
        ("猫の名前は？", ["猫の", "の名", "名前", "前は", "猫", "名", "前"]),
        ("How do I say 猫 or 東京都?", ["say", "猫", "東京", "京都", "東", "京", "都"]),
        ("Cafe\u0301 de Flore", ["café", "de", "flore"]),
        ("in\u200bvisible", ["invisible"]),
        ("snake_case C++ 50%", ["snake", "case", "c", "50"]),
        ('NEAR("a b" AND c*) OR ^title: -x', ["near", "b", "c", "title", "x"]),
        ("أين المفتاح؟", ["أين", "المفتاح"]),
        ("где ключ?", ["где", "ключ"]),
    ],
    ids=[
        "common-only",
        "german",
        "japanese",
        "mixed",
        "accents",
        "invisible",
        "code",
        "operators",
        "arabic",
        "russian",
    ],
)
def test_a_query_searches_for_its_content_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    "text", ["", " \n\t", "?!.,;:", "\x00", "\u0301\u0302", "\u202e\u200b", '" * ^ : ( )', "_" * 100], ids=ascii
)
def test_a_query_without_words_has_no_terms(text: str) -> None:
    assert (words(text), parse_query(text, NOW).dates) == ([], ())


def test_a_long_query_searches_for_its_first_words() -> None:
    assert words(" ".join(f"word{n}" for n in range(20_000))) == [f"word{n}" for n in range(MAX_WORDS)]


@pytest.mark.parametrize(
    "text",
    [
        "When did Caroline go to the support group?",
        "What is in the box that I got in Rome?",
        "How do I get to the office?",
        "Have I watched La La Land or El Camino?",
        "deploy day",
        "What does 猫 mean?",
        "who is it",
        "",
    ],
)
def test_english_is_detected_by_common_words_or_assumed_for_short_plain_queries(text: str) -> None:
    assert parse_query(text, NOW).english


@pytest.mark.parametrize(
    "text",
    [
        "Wann war ich in Berlin?",
        "Was ist das?",
        "Où habite ma sœur ?",
        "¿Dónde está mi coche?",
        "que hora es",
        "Onde fica o servidor?",
        "Come si chiama il mio cane?",
        "Waar is mijn fiets?",
        "Hvor bor jeg?",
        "Gdzie jest mój rower?",
        "contraseña",
        "где ключ?",
        "猫の名前は？",
    ],
)
def test_a_query_in_another_language_keeps_all_its_words(text: str) -> None:
    asked = parse_query(text, NOW)
    assert not asked.english
    assert {"was", "in", "is", "o", "i"} & set(text.lower().split()) <= set(asked.words)


@given(st.text(), st.integers())
def test_any_text_is_a_valid_query(text: str, now: int) -> None:
    asked = parse_query(text, now)
    assert asked.text == text
    assert len(asked.words) == len(set(asked.words)) <= MAX_WORDS
    assert all(asked.words)


@pytest.mark.parametrize(
    ("text", "named", "told"),
    [
        ("When did Caroline paint?", ["Caroline"], "When did I paint?"),
        ("What is Caroline's dog called?", ["Caroline"], "What is my dog called?"),
        ("What is Caroline’s dog called?", ["Caroline"], "What is my dog called?"),
        ("What is James' dog called?", ["James"], "What is my dog called?"),
        ("Where do Melanie Smith and Melanie live?", ["Melanie Smith"], "Where do I and I live?"),
        ("Where does Melanie Smith's son live?", ["Melanie Smith"], "Where does my son live?"),
        ("Did Caroline meet Mel?", ["Caroline", "Mel"], "Did I meet you?"),
        ("Did Caroline win?", ["caroline"], "Did I win?"),
        ("Do Carolines and McCaroline win?", ["Caroline"], "Do Carolines and McCaroline win?"),
        ("Will Will win?", ["Mark"], "Will Will win?"),
        ("Where does Zoë's cat sleep?", ["Zoë"], "Where does my cat sleep?"),
        ("What does J.R. (Bob) say?", ["J.R.", "(Bob)"], "What does I you say?"),
        ("Nobody is named.", [], "Nobody is named."),
        ("Nobody is named.", ["", " "], "Nobody is named."),
    ],
)
def test_a_query_about_a_person_is_rewritten_in_the_first_person(text: str, named: list[str], told: str) -> None:
    assert rewrite_in_first_person(text, named) == told


@given(st.text(), st.lists(st.text(max_size=10), max_size=5))
def test_any_names_can_be_searched_for_in_any_text(text: str, named: list[str]) -> None:
    assert rewrite_in_first_person(text, []) == text
    assert isinstance(rewrite_in_first_person(text, named), str)


@pytest.mark.parametrize(
    ("text", "speakers", "named"),
    [
        ("When did Caroline paint?", {"Caroline", "Melanie"}, ("Caroline",)),
        ("melanie and CAROLINE", {"Caroline", "Melanie"}, ("Melanie", "Caroline")),
        ("What did Smith say?", {"Melanie Smith"}, ("Melanie Smith",)),
        ("What did the user tell the assistant?", {"user", "Assistant", "AI", "tool"}, ()),
        ("What did A say to J?", {"A", "J"}, ()),
        ("田中さんは何時に来ますか", {"田中", "鈴木"}, ("田中",)),
        ("What did Ann say?", {"Mary-Ann", "Annie", "Anne Marie"}, ("Mary-Ann",)),
        ("What?", {"", " ", "???"}, ()),
    ],
    ids=["one", "case", "family-name", "roles", "initials", "japanese", "parts", "nothing"],
)
def test_speakers_are_matched_by_a_part_of_their_name(text: str, speakers: set[str], named: tuple[str, ...]) -> None:
    assert find_named_speakers(parse_query(text, NOW).words, speakers) == named


def test_an_uppercase_speaker_name_matches_only_capitalised_words() -> None:
    told = ("Which task did Ada finish?", "Who is to see TASK to its end?", "Did Task answer?", "which task is mine")
    named = [find_asked_speakers(parse_query(text, NOW), ("TASK", "Ada")) for text in told]
    assert named == [("Ada",), ("TASK",), ("TASK",), ("TASK",)]
    assert find_asked_speakers(parse_query("What did Lovelace say?", NOW), ("ADA LOVELACE",)) == ("ADA LOVELACE",)


def test_contractions_are_stop_words_like_their_full_forms() -> None:
    assert parse_query("I've heard she'd run, and they\u2019re sure we'll win", NOW).words == (
        "heard",
        "run",
        "sure",
        "win",
    )
    assert parse_query("Is vitamin D enough?", NOW).words == ("vitamin", "d", "enough")
    assert parse_query("I'd've", NOW).words == ("i", "d", "ve")


# Speakers asked for


@pytest.mark.parametrize(
    "text",
    [
        "What did you suggest for the dinner?",
        "Which shoes had you recommended to me?",
        "You've previously mentioned a book about lighthouses, which one?",
        "What was your last advice about my knee?",
        "I was thinking of our previous conversation about fences. Which wood was it?",
        "how long did you say the chickpeas have to soak",
    ],
)
def test_a_query_to_you_asks_for_messages_of_an_assistant(text: str) -> None:
    found = find_asked_speakers(parse_query(text, NOW), ("user", "Assistant", "Ada"))
    assert {"Assistant", "assistant", "ai"} <= {*found}
    assert not {"user", "human", "Ada"} & {*found}


@pytest.mark.parametrize(
    "text",
    [
        "What did I buy last week?",
        "who gave me the mixer",
        "Where are my old sneakers?",
        "I told you about a wedding, whose was it?",
        "Do you think it is my living room?",
        "Which restaurant do you recommend for tonight?",
        "Any good tips for a clean kitchen?",
    ],
)
def test_a_query_about_i_asks_for_messages_of_a_user(text: str) -> None:
    assert find_asked_speakers(parse_query(text, NOW), ("User", "assistant")) == ("User", "human", "user")


@pytest.mark.parametrize(
    "text",
    [
        "How many eggs are in the cake?",
        "Tell me when the dentist is.",
        "Can you remind me which model was the fastest?",
        "Was hast du mir empfohlen?",
        "recommendations of the committee",
    ],
)
def test_a_query_without_a_role_matches_every_speaker(text: str) -> None:
    assert find_asked_speakers(parse_query(text, NOW), ("user", "assistant")) == ()


def test_a_named_speaker_precedes_a_role_and_a_universal_role_is_ignored() -> None:
    asked = parse_query("What did I tell Ada?", NOW)
    assert find_asked_speakers(asked, ("user", "assistant", "Ada")) == ("Ada",)
    assert (
        find_asked_speakers(asked, ("user", "human"))
        == find_asked_speakers(asked, ("Bo",))
        == find_asked_speakers(asked, ())
        == ()
    )


def test_a_query_about_a_role_is_not_rewritten_in_the_first_person() -> None:
    assert rewrite_in_first_person("What did the assistant say?", ("assistant",)) == "What did the assistant say?"


@given(st.text(max_size=200), st.sets(st.sampled_from(("user", "assistant", "Ada", "Bo Lee", "AI"))))
def test_queried_speakers_are_known_or_have_the_queried_role(text: str, speakers: set[str]) -> None:
    asked = parse_query(text, NOW)
    assert set(find_asked_speakers(asked, speakers)) <= speakers | asked.roles
