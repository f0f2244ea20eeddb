"""Diagrams: a title is only ever a label."""

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.graph.export import Arrow, Node, format_label, render_dot, render_mermaid

A, B = Node("a", "One", "shop", "fact"), Node("b", "Two", "shop", "fact")
NASTY = [
    'say "hi"', "back\\slash\\", "[x](y) {z} <b>", "<script>alert(1)</script>", "%%{init: {}}%%", "`code` #35; &lt;",
    "a --> b; c", "two\nlines\r\nand\ttabs", "end", "👩‍🚀 Zürich 漢字", "\u202eturned\u2066", "", " ", '"]\n  x --> y',
]  # fmt: skip
MERMAID_LINES = [
    r"flowchart LR",
    r'  n\d+\["(?:[^"\[\]{}<>`%\\;#()&|\n]|#\d+;)+"\]',
    r"  n\d+ (?:-- \w+ -->|-\. \w+ \.->) n\d+",
    r"%% n\d+ (?:[^\n%{]|#\d+;)+",
]
QUOTED = r'"(?:[^"\\\n]|\\["\\])*"'
DOT_LINES = [
    r"digraph memories \{",
    r"  rankdir=LR;",
    r"  node \[shape=box\];",
    rf"  {QUOTED} \[label={QUOTED}\];",
    rf"  {QUOTED} -> {QUOTED} \[label=\"\w+\"(?:, style=dashed)?\];",
    r"\}",
]


def test_a_flowchart_has_a_box_for_each_memory_and_an_arrow_for_each_link() -> None:
    assert render_mermaid([A, B], [Arrow("a", "b", "supersedes"), Arrow("b", "a", "related_to", ended=True)]) == (
        "flowchart LR\n"
        '  n1["One"]\n'
        '  n2["Two"]\n'
        "  n1 -- supersedes --> n2\n"
        "  n2 -. related_to .-> n1\n"
        "%% n1 a\n"
        "%% n2 b\n"
    )


def test_a_digraph_names_its_nodes_by_their_ids() -> None:
    assert render_dot([A, B], [Arrow("a", "b", "supersedes"), Arrow("b", "a", "related_to", ended=True)], "More.") == (
        "digraph memories {\n"
        "  rankdir=LR;\n"
        "  node [shape=box];\n"
        '  "a" [label="One"];\n'
        '  "b" [label="Two"];\n'
        '  "a" -> "b" [label="supersedes"];\n'
        '  "b" -> "a" [label="related_to", style=dashed];\n'
        '  label="More.";\n'
        "}\n"
    )


def test_truncation_is_shown_as_a_separate_node() -> None:
    assert '  note["More."]\n' in render_mermaid([A], [], "More.")


@given(title=st.sampled_from(NASTY) | st.text(), id=st.sampled_from(NASTY) | st.text(min_size=1))
def test_titles_and_ids_are_never_parsed_as_drawing_syntax(title: str, id: str) -> None:
    nodes, arrows = [Node(id, title, "shop", "fact"), B], [Arrow(id, "b", "supersedes")]
    drawn = render_mermaid(nodes, arrows)
    assert all(any(re.fullmatch(line, one) for line in MERMAID_LINES) for one in drawn.splitlines()), drawn
    assert [one[:5] for one in drawn.splitlines()[1:3]] == ["  n1[", "  n2["]
    assert len(drawn.split("\n")) == 7
    drawn = render_dot(nodes, arrows)
    assert len(drawn.split("\n")) == 8
    assert all(any(re.fullmatch(line, one) for line in DOT_LINES) for one in drawn.split("\n")[:-1]), drawn


def test_a_flowchart_escapes_the_characters_of_a_title() -> None:
    (line,) = [one for one in render_mermaid([A._replace(title='<b> "x" #1;')], []).splitlines() if "n1[" in one]
    assert line == '  n1["#60;b#62; #34;x#34; #35;1#59;"]'


def test_a_label_is_one_short_line_without_invisible_characters() -> None:
    assert format_label("two\n lines\u202e\x00") == "two lines"
    assert format_label("👩‍🚀") == "👩‍🚀"
    assert format_label("x" * 500) == "x" * 79 + "…"
