"""Named SQL: every statement is used, exists, and is shared by both engines unless there is a reason."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.storage import statements
from holdfast.kernel.storage.postgres.engine import STATEMENTS as POSTGRES
from holdfast.kernel.storage.sqlite.engine import STATEMENTS as SQLITE

SOURCE = Path(holdfast.__file__).parent
FOLDERS = {"sqlite": SQLITE, "postgres": POSTGRES}


@pytest.fixture
def statements_by_name(engine: str) -> dict[str, str]:
    """Return all statements of an engine."""
    return statements.load_statements(*FOLDERS[engine])


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / f"{name}.sql").write_text(text)
    return path


# The loader


def test_a_statement_is_the_text_below_its_name_without_leading_comments(tmp_path: Path) -> None:
    files = folder(tmp_path / "sql", a="-- name: one\n-- A remark.\nselect 1\n-- name: two\nselect 2\n-- inside\n\n")
    assert statements.load_statements(files) == {"one": "select 1", "two": "select 2\n-- inside"}


@pytest.mark.parametrize(
    "files",
    [
        {"a": "-- name: one\nselect 1\n-- name: one\nselect 2\n"},
        {"a": "-- name: one\nselect 1", "b": "-- name: one\nselect 2"},
    ],
    ids=["in one file", "in two files"],
)
def test_a_name_defined_twice_in_a_folder_is_an_error(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="defined twice"):
        statements.load_statements(folder(tmp_path / "sql", **files))


def test_a_later_folder_overrides_a_statement_by_name_and_where_it_is_included(tmp_path: Path) -> None:
    shared = folder(tmp_path / "shared", a="-- name: t.columns\na, b\n-- name: t_get\nselect {t.columns} from t\n")
    engine = folder(tmp_path / "engine", a="-- name: t.columns\na, b, c\n")
    assert statements.load_statements(shared, engine) == {"t.columns": "a, b, c", "t_get": "select a, b, c from t"}


def test_an_unreadable_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one-two"):
        statements.load_statements(folder(tmp_path / "sql", a="-- name: one\nselect 1\n-- name: one-two\nselect 2\n"))


def test_a_list_parameter_is_bound_as_json_and_quoted_text_is_unchanged() -> None:
    sql = "select ':a = any(:b)', \"= any(:c)\" from t where x = any(:ids) and y = :y -- = any(:d)"
    assert statements.for_sqlite(sql) == sql.replace("= any(:ids)", "in (select value from json_each(:ids))")


def test_percent_signs_and_quoted_parameters_are_escaped_for_the_driver() -> None:
    sql = "select ':a %', \"%(b)s\", 7 % 3, x::text from t where x = any(:ids) and y = :y -- 1 % :d"
    assert statements.for_psycopg(sql) == (
        "select ':a %%', \"%%(b)s\", 7 %% 3, x::text from t where x = any(%(ids)s) and y = %(y)s -- 1 %% :d"
    )


def test_a_numbered_fragment_has_its_own_parameters() -> None:
    assert (
        statements.number_parameters("(x = :p_n and y = :p_n or z = :q_n)", 3) == "(x = :p_3 and y = :p_3 or z = :q_3)"
    )


# Every statement is used, and every used one exists


@cache
def parsed_source() -> dict[Path, list[ast.AST]]:
    """Iterate over the syntax nodes of all files."""
    return {
        file.relative_to(SOURCE): list(ast.walk(ast.parse(file.read_text("utf-8")))) for file in SOURCE.rglob("*.py")
    }


@cache
def nodes_of(engine: str) -> list[ast.AST]:
    """Return the source files of an engine: all but the other's."""
    (other,) = FOLDERS.keys() - {engine}
    return [node for file, nodes in parsed_source().items() if other not in file.parts for node in nodes]


def texts(nodes: list[ast.AST]) -> Iterator[str]:
    """Return a pattern for every text; formatted parts match anything."""
    formatted = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in nodes:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in formatted:
            yield re.escape(each.value)
        elif isinstance(each, ast.JoinedStr):
            yield "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"(\w+)" for part in each.values
            )


def numbers(engine: str) -> Iterator[str]:
    """Return the names in the source; a statement may have a variant for each."""
    for each in nodes_of(engine):
        if isinstance(each, ast.Constant) and type(each.value) is int:
            yield str(each.value)


def asked_for(engine: str) -> Iterator[str]:
    """Return the patterns of statement names in calls of a session."""
    for call in nodes_of(engine):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
            if call.func.attr in {"row", "rows", "do", "many"}:
                first = call.args[0]
                yield from texts([first]) if isinstance(first, ast.Constant | ast.JoinedStr) else ()
            elif call.func.attr == "assembled":
                yield from texts(list(ast.walk(call.args[0])))


def test_every_referenced_statement_exists(engine: str, statements_by_name: dict[str, str]) -> None:
    asked = set(asked_for(engine))
    assert len(asked) > 50
    assert [
        pattern for pattern in sorted(asked) if not any(re.fullmatch(pattern, name) for name in statements_by_name)
    ] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_kind_has_its_statements(kind: str, statements_by_name: dict[str, str]) -> None:
    assert {f"{kind}_put", f"{kind}_field_versions"} <= statements_by_name.keys()
    assert kind == "memory" or f"{kind}_get" in statements_by_name


