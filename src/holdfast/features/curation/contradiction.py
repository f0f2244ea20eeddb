"""Find contradictions between two texts by rules: negation, antonyms, different numbers, dates or values."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.kernel.text.bigrams import terms
from holdfast.kernel.text.sentences import sentences
from holdfast.kernel.text.words import STOP

Sort = Literal["negation", "opposite", "number", "date", "model"]
SAME_SUBJECT = 0.6
"""Minimum share of the shorter sentence's words in both sentences for the same subject."""
LEAST_SHARED = 2
MOST_SENTENCES = 200

_NOT = frozenset(
    """not no never none neither nor without cannot cant dont doesnt didnt isnt arent wasnt werent wont wouldnt shouldnt
    hasnt havent hadnt couldnt nobody nothing nowhere nicht kein keine keinen nie niemals
    pas jamais sans nunca sin""".split()
)
_ALSO_NOT = frozenset("longer anymore any yet even ever do does did is are was were be".split())
"""Words that appear or disappear with a negation."""
_PAIRS = """enabled/disabled enable/disable on/off true/false always/never before/after allow/deny allowed/forbidden
    required/optional increase/decrease increased/decreased open/closed up/down success/failure succeeded/failed
    accept/reject accepted/rejected add/remove added/removed public/private more/less higher/lower faster/slower
    safe/unsafe valid/invalid supported/unsupported supports/lacks online/offline active/inactive sync/async
    synchronous/asynchronous mutable/immutable stable/unstable likes/dislikes loves/hates won/lost alive/dead
    married/single hot/cold early/late left/right minimum/maximum approve/veto passed/failed""".split()
