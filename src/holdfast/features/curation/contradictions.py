"""Detect contradictions between memories: negation, antonyms, numbers, dates or values, and optionally a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import Struct

from holdfast.features.llm.assist import (
    BY_RULES,
    MethodInfo,
    MethodUsed,
    ask_or_fallback,
    method_fields,
    rejected_answer,
)
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.fields import Named
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.index_terms import stem_word
from holdfast.kernel.text.sentences import split_sentences
from holdfast.kernel.text.similarity import OPPOSITES, Similarity, compare
from holdfast.kernel.text.terms import DAY_NAMES, MONTHS, NEGATIONS, NUMBERS, UNITS
from holdfast.kernel.text.words import STOP, fold_name, terms

ContradictionKind = Literal["negation", "opposite", "number", "date", "model"]
MIN_SUBJECT_OVERLAP = 0.6
"""Minimum share of the shorter sentence's words in both sentences for the same subject."""
MIN_SHARED_WORDS = 2
MAX_SENTENCES = 200

_NEGATIONS = NEGATIONS | frozenset(
    """cant doesnt didnt arent wasnt werent wont wouldnt shouldnt hasnt havent hadnt couldnt
    nicht kein keine keinen nie niemals pas jamais sans nunca sin""".split()
)
_NEGATION_FILLERS = frozenset("longer anymore any yet even ever do does did is are was were be".split())
"""Words that appear or disappear with a negation."""
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})\b|\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<month>{_MONTH})\b"
    rf"(?:,?\s+(?P<year>\d{{4}})\b)?|\b(?P<month2>{_MONTH})\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b"
    rf"(?:,?\s+(?P<year2>\d{{4}})\b)?|\b(?P<weekday>{'|'.join(DAY_NAMES)})s?\b|\b(?P<hour>\d{{1,2}}:\d{{2}})\b",
    re.I,
)
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])(?P<number>[-+]?\d[\d,']*(?:\.\d+)?)\s?(?P<unit>%|[^\W\d_]+\b)?")
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBERS)})\b", re.I)
_UNITS = UNITS | {
    unit: (base, float(factor))
    for base, many in {
        "metre": "mm:.001 cm:.01 m:1 metre:1 metres:1 meters:1 km:1e3",
        "gram": "mg:.001 g:1 kg:1e3",
    }.items()
    for unit, factor in (one.split(":") for one in many.split())
}


class ContradictionEvidence(Struct, frozen=True):
    """Two contradicting sentences, and how they differ."""

    sort: Annotated[ContradictionKind, Named("kind")]
    a: str
    """The contradicting sentence of the first memory."""
    b: str
    difference: str


class Value(NamedTuple):
    """A number or date in a sentence, and what it measures."""

    sort: Literal["number", "date"]
    subject: str
    normalized: str
    text: str


class _Sentence(NamedTuple):
    text: str
    words: frozenset[str]
    """Content words, without values, negations and stop words."""
    is_negated: bool
    values: tuple[Value, ...]


def find_contradictions(a: str, b: str, *, subject: str = "") -> list[ContradictionEvidence]:
    """Find all pairs of sentences with the same subject that cannot both be true.

    `subject` is the known common subject of the texts, such as a shared title.
    """
    about = _content_stems(subject)
    ones, others = _parse_sentences(a), _parse_sentences(b)
    return [found for one in ones for other in others if (found := _compare_sentences(one, other, about)) is not None]


def _parse_sentences(text: str) -> list[_Sentence]:
    return [_parse_sentence(text[start:end]) for start, end in split_sentences(text)[:MAX_SENTENCES]]


def _parse_sentence(text: str) -> _Sentence:
    values = tuple(_parse_values(text))
    plain = _NUMBER_WORD.sub(" ", _NUMBER.sub(_replace_number, _DATE.sub(" ", text)))
    bare = re.sub(r"(?i)n['’]t\b", " not", plain).replace("'", "").replace("’", "")
    words = terms(bare)
    return _Sentence(text, _content_stems(plain), sum(word in _NEGATIONS for word in words) % 2 == 1, values)


def _replace_number(number: re.Match[str]) -> str:
    """Replace a number by its unit, but drop measures, which may be given in other units."""
    unit = number["unit"] or ""
    return " " if unit.lower() in _UNITS else f" {unit} "


