"""The documentation hangs together, and with the Makefile."""

import re
from collections import Counter
from pathlib import Path

import pytest
from documented import PAGES, ROOT, WRITTEN, blocks_of

_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose_of(page: Path) -> str:
    return _FENCED.sub("", page.read_text("utf-8"))


def anchors_of(page: Path) -> list[str]:
    """The anchors that a page's headings make: lower case, without punctuation, blanks as dashes."""
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(prose_of(page))]
    return [title.strip().replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_inside_the_documentation_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose_of(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors_of(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_two_headings_of_a_page_have_the_same_anchor(page: Path) -> None:
    assert [anchor for anchor, count in Counter(anchors_of(page)).items() if count > 1] == []


def test_every_page_is_within_reach_of_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(index.read_text("utf-8"))}
    assert {page for page in PAGES if page.parent != ROOT} - linked == {index}


def test_the_two_commands_at_the_top_are_those_that_ci_and_the_makefile_have() -> None:
    first = blocks_of(ROOT / "README.md")[0]
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    makefile = (ROOT / "Makefile").read_text()
    assert commands == ["make run", "make test"]
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("\nmake test")
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.M) for command in commands)
    assert re.search(r"^run: .*\n\t\$\(BIN\)/holdfast serve$", makefile, re.M)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_lines_are_of_a_width_that_can_be_read(page: Path) -> None:
    outside_blocks = [line for line in prose_of(page).splitlines() if not line.startswith("|")]
    assert [line for line in outside_blocks if len(line) > 132] == []
