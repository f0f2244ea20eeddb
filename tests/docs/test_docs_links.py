"""Links, anchors and commands of the documentation are consistent."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

from doc_pages import PAGES, ROOT, WRITTEN, blocks_of

FEATURES = sorted(path for path in (ROOT / "src/holdfast/features").iterdir() if (path / "__init__.py").exists())
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *(feature / "README.md" for feature in FEATURES)]
"""The pages, and those beside the code."""
MAX_README_LINES = 10

_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def prose_of(page: Path) -> str:
    return _FENCED.sub("", page.read_text("utf-8"))


@cache
def anchors_of(page: Path) -> list[str]:
    """Return the anchors of a page: its explicit ones, and the headings in lower case with dashes for spaces."""
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(prose_of(page))]
    return [*_ANCHOR.findall(prose_of(page)), *(title.strip().replace(" ", "-") for title in titles)]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors_of(target))


def test_every_internal_link_of_the_documentation_has_a_target() -> None:
    links = [(page, link) for page in LINKED for link in _LINK.findall(prose_of(page))]
    inside = [(page, link) for page, link in links if not link.startswith(("http://", "https://"))]
    assert [(name_of(page), link) for page, link in inside if not leads_somewhere(page, link)] == []


def test_every_feature_has_a_short_readme_and_a_line_in_the_architecture() -> None:
    lines = {feature.name: len((feature / "README.md").read_text("utf-8").splitlines()) for feature in FEATURES}
    assert {name: count for name, count in lines.items() if count > MAX_README_LINES} == {}
    listed = re.findall(r"^\| \[(\w+)\]\(\.\./src/holdfast/features/", prose_of(ROOT / "docs/architecture.md"), re.M)
    assert sorted(listed) == [feature.name for feature in FEATURES]


def test_the_architecture_names_modules_that_exist() -> None:
    named = set(re.findall(r"`([\w/]+/\w+\.(?:py|sql)|\w+\.py)`", prose_of(ROOT / "docs/architecture.md")))
    roots = (ROOT, ROOT / "src/holdfast")
    typical = {"service.py", "store.py", "model.py", "render.py", "schedule.py", "ranking.py", "store_memory.py"}
    assert [name for name in sorted(named - typical) if not any((root / name).exists() for root in roots)] == []


def test_the_examples_of_the_architecture_change_lines_that_exist() -> None:
    lines: dict[str, set[str]] = {}
    missing = []
    for block in blocks_of(ROOT / "docs/architecture.md"):
        if block.language != "diff":
            continue
        for line in block.text.splitlines():
            if line.startswith("--- "):
                path = line.removeprefix("--- a/")
                known = lines.setdefault(path, set())
                if path != "--- /dev/null":
                    known |= set((ROOT / path).read_text("utf-8").splitlines()) | {""}
            elif line.startswith("+++ "):
                continue
            elif line.startswith("+"):
                known.add(line[1:])
            elif not line.startswith("@@") and line[1:] not in known:
                missing.append((path, line))
    assert missing == []


def test_no_two_headings_of_a_page_have_the_same_anchor() -> None:
    counts = {page: Counter(anchors_of(page)) for page in PAGES}
    assert [(name_of(page), anchor) for page in PAGES for anchor, count in counts[page].items() if count > 1] == []


def test_every_page_is_reachable_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(index.read_text("utf-8"))}
    assert {page for page in PAGES if page.parent != ROOT} - linked == {index}


def test_decision_records_are_numbered_without_holes_and_have_a_status() -> None:
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [record.name[:5] for record in records] == [f"{number:04}-" for number in range(1, len(records) + 1)]
    heads = [record.read_text("utf-8").splitlines()[:3] for record in records]
    assert [head for number, head in enumerate(heads, 1) if not head[0].startswith(f"# {number}. ")] == []
    assert [head for head in heads if not re.match(r"Status: (accepted|superseded by \[decision \d+\])", head[2])] == []


def test_a_link_to_a_decision_names_its_number() -> None:
    link = re.compile(r"\[(?:decision )?(\d+)\]\([^)]*?\b(\d{4})-[a-z0-9-]+\.md", re.I)
    links = [(name_of(page), *found) for page in LINKED for found in link.findall(prose_of(page))]
    assert [found for found in links if int(found[1]) != int(found[2])] == []


def test_the_two_commands_at_the_top_match_ci_and_the_makefile() -> None:
    first = blocks_of(ROOT / "README.md")[0]
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    makefile = (ROOT / "Makefile").read_text()
    assert commands == ["make run", "make test"]
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("\nmake test")
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.M) for command in commands)
    assert re.search(r"^run: .*\n\t\$\(BIN\)/holdfast serve$", makefile, re.M)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_lines_have_a_readable_width() -> None:
    lines = [(name_of(page), line) for page in WRITTEN for line in prose_of(page).splitlines()]
    assert [found for found in lines if len(found[1]) > 132 and not found[1].startswith("|")] == []
