"""Query expansion by the hits of the query."""

from holdfast.features.recall.expand_query import find_expansion_terms
from holdfast.kernel.storage.index_terms import stem_word

TEXTS = ["The deploy runs on Tuesday through the release pipeline.", "The release pipeline signs what it deploys."]


def test_words_of_results_expand_a_query() -> None:
    assert find_expansion_terms("deploys", TEXTS, stem=stem_word)[:2] == ["pipeline", "release"]


def test_aliases_and_tags_are_added_without_repetitions() -> None:
    found = find_expansion_terms(
        "deploys", TEXTS, names=["Roll-out", "deploy"], tags=["ci", "ci", "Deploys"], stem=stem_word
    )
    assert found[:2] == ["Roll-out", "ci"]
    assert not {"deploy", "Deploys", "deploys"} & set(found)


def test_without_results_other_word_forms_are_suggested() -> None:
    assert find_expansion_terms("the walking agents", [], stem=stem_word) == ["walk", "walks", "agent", "agenting"]


def test_an_empty_query_is_not_expanded() -> None:
    assert find_expansion_terms("?!", [], stem=stem_word) == []
