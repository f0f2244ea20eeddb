"""Query expansion by the hits of the query."""

from holdfast.features.curation.contradiction_rules import stem
from holdfast.features.recall.expand_query import find_expansion_terms

TEXTS = ["The deploy runs on Tuesday through the release pipeline.", "The release pipeline signs what it deploys."]


def test_words_of_results_expand_a_query() -> None:
    assert find_expansion_terms("deploys", TEXTS, stem=stem)[:2] == ["pipeline", "release"]


def test_aliases_and_tags_are_added_without_repetitions() -> None:
    found = find_expansion_terms(
        "deploys", TEXTS, names=["Roll-out", "deploy"], tags=["ci", "ci", "Deploys"], stem=stem
    )
    assert found[:2] == ["Roll-out", "ci"]
    assert not {"deploy", "Deploys", "deploys"} & set(found)


def test_without_results_other_word_forms_are_suggested() -> None:
    assert find_expansion_terms("the walking agents", [], stem=stem) == ["walk", "walks", "agent", "agenting"]


def test_an_empty_query_is_not_expanded() -> None:
    assert find_expansion_terms("?!", [], stem=stem) == []