def test_every_statement_is_used(engine: str, statements_by_name: dict[str, str]) -> None:
    """A statement is used by its name, by a formatted name, or inside another statement."""
    patterns = {pattern for pattern in texts(nodes_of(engine)) if len(pattern) < 80}
    words = {re.sub(r"\\(.)", r"\1", pattern) for pattern in patterns} | set(numbers(engine))
    formatted = [re.compile(pattern) for pattern in patterns if r"(\w+)" in pattern and re.search("[a-z]{3}", pattern)]
    raw = "\n".join(file.read_text("utf-8") for folder in FOLDERS[engine] for file in statements.sql_files(folder))
    used = words | set(re.findall(r"\{([\w.]+)\}", raw))
    matches = {
        name: [match for pattern in formatted if (match := pattern.fullmatch(name))] for name in statements_by_name
    }
    assert [
        n for n in statements_by_name if n not in used and not any(words.issuperset(m.groups()) for m in matches[n])
    ] == []


# Shared


TWICE = {
    "full_text_hits": "FTS5 matches and ranks itself; PostgreSQL matches a tsquery, and we compute the rank.",
    "word_document_counts": "FTS5 keeps how many memories hold a stem; PostgreSQL counts them by the index.",
    "word_document_count": "FTS5 is asked by a match, a tsvector by a tsquery.",
    "match_times": "FTS5 is asked by a match, a tsvector by a tsquery.",
    "embedding_nearest": "SQLite hands out the bytes and Python measures; pgvector measures and orders in the index.",
    "engine_mark": "A file is known by a number in its head, a schema by a comment on a table.",
    "engine_mark_finished": "A file is known by a number in its head, a schema by a comment on a table.",
    "memory_text_clear": "FTS5 is emptied by a command.",
    "memory_sync_rowno": "PostgreSQL has to be told which numbers of rows were given.",
}
"""Statements that both engines have in different versions, and why."""

ALONE = {
    "sqlite": {
        "engine_integrity": "A file is examined page by page.",
        "engine_foreign_keys": "A file may hold references that were not checked.",
        "engine_text_integrity": "FTS5 compares its index with the rows by itself.",
        "memory_text_optimize": "FTS5 remembers words of what is gone until it tidies up.",
        "binary_index_page": "The bits of vectors are looked through in memory; pgvector has an index.",
        "binary_index_packs": "The bits of vectors are looked through in memory; pgvector has an index.",
        "embedding_removed": "The bits of vectors are looked through in memory; pgvector has an index.",
        "binary_index_rebuild": "No packed bits are kept of what was purged; pgvector has an index.",
        "binary_index_numbers": "The bits of vectors are looked through in memory; pgvector has an index.",
        "embedding_last": "The bits of vectors are looked through in memory; pgvector has an index.",
        "memory_rows": "The bits of vectors are looked through in memory; pgvector has an index.",
        "journal_head_origin": "Whether bits in memory are still this store's.",
    },
    "postgres": {
        "embedding_tune_index": "How far the index of nearest vectors is walked.",
        "embedding_count_filtered": "Whether a filter leaves so few that each is measured.",
        "engine_lock_head": "The writers of all machines wait for one row; SQLite locks the file.",
        "engine_identity": "A file has a device and a number; a store in a database, four of them.",
        "engine_size": "A file's size is asked of the file system.",
        "node_key_get": "The node's key is in a table; on SQLite it is a file beside the store.",
        "node_key_public": "The node's key is in a table; on SQLite it is a file beside the store.",
        "node_key_put": "The node's key is in a table; on SQLite it is a file beside the store.",
        "memory_text_put": "The words are Python's to make; on SQLite a trigger hands the texts to FTS5.",
        "memory_text_drop": "The words are Python's to make; on SQLite a trigger hands the texts to FTS5.",
        "word_statistics": "What the planner knows saves counting the commonest words.",
        "word_average_length": "The score takes a memory's length into account; FTS5 does by itself.",
        "engine_catalog": "Whoever owns the database can alter a table.",
        "engine_texts": "The words of every memory are compared with its texts; FTS5 does by itself.",
        "engine_text_differs": "The words of every memory are compared with its texts; FTS5 does by itself.",
        "engine_text_orphans": "The words of every memory are compared with its texts; FTS5 does by itself.",
        "engine_facts": "What is to be known of a server.",
    },
}
"""Statements of only one engine, and why."""


def written_in(folder: Path) -> set[str]:
    """Return the statements of a folder; fragments count as one."""
    texts = (file.read_text("utf-8") for file in statements.sql_files(folder))
    return {name for text in texts for name in re.findall(r"^-- name: (\w+)", text, re.M)}


def test_engine_specific_statements_are_listed_with_their_reason(engine: str) -> None:
    assert written_in(FOLDERS[engine][1]) == TWICE.keys() | ALONE[engine].keys()


def test_no_shared_statement_is_overridden(engine: str) -> None:
    shared, own = map(written_in, FOLDERS[engine])
    assert shared & own == set()


def test_nine_of_ten_common_statements_are_written_once() -> None:
    shared = written_in(SQLITE[0])
    assert len(shared) / len(shared | TWICE.keys()) >= 0.9