def _content_stems(text: str) -> frozenset[str]:
    return frozenset(
        stem_word(word)
        for word in terms(re.sub(r"(?i)n['’]t\b", " not", text))
        if word not in STOP | _NEGATIONS | _NEGATION_FILLERS
    )


def _compare_sentences(one: _Sentence, other: _Sentence, about: frozenset[str]) -> ContradictionEvidence | None:
    if one.text == other.text or not (about or one.words & other.words):
        return None
    contrary = _find_antonyms(one.words, other.words)
    opposite = frozenset(map(stem_word, contrary))
    left, right = one.words - about - opposite, other.words - about - opposite
    if not _is_same_subject(left, right, about):
        return None
    if one.is_negated != other.is_negated:
        return (
            ContradictionEvidence("negation", one.text, other.text, "one negates the other") if not opposite else None
        )
    if contrary:
        return ContradictionEvidence("opposite", one.text, other.text, " vs ".join(contrary))
    return _find_different_value(one, other)


def _is_same_subject(left: frozenset[str], right: frozenset[str], about: frozenset[str]) -> bool:
    """Whether two sentences have the same subject, apart from the known common one."""
    shared, least = len(left & right), min(len(left), len(right))
    if left == right:
        return bool(left or about)
    return bool(least) and shared / least >= MIN_SUBJECT_OVERLAP and (shared >= MIN_SHARED_WORDS or bool(about))


def _find_antonyms(one: frozenset[str], other: frozenset[str]) -> tuple[str, ...]:
    """Find a pair of antonyms, one in each sentence, unless a sentence has both."""
    for pair in OPPOSITES.split():
        word, contrary = pair.split("/")
        here, there = stem_word(word), stem_word(contrary)
        if {here, there} & one == {here} and {here, there} & other == {there}:
            return word, contrary
        if {here, there} & one == {there} and {here, there} & other == {here}:
            return contrary, word
    return ()


def _find_different_value(one: _Sentence, other: _Sentence) -> ContradictionEvidence | None:
    """Find the first value of the same thing that differs."""
    theirs: dict[tuple[str, str], set[str]] = {}
    for value in other.values:
        theirs.setdefault((value.sort, value.subject), set()).add(value.normalized)
    for value in one.values:
        against = theirs.get((value.sort, value.subject))
        mine = {again.normalized for again in one.values if (again.sort, again.subject) == (value.sort, value.subject)}
        if against and not mine & against:
            other_text = next(v.text for v in other.values if (v.sort, v.subject) == (value.sort, value.subject))
            return ContradictionEvidence(value.sort, one.text, other.text, f"{value.text} vs {other_text}")
    return None


def _parse_values(text: str) -> Iterator[Value]:
    for found in _DATE.finditer(text):
        yield from _parse_date(found)
    rest = _DATE.sub(lambda found: " " * len(found[0]), text)
    for found in _NUMBER.finditer(rest):
        yield _parse_number(found["number"], found["unit"] or "", rest, found.start(), found[0])
    for found in _NUMBER_WORD.finditer(rest):
        after = re.match(r"\s+([^\W\d_]+)", rest[found.end() :])
        yield _parse_number(NUMBERS[found[0].lower()], after[1] if after else "", rest, found.start(), found[0])


def _parse_date(found: re.Match[str]) -> Iterator[Value]:
    if found["weekday"]:
        yield Value("date", "weekday", found["weekday"].lower(), found[0])
    elif found["hour"]:
        yield Value("date", "time", found["hour"].zfill(5), found[0])
    elif found["iso"]:
        yield Value("date", "day", found["iso"][5:], found[0])
        yield Value("date", "year", found["iso"][:4], found[0])
    else:
        month, day = found["month"] or found["month2"], found["day"] or found["day2"]
        yield Value("date", "day", f"{MONTHS[month.lower()]:02d}-{int(day):02d}", found[0])
        if year := found["year"] or found["year2"]:
            yield Value("date", "year", year, found[0])


