"""The time that any pattern of the package takes grows with the text that it is applied to, and never with its square.

Whoever may send a text could stop a server otherwise. It is the one test that measures, and it measures the time of
the processor, as a ratio of what a large and a small text take.
"""

import inspect
import re
from collections.abc import Callable

import pytest

from holdfast.features.context_blocks import context_packing as pack
from holdfast.features.curation import persona
from holdfast.features.ingest import segment
from holdfast.features.recall import dates
from holdfast.features.recall import query as question
from holdfast.kernel import prompt
from holdfast.kernel.storage.postgres import driver_errors as foreign
from holdfast.kernel.text import bigrams as scripts
from holdfast.kernel.text import language as tongue
from holdfast.kernel.text import prompt_injection as suspect
from holdfast.kernel.text import secrets
from holdfast.surfaces.install import targets
from patterns import PAIRS, SOLE, Call, Pattern, kept, offenders, strange_imports, written

OWN_FILES = ("holdfast.kernel.storage.migrations:", "holdfast.kernel.storage.statements:")
"""Modules whose patterns meet nothing but the SQL files of the package."""


def made_by(run: Callable[[], object]) -> list[re.Pattern[str]]:
    """The patterns that are built while something runs."""
    found: list[re.Pattern[str]] = []
    build = re._compile  # type: ignore[attr-defined]

    def noted(expression: str, flags: int) -> re.Pattern[str]:
        found.append(built := build(expression, flags))
        return built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re, "_compile", noted)
        run()
    assert found
    return found


def of_dates() -> list[Pattern]:
    """Those of the module's texts that are patterns, alone or in a list."""
    named = re.findall(r"\b_pattern\((_[A-Z_]+)\)\.(\w+)", inspect.getsource(dates))
    texts = [(getattr(dates, name), method) for name, method in named]
    texts += [(text, "finditer") for text in (*dates._WRITTEN, *(text for text, _ in dates._TOLD))]
    return [Pattern("features.recall.dates", dates._pattern(text), frozenset((method,))) for text, method in texts]


BUILT: dict[Call, Callable[[], list[re.Pattern[str]]]] = {
    Call("features.ingest.helpers", "_sign"): list,  # kept by the module
    Call("features.context_blocks.context_packing", "clean"): lambda: made_by(lambda: pack.clean("text", "a1b2c3")),
    Call("features.ingest.answer_schema", "_must_be_pattern"): list,  # never matched with anything
    Call("kernel.prompt", "without"): lambda: made_by(lambda: prompt.without("text", "a1b2c3")),
    Call("features.recall.query", "_told"): lambda: [question._told()],
    Call("features.recall.query", "first_person"): lambda: made_by(
        lambda: question.first_person("Did Ann Lee meet Bob?", ["Ann Lee", "Bob"])
    ),
    Call("kernel.text.bigrams", "_patterns"): lambda: list(scripts._patterns()),
    Call("kernel.text.secrets", "_compiled"): lambda: [secrets._compiled(n) for n in range(len(secrets._PREFIXED))],
    Call("features.ingest.segment", "_Reading._fenced"): lambda: made_by(
        lambda: list(segment.segments("````\ntext\n````\n"))
    ),
    Call("kernel.text.prompt_injection", "_compiled"): lambda: [
        suspect._compiled(n) for n in range(len(suspect._SIGNS))
    ],
    Call("kernel.text.language", "_is_most"): lambda: made_by(lambda: tongue.tongue("это просто текст")),
    Call("kernel.text.language", "tongue"): lambda: made_by(lambda: tongue.tongue("some plain text")),
    Call("features.curation.persona", "_named"): lambda: made_by(lambda: persona._named("text", "Ann Lee")),
    Call("kernel.storage.postgres.driver_errors", "_away"): lambda: [
        re.compile(words) for words, _ in foreign._BY_WORDS
    ],
    Call("surfaces.install.targets", "_hook"): lambda: made_by(lambda: targets._hook("Stop", "stop", {})),
}
"""The patterns that are not written out in the source, by where they are built."""


def every_pattern() -> list[Pattern]:
    found, _ = written()
    known = {(one.compiled.pattern, one.compiled.flags) for one in found}
    found += [one for one in kept() if (one.compiled.pattern, one.compiled.flags) not in known]
    for place, build in BUILT.items():
        method = "match" if place.function == "_Reading._fenced" else "search"
        found += [Pattern(".".join(place), one, frozenset((method,))) for one in build()]
    return [one for one in (*found, *of_dates()) if not one.place.startswith(OWN_FILES)]


def told(patterns: list[Pattern], *, size: int, pairs: bool = False) -> str:
    return "\n".join(map(str, offenders(patterns, PAIRS if pairs else SOLE, own=not pairs, screened_at=size)))


def test_no_module_calls_the_patterns_by_another_name() -> None:
    assert strange_imports() == []


def test_every_place_is_known_where_a_pattern_is_built_from_what_is_not_in_the_source() -> None:
    assert written()[1] == {*BUILT, Call("features.recall.dates", "_pattern")}


def test_every_pattern_takes_time_in_proportion_to_the_text() -> None:
    slow = told(every_pattern(), size=4_096)
    assert not slow, slow


@pytest.mark.full
def test_every_pattern_takes_time_in_proportion_to_a_large_text() -> None:
    slow = told(every_pattern(), size=16_384)
    assert not slow, slow


@pytest.mark.full
def test_every_pattern_takes_time_in_proportion_to_a_text_of_two_signs_in_turn() -> None:
    slow = told(every_pattern(), size=4_096, pairs=True)
    assert not slow, slow


@pytest.mark.parametrize(
    ("expression", "flags", "method"),
    [
        (r"^\s*[-*] \[([^\W\d_][\w -]{1,30})\] \S", re.M, "findall"),
        (r"(?<=[.!?])[\"')\]]*\s+|[ \t]*[\n\r]+\s*", 0, "finditer"),
        (r"<(?=\s*/?\s*recalled)", re.I, "sub"),
        (r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*[\r\n]*\Z", 0, "match"),
        (r"[\u0085\u2028\u2029]+(?=\S)", 0, "sub"),
        (r"(?:.*(?:__|[./:]))?memory_[a-z_]+", re.S, "fullmatch"),
        (r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)", 0, "sub"),
        (r"//[^\r\n]*+|/\*.*?\*/", re.S, "finditer"),
        (r"\bfirst(?:ly)?,.*\b(?:then|next)\b", re.I, "search"),
        (r"january\s*(?:,|of|in)?\s*(?:19|20)[0-9]{2}\b", re.I, "finditer"),
        (r"http://\S+:[0-9]+", 0, "search"),
        (r"\s+\Z", 0, "search"),
        (r"a*b?a*c", 0, "match"),
    ],
)
def test_a_pattern_that_takes_the_square_of_the_time_is_found(expression: str, flags: int, method: str) -> None:
    bad = Pattern("here", re.compile(expression, flags), frozenset((method,)))
    assert "here" in told([bad], size=4_096)


@pytest.mark.parametrize(
    ("expression", "flags", "method"),
    [(r"\s*\Z", 0, "match"), (r"[^\W_]+", 0, "findall"), (r"\[([^\]\n]{1,200})\]\([^)\s]{1,400}\)", 0, "sub")],
)
def test_a_pattern_that_is_linear_is_not_found(expression: str, flags: int, method: str) -> None:
    good = Pattern("here", re.compile(expression, flags), frozenset((method,)))
    assert told([good], size=4_096) == ""
