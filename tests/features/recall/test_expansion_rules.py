"""Query expansion by the hits of the query."""

from holdfast.features.curation.contradiction_rules import stem
from holdfast.features.recall.expansion_rules import find_expansion_terms

TEXTS = ["The deploy runs on Tuesday through the release pipeline.", "The release pipeline signs what it deploys."]


def test_words_of_what_is_found_widen_a_question() -> None:
    assert find_expansion_terms("deploys", TEXTS, stem=stem)[:2] == ["pipeline", "release"]


def test_other_names_and_labels_come_with_them_and_nothing_is_asked_twice() -> None:
    found = find_expansion_terms(
        "deploys", TEXTS, names=["Roll-out", "deploy"], tags=["ci", "ci", "Deploys"], stem=stem
    )
    assert found[:2] == ["Roll-out", "ci"]
    assert not {"deploy", "Deploys", "deploys"} & set(found)


def test_where_nothing_is_found_other_forms_of_the_words_are_given() -> None:
    assert find_expansion_terms("the walking agents", [], stem=stem) == ["walk", "walks", "agent", "agenting"]


def test_a_question_without_words_is_not_widened() -> None:
    assert find_expansion_terms("?!", [], stem=stem) == []
