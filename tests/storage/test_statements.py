"""Named SQL: found by name, written once, used, and read by index where it is hot."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.storage import statements
from holdfast.storage.records import KINDS
from holdfast.storage.sqlite.engine import FOLDERS

SOURCE = Path(holdfast.__file__).parent


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / f"{name}.sql").write_text(text)
    return path


# The loader


def test_a_statement_is_what_stands_under_its_name_without_the_remarks_above_it(tmp_path: Path) -> None:
    files = folder(tmp_path / "sql", a="-- name: one\n-- A remark.\nselect 1\n-- name: two\nselect 2\n-- inside\n\n")
    assert statements.load(files) == {"one": "select 1", "two": "select 2\n-- inside"}


@pytest.mark.parametrize(
    "files",
    [
        {"a": "-- name: one\nselect 1\n-- name: one\nselect 2\n"},
        {"a": "-- name: one\nselect 1", "b": "-- name: one\nselect 2"},
    ],
    ids=["in one file", "in two files"],
)
def test_a_name_given_twice_in_a_folder_is_an_error(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="defined twice"):
        statements.load(folder(tmp_path / "sql", **files))


def test_a_later_folder_overrides_by_name_and_inside_what_includes_it(tmp_path: Path) -> None:
    shared = folder(tmp_path / "shared", a="-- name: t.columns\na, b\n-- name: t_get\nselect {t.columns} from t\n")
    engine = folder(tmp_path / "engine", a="-- name: t.columns\na, b, c\n")
    assert statements.load(shared, engine) == {"t.columns": "a, b, c", "t_get": "select a, b, c from t"}


def test_a_name_that_cannot_be_read_as_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one-two"):
        statements.load(folder(tmp_path / "sql", a="-- name: one\nselect 1\n-- name: one-two\nselect 2\n"))


def test_a_list_parameter_is_bound_as_json_and_text_stays_as_it_is() -> None:
    sql = "select ':a = any(:b)', \"= any(:c)\" from t where x = any(:ids) and y = :y -- = any(:d)"
    assert statements.for_sqlite(sql) == sql.replace("= any(:ids)", "in (select value from json_each(:ids))")


def test_a_numbered_fragment_has_parameters_of_its_own() -> None:
    assert statements.numbered("(x = :p_n and y = :p_n or z = :q_n)", 3) == "(x = :p_3 and y = :p_3 or z = :q_3)"


# Every statement is used, every used one is there


def trees() -> Iterator[ast.AST]:
    for file in SOURCE.rglob("*.py"):
        yield ast.parse(file.read_text("utf-8"))


def texts(node: ast.AST) -> Iterator[str]:
    """The pattern of every text in a tree; what is formatted into one may be anything."""
    formatted = {id(part) for each in ast.walk(node) if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in formatted:
            yield re.escape(each.value)
        elif isinstance(each, ast.JoinedStr):
            yield "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"(\w+)" for part in each.values
            )


def asked_for(node: ast.AST) -> Iterator[str]:
    """The patterns of the names that calls of a session ask for."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
            if call.func.attr in {"row", "rows", "do", "many"}:
                first = call.args[0]
                yield from texts(first) if isinstance(first, ast.Constant | ast.JoinedStr) else ()
            elif call.func.attr == "assembled":
                yield from texts(call.args[0])


def test_every_statement_that_is_asked_for_is_there() -> None:
    names = statements.load(*FOLDERS)
    asked = {pattern for tree in trees() for pattern in asked_for(tree)}
    assert len(asked) > 50
    assert [pattern for pattern in sorted(asked) if not any(re.fullmatch(pattern, name) for name in names)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_record_has_its_statements(kind: str) -> None:
    names = statements.load(*FOLDERS)
    assert {f"{kind}_put", f"{kind}_cells"} <= names.keys()
    assert kind == "memory" or f"{kind}_get" in names


def test_every_statement_is_used() -> None:
    """By its name in a text, by a text that words of the source are formatted into, or inside another statement."""
    names = statements.load(*FOLDERS)
    patterns = {pattern for tree in trees() for pattern in texts(tree) if len(pattern) < 80}
    words = {re.sub(r"\\(.)", r"\1", pattern) for pattern in patterns}
    formatted = [re.compile(pattern) for pattern in patterns if r"(\w+)" in pattern and re.search("[a-z]{3}", pattern)]
    raw = "\n".join(file.read_text("utf-8") for folder in FOLDERS for file in folder.glob("*.sql"))
    used = words | set(re.findall(r"\{([\w.]+)\}", raw))
    matches = {name: [match for pattern in formatted if (match := pattern.fullmatch(name))] for name in names}
    assert [n for n in names if n not in used and not any(words.issuperset(m.groups()) for m in matches[n])] == []
