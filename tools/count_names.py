"""Count definitions whose name is one bare past participle, such as `told` or `_settled`: nobody would search for them.

python tools/count_names.py            # the share, and the names that occur most
python tools/count_names.py --list     # every definition with its place
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "benchmarks", "tools", "tests")
MAX_SHARE = 0.01
"""The share of bare participles in src that `make check` accepts. It only ever goes down."""
IRREGULAR = frozenset(
    "told said kept held taken given shown known heard made met meant sent written seen gone done bound built brought"
    " chosen drawn fallen fell felt forgotten hidden laid learnt lost risen stood thought"
    " left spoken begun found".split()
)
NO_PARTICIPLES = frozenset("embed feed seed need speed bed shed seed red id exceed proceed indeed".split())


class Definition(NamedTuple):
    place: str
    name: str


def find_definitions(folder: Path) -> Iterator[Definition]:
    """Every function and class below a folder."""
    for file in sorted(folder.rglob("*.py")):
        if "node_modules" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield Definition(f"{file.relative_to(ROOT)}:{node.lineno}", node.name)


def is_participle(name: str) -> bool:
    """Whether a name is one word that ends as past participles do."""
    word = name.lstrip("_")
    if not re.fullmatch(r"[A-Za-z][a-z]*", word):
        return False
    word = word.lower()
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3 and word not in NO_PARTICIPLES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="every definition with its place")
    asked = parser.parse_args()
    share = 0.0
    for folder in FOLDERS:
        if not (ROOT / folder).is_dir():
            continue
        found = list(find_definitions(ROOT / folder))
        bare = [one for one in found if is_participle(one.name)]
        most = ", ".join(f"{name} {count}" for name, count in Counter(one.name for one in bare).most_common(8))
        print(
            f"{folder}: {len(bare)} of {len(found)} definitions ({len(bare) / len(found):.1%}) are participles: {most}"
        )
        if folder == "src":
            share = len(bare) / len(found)
        if asked.list:
            print(*(f"  {one.place}: {one.name}" for one in bare), sep="\n")
    if share > MAX_SHARE:
        print(f"src: more than {MAX_SHARE:.0%} of the definitions are bare participles.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
