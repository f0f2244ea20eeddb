"""Rules that find sentences about the same subject that cannot both be true."""

import pytest

from holdfast.features.curation.contradictions import find_contradictions


def list_kinds(a: str, b: str) -> list[str]:
    return [found.sort for found in find_contradictions(a, b)]


@pytest.mark.parametrize(
    ("a", "b", "sort", "difference"),
    [
        ("The API supports batching.", "The API does not support batching.", "negation", "one negates"),
        ("The server is reachable.", "The server isn't reachable.", "negation", "one negates"),
        ("Flag beta is enabled in production.", "Flag beta is disabled in production.", "opposite", "enabled vs"),
        ("The timeout is 30 seconds.", "The timeout is 2 minutes.", "number", "30 seconds vs 2 minutes"),
        ("The server has two cores.", "The server has 4 cores.", "number", "two vs 4 cores"),
        ("The build takes twelve minutes.", "The build takes forty minutes.", "number", "twelve vs forty"),
        ("The job must not overlap.", "The job may overlap.", "negation", "one negates"),
        ("Port 8080 is used by the proxy.", "Port 9090 is used by the proxy.", "number", "8080 vs 9090"),
        ("We deploy on Tuesdays.", "We deploy on Fridays.", "date", "Tuesdays vs Fridays"),
        ("The launch is on 2026-03-12.", "The launch is on 14 March 2026.", "date", "2026-03-12 vs 14 March"),
        ("The meeting is at 10:30.", "The meeting is at 9:30.", "date", "10:30 vs 9:30"),
        ("東京の会議は10時です。", "東京の会議は11時です。", "number", "10時"),
    ],
)
def test_a_contradiction_is_found_with_its_evidence(a: str, b: str, sort: str, difference: str) -> None:
    (found,) = find_contradictions(a, b)
    assert (found.sort, found.a, found.b) == (sort, a, b)
    assert found.difference.startswith(difference)
    assert list_kinds(b, a) == [sort]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The timeout is 5 s.", "The timeout is 5000 ms."),
        ("The limit is 2 GB.", "The limit is 2048 MB."),
        ("The launch is on 2026-03-12.", "The launch is on 12 March 2026."),
        ("Ada likes tea.", "Bob does not like coffee."),
        ("There are 3 apples and 4 pears.", "There are 4 pears."),
        ("The gate is never open.", "The gate is not open."),
        ("Release 4 came in spring.", "The team has 7 people."),
        ("The API supports batching.", "The API supports batching."),
        ("", "Anything."),
    ],
)
def test_compatible_sentences_are_no_contradiction(a: str, b: str) -> None:
    assert list_kinds(a, b) == []


def test_only_contradicting_sentences_are_returned() -> None:
    a = "Ada leads the team. The budget is 30 euros. We meet weekly."
    b = "We meet weekly. The budget is 40 euros."
    assert [(found.a, found.b) for found in find_contradictions(a, b)] == [
        ("The budget is 30 euros.", "The budget is 40 euros.")
    ]


def test_a_shared_subject_lets_short_sentences_be_compared() -> None:
    assert list_kinds("Set to 30 seconds by Ada.", "Now 60 seconds.") == []
    assert [one.sort for one in find_contradictions("30 seconds.", "60 seconds.", subject="Timeout")] == ["number"]


def test_long_texts_are_compared_quickly() -> None:
    many = " ".join(f"The gate {number} is open to all." for number in range(400))
    assert len(find_contradictions(many, many.replace("open", "closed"))) > 0