_OPPOSITE = {word: other for pair in _PAIRS for word, other in (pair.split("/"), reversed(pair.split("/")))}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = {
    name: number
    for number, names in enumerate(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep october/oct "
        "november/nov december/dec".split(),
        1,
    )
    for name in names.split("/")
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})\b|\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<month>{_MONTH})\b"
    rf"(?:,?\s+(?P<year>\d{{4}})\b)?|\b(?P<month2>{_MONTH})\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b"
    rf"(?:,?\s+(?P<year2>\d{{4}})\b)?|\b(?P<weekday>{'|'.join(_DAYS)})s?\b|\b(?P<hour>\d{{1,2}}:\d{{2}})\b",
    re.I,
)
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])(?P<number>[-+]?\d[\d,']*(?:\.\d+)?)\s?(?P<unit>%|[^\W\d_]+\b)?")
_WORDED = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_SPELLED = re.compile(rf"\b(?:{'|'.join(_WORDED)})\b", re.I)
_UNITS = {
    unit: (base, factor)
    for base, many in {
        "second": "ms:.001 millisecond:.001 milliseconds:.001 s:1 sec:1 secs:1 second:1 seconds:1 min:60 minute:60 "
        "minutes:60 h:3600 hour:3600 hours:3600 day:86400 days:86400 week:604800 weeks:604800",
        "byte": "b:1 byte:1 bytes:1 kb:1e3 mb:1e6 gb:1e9 tb:1e12 kib:1024 mib:1048576 gib:1073741824",
        "metre": "mm:.001 cm:.01 m:1 metre:1 metres:1 meters:1 km:1e3",
        "gram": "mg:.001 g:1 kg:1e3",
    }.items()
    for unit, factor in (one.split(":") for one in many.split())
}


class Evidence(NamedTuple):
    """Two contradicting sentences, and how they differ."""

    sort: Sort
    a: str
    b: str
    difference: str


class Value(NamedTuple):
    """A number or date in a sentence, and what it measures."""

    sort: Literal["number", "date"]
    of: str
    means: str
    said: str


class _Sentence(NamedTuple):
    text: str
    words: frozenset[str]
    """Content words, without values, negations and stop words."""
    denied: bool
    values: tuple[Value, ...]


def contradictions(a: str, b: str, *, subject: str = "") -> list[Evidence]:
    """Find all pairs of sentences with the same subject that cannot both be true.

    `subject` is the known common subject of the texts, such as a shared title.
    """
    about = _words(subject)
    ones, others = _read(a), _read(b)
    return [found for one in ones for other in others if (found := _against(one, other, about)) is not None]


def _read(text: str) -> list[_Sentence]:
    return [_sentence(text[start:end]) for start, end in sentences(text)[:MOST_SENTENCES]]


def _sentence(text: str) -> _Sentence:
    values = tuple(_values(text))
    plain = _SPELLED.sub(" ", _NUMBER.sub(_unit, _DATE.sub(" ", text)))
    bare = re.sub(r"(?i)n['’]t\b", " not", plain).replace("'", "").replace("’", "")
    words = terms(bare)
    return _Sentence(text, _words(plain), sum(word in _NOT for word in words) % 2 == 1, values)


def _unit(number: re.Match[str]) -> str:
    """Replace a number by its unit, but drop measures, which may be given in other units."""
    unit = number["unit"] or ""
    return " " if unit.lower() in _UNITS else f" {unit} "


def _words(text: str) -> frozenset[str]:
    return frozenset(
        stem(word) for word in terms(re.sub(r"(?i)n['’]t\b", " not", text)) if word not in STOP | _NOT | _ALSO_NOT
    )


def stem(word: str) -> str:
    """Strip the most common endings, so that "supports" and "support" match."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and word.isascii():
            return word.removesuffix(ending) + ("y" if ending in ("ied", "ies") else "")
    return word.removesuffix("e") if len(word) > 4 and word.isascii() else word


def _against(one: _Sentence, other: _Sentence, about: frozenset[str]) -> Evidence | None:
    if one.text == other.text or not (about or one.words & other.words):
        return None
    contrary = _contrary(one.words, other.words)
    opposite = frozenset(map(stem, contrary))
    left, right = one.words - about - opposite, other.words - about - opposite
    if not _same_subject(left, right, about):
        return None
    if one.denied != other.denied:
        return Evidence("negation", one.text, other.text, "one negates the other") if not opposite else None
    if contrary:
        return Evidence("opposite", one.text, other.text, " vs ".join(contrary))
    return _other_value(one, other)


def _same_subject(left: frozenset[str], right: frozenset[str], about: frozenset[str]) -> bool:
    """Whether two sentences have the same subject, apart from the known common one."""
    shared, least = len(left & right), min(len(left), len(right))
    if left == right:
        return bool(left or about)
    return bool(least) and shared / least >= SAME_SUBJECT and (shared >= LEAST_SHARED or bool(about))


def _contrary(one: frozenset[str], other: frozenset[str]) -> tuple[str, ...]:
    """Find a pair of antonyms, one in each sentence, unless a sentence has both."""
    for word, contrary in _OPPOSITE.items():
        here, there = stem(word), stem(contrary)
        if here in one and there in other and here not in other and there not in one:
            return word, contrary
    return ()


def _other_value(one: _Sentence, other: _Sentence) -> Evidence | None:
    """Find the first value of the same thing that differs."""
    theirs: dict[tuple[str, str], set[str]] = {}
    for value in other.values:
        theirs.setdefault((value.sort, value.of), set()).add(value.means)
    for value in one.values:
        against = theirs.get((value.sort, value.of))
        mine = {again.means for again in one.values if (again.sort, again.of) == (value.sort, value.of)}
        if against and not mine & against:
            other_text = next(v.said for v in other.values if (v.sort, v.of) == (value.sort, value.of))
            return Evidence(value.sort, one.text, other.text, f"{value.said} vs {other_text}")
    return None


def _values(text: str) -> Iterator[Value]:
    for found in _DATE.finditer(text):
        yield from _dated(found)
    rest = _DATE.sub(lambda found: " " * len(found[0]), text)
    for found in _NUMBER.finditer(rest):
        yield _number(found["number"], found["unit"] or "", rest, found.start(), found[0])
    for found in _SPELLED.finditer(rest):
        after = re.match(r"\s+([^\W\d_]+)", rest[found.end() :])
        yield _number(str(_WORDED[found[0].lower()]), after[1] if after else "", rest, found.start(), found[0])


def _dated(found: re.Match[str]) -> Iterator[Value]:
    if found["weekday"]:
        yield Value("date", "weekday", found["weekday"].lower(), found[0])
    elif found["hour"]:
        yield Value("date", "time", found["hour"].zfill(5), found[0])
    elif found["iso"]:
        yield Value("date", "day", found["iso"][5:], found[0])
        yield Value("date", "year", found["iso"][:4], found[0])
    else:
        month, day = found["month"] or found["month2"], found["day"] or found["day2"]
        yield Value("date", "day", f"{_MONTHS[month.lower()]:02d}-{int(day):02d}", found[0])
        if year := found["year"] or found["year2"]:
            yield Value("date", "year", year, found[0])


def _number(number: str, unit: str, text: str, start: int, said: str) -> Value:
    """Parse a number with its unit, else with the word before it; units are converted to a base unit."""
    value = float(re.sub("[,']", "", number))
    base, factor = _UNITS.get(unit.lower(), (stem(unit.lower()), "1"))
    if not base or base in STOP:
        before = [word for word in terms(text[:start]) if word not in STOP]
        base, said = stem(before[-1]) if before else "", number
    return Value("number", base, f"{value * float(factor):.9g}", said.strip())
