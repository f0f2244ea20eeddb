"""Terms of a text for comparison: normalized values, stemmed words, names."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from holdfast.kernel.storage.index_terms import stem_word, tokens
from holdfast.kernel.text.words import STOP, may_lack_blanks, strip_invisible, terms

Sort = Literal["word", "name", "value", "not", "filler"]

MAX_CHARACTERS = 65_536
"""Characters compared of a longer text."""


class Term(NamedTuple):
    """Meaning and sort of a term."""

    meaning: str
    sort: Sort


_SHAPE = (
    r"(?P<date>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})(?:[T ](?P<clock>\d{1,2}:\d{2}))?"
    r"|(?P<number>(?:(?<![\w).%])-)?\d+(?:[.,:]\d+)*)(?P<ordinal>(?:st|nd|rd|th)\b)?"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)(?P<sign>\+\+|#)?"
    r"|(?P<money>[%$€£¥])|(?P<sort>[<>≤≥≠]|!=)"
)

_MONEY = {"%": "percent", "$": "dollar", "€": "euro", "£": "pound", "¥": "yen"}

NEGATIONS = frozenset("not no never nor neither without cannot nothing none nobody nowhere hardly isnt dont".split())

FILLER = STOP | frozenset(
    """also always really currently actually basically simply please note noted that still already again very quite well
    rather indeed however therefore thus hence additionally furthermore moreover remember reminder fyi btw ok okay
    each every all one both either own same other another per via upon within between during since until more most
    get gets got make makes made has have let us now today""".split()
) - {"one"}

NUMBERS = {
    name: str(value)
    for value, name in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90", "hundred": "100"}

DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTH_NAMES = "january february march april may june july august september october november december".split()
_DAYS = {
    form: name
    for name in DAY_NAMES
    for form in (name, f"{name}s", name[:3])
    if form not in ("sun", "sat", "wed", "fri")
}
MONTHS = {form: number for number, name in enumerate(MONTH_NAMES, 1) for form in (name, name[:3])}
"""Numbers of the months by name and by abbreviation."""

UNITS = {
    unit: (base, factor)
    for base, factor, units in (
        ("second", 0.001, "ms msec millisecond milliseconds"),
        ("second", 1, "s sec secs second seconds"),
        ("second", 60, "min mins minute minutes"),
        ("second", 3600, "h hr hrs hour hours"),
        ("second", 86_400, "d day days"),
        ("second", 604_800, "week weeks"),
        ("byte", 1, "byte bytes"),
        ("byte", 1024, "kb kib kilobyte kilobytes"),
        ("byte", 1024**2, "mb mib megabyte megabytes"),
        ("byte", 1024**3, "gb gib gigabyte gigabytes"),
        ("byte", 1024**4, "tb tib terabyte terabytes"),
    )
    for unit in units.split()
}
"""Base unit and factor of each unit."""


@cache
def _stemmed_units() -> dict[str, tuple[str, float]]:
    return UNITS | dict(zip(tokens(" ".join(UNITS)), UNITS.values(), strict=True))


_SYNONYMS = """
    because/due run/ran write/wrote/written tell/told say/said pay/paid hold/held meet/met find/found leave/left
    use/using/utilise/utilize/employ big/large/huge fast/quick/quickly/rapid/rapidly
    begin/start/commence/launch/began/begun end/finish/complete fix/repair/mend/resolve delete/remove/erase
    buy/purchase/bought show/display need/require must/shall/should choose/select/pick/chose/chosen
    error/failure/fault bug/defect help/assist/aid change/modify/alter make/create/build/built
    keep/retain/store/kept send/transmit/sent like/enjoy/love prefer/favour/favor live/reside job/occupation
    colour/color document/doc/documentation/docs repository/repo configuration/config application/app
    database/db authentication/auth environment/env production/prod development/dev information/info
    meeting/meetup customer/client percent/percentage dollar/usd euro/eur"""
"""Groups of words with the same meaning."""


@cache
def _synonyms() -> dict[str, str]:
    """Return the stem that stands for a word with synonyms; computed on first use, as every process imports this."""
    groups = [group.split("/") for group in _SYNONYMS.split()]
    stems = tokens(" ".join(group[0] for group in groups))
    return {word: stem for group, stem in zip(groups, stems, strict=True) for word in group}


def read_terms(text: str, *, measured: bool = True) -> list[Term]:
    """Return the terms of a text, in order; `measured` joins numbers with their units."""
    found = _parse_terms_cached(text) if len(text) <= MAX_CACHED_CHARS else _parse_terms(text)
    return _join_units(found) if measured else list(found)


MAX_CACHED_CHARS = 2000
"""Texts up to this length are cached: they are compared with many others."""


def _parse_terms(text: str) -> tuple[Term, ...]:
    plain = unicodedata.normalize("NFKC", strip_invisible(text[:MAX_CHARACTERS]))
    if plain.isupper():
        plain = plain.lower()
    found: list[Term] = []
    for shape in re.finditer(_SHAPE, plain):
        if shape.lastgroup == "word" and (word := shape["word"]).isascii() and word.isalpha() and word.islower():
            found.append(_word_term(word, named=False))
        else:
            found += _to_terms(shape, plain)
    return tuple(found)


_parse_terms_cached = lru_cache(maxsize=512)(_parse_terms)


def _to_terms(shape: re.Match[str], text: str) -> list[Term]:
    match shape.lastgroup:
        case "date" | "clock":
            return [_date(shape)] + ([Term(shape["clock"].zfill(5), "value")] if shape["clock"] else [])
        case "number" | "ordinal":
            return [Term(_number(shape["number"]), "value")]
        case "sort":
            return [Term(shape["sort"], "value")]
        case "money":
            return [Term(_MONEY[shape["money"]], "word")]
    return _words(shape, text)


def _date(shape: re.Match[str]) -> Term:
    year, month, day = re.split(r"[-/.]", shape["date"])
    return Term(f"{year}-{int(month):02}-{int(day):02}", "value")


def _number(digits: str) -> str:
    """Normalize a number: 8,080 is 8080, 5.0 is 5; 3.10 stays, because it may be a version."""
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", digits):
        digits = digits.replace(",", "")
    if re.fullmatch(r"\d{1,2}:\d{2}", digits):
        return digits.zfill(5)
    digits = re.sub(r"\.0$", "", digits)
    return digits.lstrip("0") or "0" if digits.isdecimal() else digits


def _words(shape: re.Match[str], text: str) -> list[Term]:
    word = shape["word"]
    if may_lack_blanks(word):
        return [Term(pair, "word") for pair in terms(word)]
    low = word.replace("’", "'").casefold()
    if low.endswith("n't"):
        return [Term("¬", "not")]
    low = low.removesuffix("'s").partition("'")[0] if "'" in low else low
    if shape["sign"]:
        return [Term(low + shape["sign"], "name")]
    return [_word_term(low, named=_is_name(word, shape.start(), text))]


def _is_name(word: str, at: int, text: str) -> bool:
    """Whether a word is capitalized inside a sentence, or all upper case."""
    if not word[0].isupper():
        return False
    before = text[max(0, at - 8) : at].rstrip(" \t\"'“‘(*_`#>-")[-1:] if at else ""
    return before not in ("", ".", "!", "?", ":", ";", "\n", "。", "…", "•") or (len(word) > 1 and word.isupper())


@lru_cache(maxsize=50_000)
def _word_term(low: str, *, named: bool) -> Term:
    low = _strip_accents(low)
    if named and len(low) == 1 and low != "i":
        return Term(low, "name")
    if low in NEGATIONS:
        return Term("¬", "not")
    if low in NUMBERS:
        return Term(NUMBERS[low], "value")
    if low in _DAYS:
        return Term(_DAYS[low], "value")
    if low in MONTHS and (named or len(low) > 3) and low not in ("may", "mar"):
        return Term(f"month {MONTHS[low]}", "value")
    if low in FILLER:
        return Term(low, "filler")
    if low in _synonyms():
        return Term(_synonyms()[low], "word")
    stem = stem_word(low)
    return Term(_synonyms().get(stem, stem), "name" if named else "word")


def _strip_accents(word: str) -> str:
    """Remove accents."""
    if word.isascii():
        return word
    return unicodedata.normalize(
        "NFC", "".join(sign for sign in unicodedata.normalize("NFD", word) if not "\u0300" <= sign <= "\u036f")
    )


def _join_units(found: Iterable[Term]) -> list[Term]:
    """Join numbers with their units to one value in a base unit: 90 seconds equal 1.5 minutes."""
    made: list[Term] = []
    for term in found:
        last = made[-1] if made else None
        unit = _stemmed_units().get(term.meaning) if term.sort in ("word", "name") else None
        if unit and last and last.sort == "value" and re.fullmatch(r"\d+(\.\d+)?", last.meaning):
            made[-1] = Term(f"{float(last.meaning) * unit[1]:g} {unit[0]}", "value")
        else:
            made.append(term)
    return made
