"""Every regular expression of the package takes linear time.

Whoever may send a text could stop a server otherwise. It is the one test that measures, and it measures the time of
the processor, as a ratio of what a large and a small text take.
"""

import inspect
import re
from collections.abc import Callable

import pytest

from holdfast.features.context_blocks import fence_text
from holdfast.features.curation import personas
from holdfast.features.ingest import split_document
from holdfast.features.recall import dates, query
from holdfast.kernel import prompt
from holdfast.kernel.storage.postgres import driver_errors
from holdfast.kernel.text import content_scan, language, words
from holdfast.surfaces.install import targets
from package_regexes import (
    PAIRS,
    SOLE,
    Call,
    Pattern,
    find_module_patterns,
    find_written_patterns,
    offenders,
    strange_imports,
)

OWN_FILES = ("holdfast.kernel.storage.migrations:", "holdfast.kernel.storage.statements:")
"""Modules whose patterns are applied only to our SQL files."""


def made_by(run: Callable[[], object]) -> list[re.Pattern[str]]:
    """Return the patterns built while a function runs."""
    found: list[re.Pattern[str]] = []
    build = re._compile  # type: ignore[attr-defined]

    def record_pattern(expression: str, flags: int) -> re.Pattern[str]:
        found.append(built := build(expression, flags))
        return built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re, "_compile", record_pattern)
        run()
    assert found
    return found


def of_dates() -> list[Pattern]:
    """Return the module's texts that are patterns, directly or in a list."""
    named = re.findall(r"\b_pattern\((_[A-Z_]+)\)\.(\w+)", inspect.getsource(dates))
    texts = [(getattr(dates, name), method) for name, method in named]
    texts += [(text, "finditer") for text in (*dates._DATE_PATTERNS, *(text for text, _ in dates._RELATIVE_PATTERNS))]
    return [Pattern("features.recall.dates", dates._pattern(text), frozenset((method,))) for text, method in texts]


BUILT: dict[Call, Callable[[], list[re.Pattern[str]]]] = {
    Call("features.ingest.helpers", "_build_signal"): list,  # kept by the module
    Call("features.context_blocks.fence_text", "clean_text"): lambda: made_by(
        lambda: fence_text.clean_text("text", "a1b2c3")
    ),
    Call("features.ingest.pipeline", "_check_pattern"): list,  # never matched with anything
    Call("kernel.prompt", "remove_code"): lambda: made_by(lambda: prompt.remove_code("text", "a1b2c3")),
    Call("features.recall.query", "_prior_answer_pattern"): lambda: [query._prior_answer_pattern()],
    Call("features.recall.query", "rewrite_in_first_person"): lambda: made_by(
        lambda: query.rewrite_in_first_person("Did Ann Lee meet Bob?", ["Ann Lee", "Bob"])
    ),
    Call("kernel.text.words", "_patterns"): lambda: list(words._patterns()),
    Call("kernel.text.content_scan", "_compile_prefixed"): lambda: [
        content_scan._compile_prefixed(n) for n in range(len(content_scan._PREFIXED))
    ],
    Call("features.ingest.split_document", "_Parser._read_fenced"): lambda: made_by(
        lambda: list(split_document.split_segments("````\ntext\n````\n"))
    ),
    Call("kernel.text.content_scan", "_compile_sign"): lambda: [
        content_scan._compile_sign(n) for n in range(len(content_scan._SIGNS))
    ],
    Call("kernel.text.language", "_is_most"): lambda: made_by(lambda: language.detect_language("это просто текст")),
    Call("kernel.text.language", "detect_language"): lambda: made_by(
        lambda: language.detect_language("some plain text")
    ),
    Call("features.curation.personas", "_contains_name"): lambda: made_by(
        lambda: personas._contains_name("text", "Ann Lee")
    ),
    Call("kernel.storage.postgres.driver_errors", "_connection_error"): lambda: [
        re.compile(words) for words, _ in driver_errors._BY_MESSAGE
    ],
    Call("surfaces.install.targets", "_hook_entry"): lambda: made_by(lambda: targets._hook_entry("Stop", "stop", {})),
}
"""Patterns built at run time, by the function that builds them."""


def every_pattern() -> list[Pattern]:
    found, _ = find_written_patterns()
    known = {(one.compiled.pattern, one.compiled.flags) for one in found}
    found += [one for one in find_module_patterns() if (one.compiled.pattern, one.compiled.flags) not in known]
    for place, build in BUILT.items():
        method = "match" if place.function == "_Parser._read_fenced" else "search"
        found += [Pattern(".".join(place), one, frozenset((method,))) for one in build()]
    return [one for one in (*found, *of_dates()) if not one.place.startswith(OWN_FILES)]


def list_offenders(patterns: list[Pattern], *, size: int, pairs: bool = False) -> str:
    return "\n".join(map(str, offenders(patterns, PAIRS if pairs else SOLE, own=not pairs, screened_at=size)))


def test_no_module_imports_re_under_another_name() -> None:
    assert strange_imports() == []


def test_every_dynamically_built_pattern_is_listed() -> None:
    assert find_written_patterns()[1] == {*BUILT, Call("features.recall.dates", "_pattern")}


def test_every_pattern_takes_linear_time() -> None:
    slow = list_offenders(every_pattern(), size=4_096)
    assert not slow, slow


@pytest.mark.full
def test_every_pattern_takes_linear_time_on_a_large_text() -> None:
    slow = list_offenders(every_pattern(), size=16_384)
    assert not slow, slow


@pytest.mark.full
def test_every_pattern_takes_linear_time_on_alternating_characters() -> None:
    slow = list_offenders(every_pattern(), size=4_096, pairs=True)
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
def test_a_quadratic_pattern_is_detected(expression: str, flags: int, method: str) -> None:
    bad = Pattern("here", re.compile(expression, flags), frozenset((method,)))
    assert "here" in list_offenders([bad], size=4_096)


@pytest.mark.parametrize(
    ("expression", "flags", "method"),
    [(r"\s*\Z", 0, "match"), (r"[^\W_]+", 0, "findall"), (r"\[([^\]\n]{1,200})\]\([^)\s]{1,400}\)", 0, "sub")],
)
def test_a_linear_pattern_is_not_reported(expression: str, flags: int, method: str) -> None:
    good = Pattern("here", re.compile(expression, flags), frozenset((method,)))
    assert list_offenders([good], size=4_096) == ""
