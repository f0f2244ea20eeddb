"""Detect possible prompt injections, to label them. This is not a protection by itself.

The protection is that recalled text is passed as data; this only shows where to look twice.
"""

import re
from functools import cache
from typing import NamedTuple

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


def find_injections(text: str) -> list[str]:
    """Return the distinct labels of possible injections in a text."""
    low = text[:MAX_CHARACTERS].lower() if text.isascii() else text[:MAX_CHARACTERS].translate(_UNSEEN).lower()
    marked = [hints for mark, hints in _HINTS.items() if mark in low]
    hinted = sorted({number for hints in marked for hint, number in hints if hint in low})
    return list(dict.fromkeys(_SIGNS[number].label for number in hinted if _compile(number).search(low)))


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
def _compile(number: int) -> re.Pattern[str]:
    return re.compile(_SIGNS[number].shape, re.M)