def _parse_number(number: str, unit: str, text: str, start: int, matched: str) -> Value:
    """Parse a number with its unit, else with the word before it; units are converted to a base unit."""
    value = float(re.sub("[,']", "", number))
    base, factor = _UNITS.get(unit.lower(), (stem_word(unit.lower()), 1))
    if not unit or unit.lower() in STOP:
        before = [word for word in terms(text[:start]) if word not in STOP]
        base, matched = stem_word(before[-1]) if before else "", number
    return Value("number", base, f"{value * factor:.9g}", matched.strip())


MAX_CHARACTERS = 16_384
MAX_EVIDENCE = 20


class MemoryTitle(Struct, frozen=True):
    id: str
    title: str


class ContradictionResult(MethodInfo, frozen=True, kw_only=True):
    contradicts: bool
    memory_a: MemoryTitle
    memory_b: MemoryTitle
    evidence: list[ContradictionEvidence]
    relation: str
    """Relation of the whole texts: same, near, update, conflict or other."""
    similarity: float


class Verdict(Struct, frozen=True):
    """Whether the texts contradict each other, and the contradicting sentences, verbatim."""

    contradicts: bool
    sentence_a: str = ""
    sentence_b: str = ""
    difference: str = ""


def detect_contradictions(ctx: Context, id_a: str, id_b: str) -> ContradictionResult:
    """Check whether two memories contradict each other, and where."""
    with ctx.reading() as session:
        a, b = (memories.resolve(session, ctx.caller, id, ctx.now()) for id in (id_a, id_b))
    if a.id == b.id:
        raise Invalid("id_b must be a different memory than id_a", fields=["id_b"])
    return compare_memories(ctx, a, b)


def compare_memories(ctx: Context, a: Memory, b: Memory) -> ContradictionResult:
    """Compare two memories by rules, and by a model if one is set. Never call it inside a transaction."""
    evidence, likeness = compare_by_rules(a, b)
    how = BY_RULES
    if ctx.model is not None:
        evidence, how = _compare_by_model(ctx, a, b, evidence)
    return ContradictionResult(
        contradicts=bool(evidence),
        memory_a=MemoryTitle(a.id, a.title),
        memory_b=MemoryTitle(b.id, b.title),
        evidence=evidence,
        relation=likeness.relation,
        similarity=round(likeness.score, 6),
        **method_fields(how),
    )


def compare_by_rules(a: Memory, b: Memory) -> tuple[list[ContradictionEvidence], Similarity]:
    subject = a.title if fold_name(a.title) == fold_name(b.title) else ""
    found = find_contradictions(a.content[:MAX_CHARACTERS], b.content[:MAX_CHARACTERS], subject=subject)
    return found[:MAX_EVIDENCE], compare(a.content, b.content)


def _compare_by_model(
    ctx: Context, a: Memory, b: Memory, found: list[ContradictionEvidence]
) -> tuple[list[ContradictionEvidence], MethodUsed]:
    """Ask a model. A verdict with quotes that are not in the texts is ignored."""
    task = Task(
        "contradiction",
        "Decide whether the texts A and B contradict each other: whether they cannot both be true of the same thing at "
        "the same time. If so, quote the sentence of each, verbatim, and state the difference in a few words. Texts "
        "about different things do not contradict each other.",
        Verdict,
        1024,
    )
    hints = "\n".join(f"{one.sort}: {one.difference}" for one in found) or "none"
    material = [
        Material("A", f"{a.title}\n{a.content[:MAX_CHARACTERS]}"),
        Material("B", f"{b.title}\n{b.content[:MAX_CHARACTERS]}"),
        Material("differences by rules", hints),
    ]
    answer, how = ask_or_fallback(ctx, task, material)
    if answer is None:
        return found, how
    if not answer.contradicts:
        return [], how
    if not _is_quote(answer.sentence_a, a) or not _is_quote(answer.sentence_b, b):
        return found, rejected_answer("the model quoted text that is not in the memories")
    return [ContradictionEvidence("model", answer.sentence_a, answer.sentence_b, answer.difference[:512])], how


def _is_quote(sentence: str, memory: Memory) -> bool:
    quote = " ".join(sentence.split()).casefold()
    return bool(quote) and quote in " ".join(f"{memory.title} {memory.content}".split()).casefold()
