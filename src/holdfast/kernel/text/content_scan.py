"""Scan text for secrets, by their published formats, and for possible prompt injections, to label them.

Every pattern has bounded repetitions or starts only at the start of a run of its characters, and runs only if a hint
occurs, so that the time is linear in the text.
"""

import re
from binascii import a2b_base64
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from math import log2
from typing import Any, NamedTuple


class Secret(NamedTuple):
    """Kind and position of a secret; never the secret itself."""

    kind: str
    start: int
    end: int


_URL_SAFE = "[A-Za-z0-9_-]"
_PREFIXED = (
    (
        "private key",
        "-----BEGIN",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{0,20000}(?:-----END[A-Z ]{0,60}-----)?",
    ),
    (
        "json web token",
        "eyJ",
        rf"(?<!-)(?>(?:{_URL_SAFE}*?-)??(?=eyJ))(eyJ{_URL_SAFE}{{8,}}+\.eyJ{_URL_SAFE}{{8,}}+\.{_URL_SAFE}{{8,}}+)",
    ),
    ("aws access key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])"),
    ("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("github token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    ("gitlab token", "glpat-", r"glpat-[\w-]{20,255}"),
    ("slack token", ("xox", "xapp-"), r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}"),
    ("slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/T\w{6,20}/B\w{6,20}/\w{16,64}"),
    ("stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}"),
    ("stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/]{24,255}"),
    ("anthropic key", "sk-ant-", r"sk-ant-[\w-]{20,255}"),
    ("openai key", "sk-", r"sk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]{0,80}\d)[A-Za-z0-9_]{4,80}[\w-]{16,255}"),
    ("google api key", "AIza", r"AIza[\w-]{35}"),
    ("google token", ("ya29.", "GOCSPX-"), r"(?:ya29\.[\w-]{20,1000}|GOCSPX-[\w-]{20,64})"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("pypi token", "pypi-AgE", r"pypi-AgE[\w-]{50,1000}"),
    ("hugging face token", "hf_", r"hf_[A-Za-z]{34}(?!\w)"),
    ("holdfast key", "hf_", r"hf_(?=[\w-]{0,42}[\d-])[\w-]{43}"),
    ("sendgrid key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    ("digitalocean token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[opr]_v1_[0-9a-f]{64}"),
    ("shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("databricks token", "dapi", r"dapi[0-9a-f]{32}"),
    ("vault token", ("hvs.", "hvb."), r"hv[sb]\.[\w-]{24,255}"),
    ("linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,64}"),
    ("notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,64}"),
    ("groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,64}"),
    ("telegram token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    ("docker token", "dckr_pat_", r"dckr_pat_[\w-]{20,64}"),
    ("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[AC-HJ-NP-Z02-9]{58}"),
    ("xai key", "xai-", r"xai-[A-Za-z0-9]{40,160}"),
    ("grafana token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("discord token", (".G", ".X", ".Y", ".Z"), r"[MNO][A-Za-z0-9]{23,27}\.[GXYZ][\w-]{5}\.[\w-]{27,40}(?![\w-])"),
    ("twilio key", ("twilio", "Twilio", "TWILIO"), r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{60,100}={0,2}"),
)
"""Name, hints and pattern of each kind of secret; a group is the secret itself."""

_URL = r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"]{0,128}:(?P<value>[^\s/@'\"]{3,256})@"
_NAMES = (
    r"(?:api|access|auth|secret|private|signing|encryption|account|service|client)[ _.-]?(?:key|token|secret)"
    r"|secret|token|passw(?:or)?d|passphrase|pwd|bearer|credentials?"
    r"|passwort|kennwort|mot de passe|contraseña"
)
_ASSIGNED = (
    rf"(?P<name>{_NAMES})(?:[_-][a-z]{{1,20}}){{0,2}}[\"'`]?(?:\s{{0,3}}(?::=|=>|[:=])\s{{0,3}}|\s{{1,3}})"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`,;(){}\[\]<>]{8,256})"
)
_ASSIGNED_HINTS = (
    "key", "token", "secret", "passw", "passphrase", "pwd", "bearer", "credential", "kennwort", "passe", "contraseña"
)  # fmt: skip
_IS = (
    r"(?:(?:password|passphrase|pwd)\s{1,3}is|(?:passwort|kennwort)\s{1,3}(?:ist|lautet)"
    r"|mot\s{1,3}de\s{1,3}passe\s{1,3}est|contraseña\s{1,3}es)"
    r"(?:\s{1,3}|\s{0,3}:\s{0,3})[\"'`]?(?P<value>[^\s\"'`]{6,128})"
)
_BASIC = r"\bbasic\s{1,3}(?P<value>[A-Za-z0-9+/]{8,400}={0,2})(?![A-Za-z0-9+/=])"
_KEY_NAME = rf"(?:{_NAMES})(?:[_-][a-z]{{1,20}}){{0,2}}$"

_PASSWORDS = ("passw", "pwd", "passphrase", "kennwort", "mot de passe", "contraseña")

_PLACEHOLDER = (
    r"\$|%\w{1,64}%|x{4,}|\*{3,}|\.{3}|…|your|example|placeholder|changeme|redacted|dummy|sample|todo|secrets?[./]|env[.(]|"
    r"https?:|process\.|os\.|config\.|settings\.|self\.|null|none|true|false|undefined"
)
_PLAIN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
MIN_KEY_LENGTH = 15
"""Minimum length of a run of characters in any key."""
MIN_BITS = 3.0
"""Minimum bits per character of a value assigned to a secret's name: less is a word."""


def find_secrets(text: str) -> list[Secret]:
    """Find the secrets of a text, in order; of two that overlap, the one with a known format wins."""
    starts, found = list[int](), list[Secret]()
    for secret in (*_by_shape(text), *_by_name(text)):
        at = bisect(starts, secret.start)
        free = (at == 0 or found[at - 1].end <= secret.start) and (at == len(starts) or secret.end <= starts[at])
        if free:
            starts.insert(at, secret.start)
            found.insert(at, secret)
    return found


def _by_shape(text: str) -> Iterator[Secret]:
    if max(map(len, text.split()), default=0) < MIN_KEY_LENGTH:
        return
    for number, (kind, hints, _) in enumerate(_PREFIXED):
        if any(hint in text for hint in ((hints,) if isinstance(hints, str) else hints)):
            for match in _compile_prefixed(number).finditer(text):
                yield Secret(kind, *match.span(match.lastindex or 0))


@cache
def _compile_prefixed(number: int) -> re.Pattern[str]:
    return re.compile(r"(?<![A-Za-z0-9_])" + _PREFIXED[number][2])


def _by_name(text: str) -> Iterator[Secret]:
    if "://" in text:
        for match in re.finditer(_URL, text, re.I):
            if not re.search(_PLACEHOLDER, match["value"], re.I) and match["value"].lower() not in (
                "password",
                "pass",
                "secret",
            ):
                yield Secret("password in a URL", *match.span("value"))
    low = text.lower()
    if "basic" in low:
        for match in re.finditer(_BASIC, text, re.I):
            if _is_pair(match["value"]):
                yield Secret("password", *match.span("value"))
    if not any(hint in low for hint in _ASSIGNED_HINTS):
        return
    for match in re.finditer(_ASSIGNED, text, re.I):
        if is_secret(match["value"], spoken=":" not in match[0] and "=" not in match[0]):
            yield Secret(_secret_kind(match["name"]), *match.span("value"))
    for match in re.finditer(_IS, text, re.I):
        if is_secret(match["value"].rstrip(".!?,"), short=True):
            yield Secret("password", match.start("value"), match.start("value") + len(match["value"].rstrip(".!?,")))


def _is_pair(value: str) -> bool:
    """Whether a base64 value is a user and password of HTTP Basic authentication."""
    try:
        name, colon, password = a2b_base64(value, strict_mode=True).decode().partition(":")
    except ValueError:
        return False
    return bool(colon and password) and (name + password).isprintable()


def is_secret(value: str, *, spoken: bool = False, short: bool = False) -> bool:
    """Whether a value assigned to a secret's name looks like one: random letters and digits.

    `spoken`: only a blank separates name and value, so that it may be any next word.
    """
    if re.search(_PLACEHOLDER, value, re.I) or re.fullmatch(_PLAIN, value, re.I):
        return False
    mixed = any(sign.isdigit() for sign in value) and any(sign.isalpha() for sign in value)
    bits = _bits(value)
    if spoken:
        return mixed and len(value) >= 20 and bits >= 3.5
    if short:
        return mixed and bits >= 2.5
    return (mixed and bits >= MIN_BITS) or (len(value) >= 24 and bits >= 4.2 and "/" not in value)


def _bits(value: str) -> float:
    """Return the entropy of a text in bits per character."""
    size = len(value)
    return -sum(count / size * log2(count / size) for count in Counter(value).values())


def _secret_kind(name: str) -> str:
    low = name.lower()
    return "password" if low.startswith(_PASSWORDS) else "token" if "token" in low else "key"


def redact_text(text: str) -> tuple[str, list[str]]:
    """Replace each secret by a remark; return the text and the kinds of secrets."""
    kinds, parts, end = [], [], 0
    for secret in find_secrets(text):
        parts += [text[end : secret.start], redaction_mark(secret.kind)]
        end = secret.end
        kinds.append(secret.kind)
    return "".join((*parts, text[end:])), kinds


def redaction_mark(kind: str) -> str:
    return f"[redacted: {kind}]"


class SecretLocation(NamedTuple):
    """A secret in a record: path of the field, and position in its text."""

    field: str
    secret: Secret


def find_in_value(field: str, value: Any) -> list[SecretLocation]:
    """Find the secrets of a JSON value, also by the names of its keys."""
    match value:
        case str():
            return [SecretLocation(field, secret) for secret in find_secrets(value)]
        case dict():
            found = []
            for name, item in value.items():
                found += [SecretLocation(field, secret) for secret in find_secrets(name)]
                secret = _secret_by_name(name, item)
                place = f"{field}.{name}"
                found += [SecretLocation(place, secret)] if secret else find_in_value(place, item)
            return found
        case list() | tuple():
            return [place for item in value for place in find_in_value(field, item)]
    return []


def redact_value(value: Any) -> Any:
    """Redact the secrets of a JSON value."""
    match value:
        case str():
            return redact_text(value)[0]
        case dict():
            return {
                redact_text(name)[0]: redaction_mark(secret.kind)
                if (secret := _secret_by_name(name, item))
                else redact_value(item)
                for name, item in value.items()
            }
        case list() | tuple():
            return type(value)(map(redact_value, value))
    return value


def _secret_by_name(name: str, value: Any) -> Secret | None:
    if (
        isinstance(value, str)
        and len(value) >= 8
        and re.search(_KEY_NAME, name, re.I)
        and not find_secrets(value)
        and is_secret(value)
    ):
        return Secret(_secret_kind(name), 0, len(value))
    return None


MAX_CHARACTERS = 65_536


class _Sign(NamedTuple):
    label: str
    hints: tuple[str, ...]
    shape: str


_WHAT = r"(?:instruction|prompt|rule|message|direction|guideline|command|order|context)s?"
_GAP = r"\W{1,9}"
_WORDS = rf"(?:{_GAP}\w{{1,30}})"
_SIGNS = (
    _Sign(
        "overrides instructions",
        ("ignore", "disregard", "forget", "override", "bypass"),
        rf"\b(?:ignore|disregard|forget|override|bypass)\b{_WORDS}{{0,4}}?{_GAP}(?:previous|prior|above|earlier|preceding|"
        rf"existing|system|your|safety)\b{_WORDS}{{0,2}}?{_GAP}{_WHAT}\b",
    ),
    _Sign(
        "overrides instructions",
        ("ignore", "disregard", "forget", "override", "bypass"),
        rf"\b(?:ignore|disregard|forget|override|bypass){_GAP}(?:all|any|every){_WORDS}{{0,2}}?{_GAP}"
        r"(?:instruction|prompt|guideline|directive)s?\b(?!\W{1,9}(?:in|on|about|under)\b)",
    ),
    _Sign(
        "overrides instructions",
        ("ignorier", "ignorez", "vergiss", "ignora", "oublie", "忽略", "無視", "无视", "игнорир"),
        r"ignorier\w{0,3}\b[^.\n]{0,40}\banweisung|vergiss\b[^.\n]{0,40}\banweisung|ignora\b[^.\n]{0,40}\b(?:instruc|istruz)"
        r"|ignorez?\b[^.\n]{0,40}\binstructions\b[^.\n]{0,20}pr[ée]c[ée]dent|oublie[zr]?\b[^.\n]{0,40}\binstruction"
        r"|忽略[^。\n]{0,12}(?:指令|指示|提示)|(?:指示|命令|プロンプト)[^。\n]{0,6}無視|无视[^。\n]{0,12}(?:指令|指示)"
        r"|игнорир\w{0,6}[^.\n]{0,30}инструкц",
    ),
    _Sign(
        "asks for the system prompt",
        ("system prompt", "hidden instructions", "initial instructions"),
        rf"\b(?:reveal|print|show|repeat|output|leak|expose)\b{_WORDS}{{0,4}}?{_GAP}"
        r"(?:system prompt|(?:hidden|initial) instructions)",
    ),
    _Sign(
        "gives itself a role",
        ("you are now", "developer mode", "act as", "new instructions", "jailbr"),
        r"\byou are now\W{1,9}(?:a|an|in|dan|the|unrestricted|free)\b"
        r"|\b(?:enter|enable|activate)\W{1,9}(?:\w{1,30}\W{1,9})?developer mode\b"
        r"|\bnew (?:system )?instructions?\s{0,3}:|\bact as (?:an? )?(?:unrestricted|unfiltered|jailbroken)\b",
    ),
    _Sign(
        "hides from the user",
        ("the user", "the human"),
        r"\b(?:do not|don't|never|without)\W{1,9}(?:tell|inform|mention|alert|reveal)(?:ing)?"
        rf"{_WORDS}{{0,4}}?{_GAP}(?:the user|the human)\b",
    ),
    _Sign(
        "poses as another role",
        (
            "<|",
            "[inst]",
            "<<sys>>",
            "<system",
            "</system",
            "</memory",
            "<assistant",
            "</assistant",
            "<developer",
            "</user",
            "### system",
            "### instruction",
            "</instructions",
            "<instructions",
            "<system-reminder",
            "[system",
            "[developer",
        ),
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)\|>|\[/?inst\]|<</?sys>>"
        r"|</?(?:system|assistant|developer|instructions?|memory|system-reminder|user)(?:\s[^>\n]{0,200})?>"
        r"|^#{2,4} (?:system|instructions?):|\[(?:system|developer) (?:message|prompt|override|instructions?)\]"
        r"|\[(?:system|developer)\][^\n]{0,200}"
        r"\b(?:you (?:must|are|will|may)|ignore|obey|from now on|allows?|trusted)\b",
    ),
    _Sign(
        "poses as a tool call",
        ("<tool", "<function", "<invoke", "</tool", "tool_use", "tool_calls", "tool_result", "function_call"),
        r"</?(?:tool_call|tool_use|tool_result|tool_response|function_calls?|function_results?|invoke|function=)\b[^>\n]{0,200}>?"
        r"|\"(?:tool_calls|function_call)\"\s{0,3}:|\"type\"\s{0,3}:\s{0,3}\"tool_(?:use|result)\"",
    ),
    _Sign(
        "poses as our marks",
        ("<<<", "===", "memory ", "answer ", "<toon ", "<text ", "recalled", "trusted"),
        r"<<<(?:data|result|task|end)\b[^>\n]{0,200}>>>|</?(?:memory|answer|toon|text|recalled) [0-9a-f]{12,24}\b"
        r"|</?(?:recalled|(?:un)?trusted(?:[-_]\w{1,12})?)>|={3} ?(?:(?:begin|end) )?(?:un)?trusted\b",
    ),
)


@lru_cache(maxsize=512)
def find_injections(text: str) -> tuple[str, ...]:
    """Return the distinct labels of possible injections in a text. Cached: the same memories are recalled often."""
    low = text[:MAX_CHARACTERS].lower() if text.isascii() else text[:MAX_CHARACTERS].translate(_UNSEEN).lower()
    marked = [hints for mark, hints in _HINTS.items() if mark in low]
    hinted = sorted({number for hints in marked for hint, number in hints if hint in low})
    return tuple(dict.fromkeys(_SIGNS[number].label for number in hinted if _compile_sign(number).search(low)))


_UNSEEN = dict.fromkeys([0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF])
"""Invisible characters, which would split a word for a pattern but not for a reader."""
_MARKS = "<[#=_"


def _by_mark() -> dict[str, list[tuple[str, int]]]:
    """Group hints by a shared character, so that a text without it needs no further checks."""
    found: dict[str, list[tuple[str, int]]] = {}
    for number, sign in enumerate(_SIGNS):
        for hint in sign.hints:
            found.setdefault(next((mark for mark in _MARKS if mark in hint), hint), []).append((hint, number))
    return found


_HINTS = _by_mark()


@cache
def _compile_sign(number: int) -> re.Pattern[str]:
    return re.compile(_SIGNS[number].shape, re.M)
