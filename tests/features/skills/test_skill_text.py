"""SKILL.md: accepted exactly as by the reference validator; errors have line numbers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref import validate

from holdfast.features.skills import skill_md as skill_text
from holdfast.features.skills.model import Composition
from holdfast.kernel.errors import Invalid

PLAIN = "---\nname: deploy\ndescription: How we deploy.\n---\n# Deploy\n"


def faults(text: str | bytes, folder: str | None = None) -> list[tuple[str, int]]:
    """Return the invalid fields with their lines."""
    try:
        skill_text.parse_skill_md(text if isinstance(text, bytes) else text.encode(), folder)
    except Invalid as error:
        return [(fault["field"], fault["line"]) for fault in error.details["faults"]]
    return []


def test_a_skill_has_a_name_a_description_and_instructions() -> None:
    text = (
        "---\nname: deploy\ndescription: How we deploy.\nlicense: MIT\ncompatibility: needs git\n"
        "allowed-tools: Bash Read\nmetadata:\n  author: ops\n  level: 2\n  quoted: '2'\nnamespace: team/ops\n"
        "composes_with_reflections:\n  - namespace: team/ops\n    min_depth: 1\n  - namespace: team\n---\n\n# Deploy\n"
    )
    assert skill_text.parse_skill_md(text.encode(), "deploy") == skill_text.SkillManifest(
        name="deploy",
        description="How we deploy.",
        frontmatter={
            "name": "deploy",
            "description": "How we deploy.",
            "license": "MIT",
            "compatibility": "needs git",
            "allowed-tools": "Bash Read",
            "metadata": {"author": "ops", "level": 2, "quoted": "2"},
            "namespace": "team/ops",
            "composes_with_reflections": [{"namespace": "team/ops", "min_depth": 1}, {"namespace": "team"}],
        },
        namespace="team/ops",
        composes=(Composition("team/ops", 1), Composition("team", 0)),
        body="# Deploy",
    )


@pytest.mark.parametrize(
    ("head", "wrong"),
    [
        ("name: Deploy App\ndescription: x", [("name", 2), ("name", 2)]),
        ("name: a--b\ndescription: x", [("name", 2)]),
        (f"name: {'a' * 65}\ndescription: x", [("name", 2)]),
        ("name: a", [("description", 2)]),
        ("description: x", [("name", 2)]),
        (f"name: a\ndescription: {'x' * 1025}", [("description", 3)]),
        (f"name: a\ndescription: x\ncompatibility: {'x' * 501}", [("compatibility", 4)]),
        ("name: a\ndescription: x\nowner: me", [("owner", 4)]),
        ("name: a\ndescription: x\nmetadata:\n  k: [1, 2]", [("metadata", 5)]),
        ("name: a\ndescription: x\nnamespace: a//b", [("namespace", 4)]),
        ("name: a\ndescription: x\ncomposes_with_reflections: team", [("composes_with_reflections", 4)]),
        ("name: a\ndescription: x\ncomposes_with_reflections:\n  - depth: 1", [("composes_with_reflections", 5)]),
        (
            "name: a\ndescription: x\ncomposes_with_reflections:\n  - namespace: t\n    min_depth: much",
            [("composes_with_reflections", 6)],
        ),
        (
            "name: a\ndescription: x\ncomposes_with_reflections:\n  - namespace: t\n    deep: 1",
            [("composes_with_reflections", 6)],
        ),
        ("name: a\ndescription: x\nname: b", [("name", 4)]),
        ("name: a\ndescription: x\nmetadata:\n  b: 1\n  b: 2", [("metadata", 6)]),
        ("name: a\ndescription: x\nmetadata:\n  <<: y", [("metadata", 5)]),
        ("name: a\ndescription: x\u2028y\u0085z\nowner: me", [("owner", 4)]),
        ("name: a\ndescription: |\n  x\u2028y", [("description", 3)]),
        ("name: a\ndescription: 'x", [("description", 4)]),
        ("- a\n- b", [("SKILL.md", 2)]),
        ("just a text", [("SKILL.md", 2)]),
        ("name: a\ndescription: !!python/object:os.system x", [("description", 3)]),
        ("name: &a a\ndescription: *a", [("name", 2)]),
        ("name: a\n<<:\n  description: x", [("<<", 4), ("description", 2)]),
    ],
)
def test_an_error_names_the_field_and_the_line(head: str, wrong: list[tuple[str, int]]) -> None:
    assert faults(f"---\n{head}\n---\n") == wrong


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(Invalid) as error:
        skill_text.parse_skill_md(b"---\nname: A_b\nowner: me\n---\n")
    assert error.value.details["fields"] == ["owner", "description", "name"]
    assert "(line 2)" in error.value.message


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# Deploy",
        b"---\nname: a\ndescription: x\n",
        b"\xef\xbb\xbf---\nname: a\ndescription: x\n---\n",
        b"---\nname: \xff\n---\n",
        b"---\nname: a\x00\n---\n",
        b"---\n---\n",
    ],
    ids=["nothing", "no head", "no end", "a mark before it", "no utf-8", "a nul", "an empty head"],
)
def test_a_text_without_front_matter_is_not_a_skill(text: bytes) -> None:
    assert faults(text)


def test_a_skill_name_must_match_its_folder() -> None:
    assert faults(PLAIN, "release") == [("name", 2)]
    assert faults(PLAIN, "deploy") == []


def test_exponential_yaml_aliases_are_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(50))
    assert faults(f"---\n{bomb}---\n") == [("a", 2)]


def test_endlessly_nested_front_matter_is_refused() -> None:
    nested = "".join(f"{' ' * n}a:\n" for n in range(200))
    assert [field for field, _ in faults(f"---\n{nested}---\n")] == ["a"]
    assert [field for field, _ in faults(f"---\nmetadata: {'[' * 5000}\n---\n")] == ["metadata"]


def test_front_matter_must_be_closed() -> None:
    assert faults(f"---\n#{'x' * 70_000}\nname: a\ndescription: x\n---\n") == [("SKILL.md", 1)]


def test_dashes_inside_a_value_are_part_of_it() -> None:
    written = skill_text.parse_skill_md(b"---\nname: a\ndescription: first --- then\n---\nBody.\n")
    assert (written.description, written.body) == ("first --- then", "Body.")


def test_our_own_list_can_be_written_in_brackets() -> None:
    written = skill_text.parse_skill_md(
        b"---\nname: a\ndescription: x\ncomposes_with_reflections: [{namespace: t, min_depth: 2}]\n---\n"
    )
    assert written.composes == (Composition("t", 2),)


NAMES = "deploy a-b A a--b -a a- ü-x 技能 ﬁx İ ß 123 null true ~ a_b a.b a:b #c &a *a !x | > [a] {a} @a %a a\\b".split()
NAMES += ["'a'", '"a"', "'a"]
TEXTS = [
    *NAMES,
    "Does a thing",
    "It works: ok",
    "x" * 1025,
    "it's",
    "50% of",
    "ends:",
    "a #b",
    "'a\n  b'",
    "= ",
    "a\tb",
]
BLOCKS = [
    "|\n  text",
    ">-\n  a\n  b",
    "\n  - a\n  - b",
    "\n  a: 1\n  b: 2",
    "\n  a: 1\n  a: 2",
    "a\n  b",
    "\n- a",
    "\n  - a: 1\n  - - x",
    "\n  <<: y",
    "\n  '<<': y",
    "\n  <<:\n    a: b",
    "\n  a: b\u2028c",
    "a\u2028b",
    "a\u0085b",
    "'a\u2029b'",
    "|\n  a\u2028b",
]
KEYS = [
    "name",
    "description",
    "license",
    "compatibility",
    "allowed-tools",
    "metadata",
    "'name'",
    "extra",
    "? name",
    "- name",
    "",
]
LINES = st.builds(lambda key, value: f"{key}: {value}", st.sampled_from(KEYS), st.sampled_from(TEXTS + BLOCKS))
STRAY = st.sampled_from(["# remark", "", "  ", "\t", "...", " x", "- a", "%YAML 1.1", "key", "a: b: c"])
HEADS = st.one_of(
    st.lists(LINES, max_size=5),
    st.builds(
        lambda name, text, more: [f"name: {name}", f"description: {text}", *more],
        st.sampled_from(NAMES),
        st.sampled_from(TEXTS + BLOCKS),
        st.lists(st.one_of(LINES, STRAY), max_size=3),
    ),
    st.lists(st.text(max_size=20), max_size=4),
)
ENDS = st.sampled_from(["\n---\n", "\n---", "\n--- \n", "---\n", "\n", "\n---\nbody\n---\n"])


@settings(max_examples=400)
@given(HEADS, ENDS, st.sampled_from(["\n", "\r\n"]))
def test_validity_agrees_with_the_reference_validator(
    tmp_path_factory: pytest.TempPathFactory, head: list[str], end: str, newline: str
) -> None:
    text = ("---\n" + "\n".join(head) + end).replace("\n", newline)
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return
    folder = tmp_path_factory.getbasetemp() / "skills" / "deploy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(content)
    assert bool(faults(content, "deploy")) == bool(_reference_faults(folder)), text


def _reference_faults(folder: Path) -> list[str]:
    """Return the errors of the reference; a crash counts as an error."""
    try:
        return validate(folder)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return [str(error)]


@pytest.mark.parametrize("field", ["namespace: team/ops", "composes_with_reflections:\n  - namespace: team"])
def test_only_our_own_fields_differ_from_the_reference_validator(tmp_path: Path, field: str) -> None:
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "SKILL.md").write_text(PLAIN)
    assert (faults(PLAIN, "deploy"), validate(folder)) == ([], [])
    own = PLAIN.replace("\n---\n", f"\n{field}\n---\n", 1)
    (folder / "SKILL.md").write_text(own)
    assert faults(own, "deploy") == []
    assert "Unexpected fields" in validate(folder)[0]
