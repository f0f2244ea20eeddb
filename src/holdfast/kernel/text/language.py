"""Language detection by common words and scripts; None if uncertain."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

DEFAULT_LANGUAGE = "en"
CODE_LENGTH = 2
"""Length of a language code; scripts shared by several languages have longer names."""

_COMMON = {
    "en": "the and of to is are was were have has had will would can could should that this these those with "
    "from for not it its he she they we you i my your our what which who when where why how do does did "
    "please there here an a in on at by or if but be been am as so no me us them his her about into more "
    "than then also war man die hat bin gift copy make get let need want thanks hello",
    "de": "der die das den dem des ein eine einen einem und oder aber nicht ist sind war waren wird werden "
    "wurde hat haben ich du er sie wir ihr mich mir dich uns mein dein kein keine mit von für auf aus bei "
    "nach über unter wie wo wann warum wer was bitte danke auch noch schon nur sehr wenn weil dass kann "
    "können muss brauchen brauche möchte hallo hilfe im zum zur am als so man bin",
    "fr": "le la les un une des du de et ou mais pas est sont était être avoir ai as avons avez ont je tu il "
    "elle nous vous ils elles mon ma mes ton votre vos notre avec pour dans sur sous par que qui quoi où "
    "quand comment pourquoi ce cette ces bonjour merci très aussi plus ne se au aux me",
    "es": "el la los las un una unos de del y o pero no es son era ser está están estoy hay yo tú él ella "
    "nosotros ustedes mi tu su con para por en que qué quién dónde cuándo cómo porque este esta estos "
    "hola gracias muy también más necesito quiero puede se me lo al como",
    "pt": "o a os as um uma de do da dos das e ou mas não é são era ser está estão estou há eu tu ele ela nós "
    "você vocês meu minha seu com para por em no na que quem onde quando como porque este esta isso olá "
    "obrigado obrigada muito também mais preciso quero pode se me ao",
    "it": "il lo la i gli le un uno una di del della dei e o ma non è sono era essere ho hai ha abbiamo hanno "
    "io tu lui lei noi voi mio tuo suo con per in da che chi dove quando come perché questo questa ciao "
    "grazie molto anche più bisogno vorrei si mi al alla nel",
    "nl": "de het een en of maar niet is zijn was waren wordt worden heeft hebben ik jij je hij zij wij jullie "
    "mijn jouw ons met van voor op uit bij naar over onder hoe waar wanneer waarom wie wat alstublieft "
    "bedankt ook nog al heel als omdat dat kan kunnen moet nodig wil hallo te in",
    "sv": "en ett och eller men inte är var har hade jag du han hon vi ni de mig dig min din med av för på från "
    "till hur vad vem när varför det den detta som att tack hej också mycket kan ska vill behöver i",
    "da": "en et og eller men ikke er var har havde jeg du han hun vi de mig dig min din med af for på fra til "
    "hvordan hvad hvem hvornår hvorfor det den dette som at tak hej også meget kan skal vil i",
    "pl": "i oraz lub ale nie jest są był była być mam masz ma ja ty on ona my wy mój twój z ze do na w we od "
    "po przez jak co kto gdzie kiedy dlaczego ten ta to te się że proszę dziękuję cześć bardzo też czy mi",
    "tr": "ve veya ama değil bir bu şu o ben sen biz siz onlar benim senin ile için gibi çok daha ne kim nerede "
    "nasıl niçin neden var yok evet hayır lütfen teşekkürler merhaba mi mı da de",
}
"""Common words of each language; words shared by several languages are listed in each."""
_SIGNS = {
    "ß": "de",
    "ñ": "es",
    "¿": "es",
    "¡": "es",
    "ã": "pt",
    "õ": "pt",
    "ł": "pl",
    "ż": "pl",
    "ś": "pl",
    "ğ": "tr",
    "ı": "tr",
}
_SCRIPTS = (
    ("ja", "\u3040-\u30ff"),
    ("ko", "\u1100-\u11ff\uac00-\ud7af"),
    ("zh", "\u4e00-\u9fff"),
    ("uk", "іїєґ"),
    ("ru", "ыэъё"),
    ("cyrillic", "\u0400-\u04ff"),
    ("el", "\u0370-\u03ff"),
    ("he", "\u0590-\u05ff"),
    ("fa", "پچژگ"),
    ("ar", "\u0600-\u06ff"),
    ("th", "\u0e00-\u0e7f"),
    ("hi", "\u0900-\u097f"),
)
"""More specific scripts first: kana make Chinese characters Japanese."""
_WORD = re.compile(r"[^\W\d_]+")
_IN_A_NAME = re.compile(r"\b(?:El|La|Las|Los|Le|Les|De|Da|Di|Del)(?= [^\W\d_a-zß-ÿ])")
"""A capitalized article before a capitalized word is part of a name, and says nothing about the language."""
MIN_COMMON_WORDS = 2.0
"""Common words needed to detect a language; a short text needs one in three."""
SHORT_TEXT_WORDS = 4
MIN_LEAD = 1.5
"""Required ratio to the second-best language."""


def detect_language(text: str) -> str | None:
    """Detect the language code of a text; None if uncertain."""
    words = _WORD.findall(text.lower())
    script = next((code for code, among in _SCRIPTS if re.search(f"[{among}]", "".join(words))), None)
    if script is not None and _is_most(script, "".join(words)):
        return script if len(script) == CODE_LENGTH else None
    return _by_words(text.lower(), words, _WORD.findall(_IN_A_NAME.sub("", text).lower()))


def _is_most(code: str, letters: str) -> bool:
    """Whether most letters are in the script of a language."""
    alike = {"ja": "han", "zh": "han", "uk": "cyrillic", "ru": "cyrillic", "fa": "ar"}
    ranges = "".join(among for other, among in _SCRIPTS if alike.get(other, other) == alike.get(code, code))
    return 2 * len(re.findall(f"[{ranges}]", letters)) > len(letters)


@cache
def _languages() -> dict[str, tuple[str, ...]]:
    """Return the languages of each common word."""
    users: dict[str, tuple[str, ...]] = {}
    for code, words in _COMMON.items():
        for word in dict.fromkeys(words.split()):
            users[word] = (*users.get(word, ()), code)
    return users


def _shares(words: Iterable[str]) -> dict[str, float]:
    """Score each language by the words that it shares with few others."""
    found: dict[str, float] = dict.fromkeys(_COMMON, 0.0)
    for word in words:
        for code in (users := _languages().get(word, ())):
            found[code] += 1 / len(users)
    return found


def _by_words(text: str, words: list[str], unnamed: list[str]) -> str | None:
    """Detect the language by its common words; a word of several languages counts in part for each.

    Single letters may be symbols: each counts once, and only together with a longer word. Parts of names count only
    against other languages.
    """
    said = _shares([word for word in unnamed if len(word) > 1])
    for sign, code in _SIGNS.items():
        said[code] += sign in text
    letters, named = _shares({word for word in unnamed if len(word) == 1}), _shares(Counter(words) - Counter(unnamed))
    found = {code: said[code] + letters[code] for code in said}
    best = max(found, key=lambda code: found[code])
    other = max(found[code] + named[code] for code in found if code != best)
    enough = found[best] >= MIN_COMMON_WORDS or (
        len(words) <= SHORT_TEXT_WORDS and found[best] >= max(1, len(words) / 3)
    )
    return best if enough and said[best] >= 1 and found[best] >= MIN_LEAD * other else None
