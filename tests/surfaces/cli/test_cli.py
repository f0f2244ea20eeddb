"""The command line: clean for pipes, readable for people, and no traceback for any input."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from four_surfaces import new_store, run_command
from holdfast_command import HOLDFAST, Run

import holdfast
from holdfast.kernel.terminal import escape
from holdfast.operations import REGISTRY
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.run_operation import MAX_STDIN_BYTES
from timeouts import TIMEOUT

Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return new_store(tmp_path)


@pytest.fixture
def process(db: str) -> Process:
    """Run a command as a separate process, for behaviour that only a process has."""

    def process(*words: str | bytes, **more: Any) -> "subprocess.CompletedProcess[str]":
        command: list[str | bytes] = [HOLDFAST, "--db", db, *words]
        given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": TIMEOUT} | more
        return subprocess.run(command, check=False, **given)

    return process


def store(run: Run, title: str = "Plan", content: str = "We deploy on Tuesdays.", *more: str) -> dict[str, Any]:
    code, out, err = run("store", "-T", title, "-c", content, "--json", *more)
    assert (code, err) == (0, "")
    stored: dict[str, Any] = json.loads(out)
    return stored


def test_store_prints_only_the_memory_with_its_id(run: Run) -> None:
    code, out, err = run(
        "store", "-T", "Plan", "-c", "x", "-n", "team", "-p", "9", "-t", "long", "--tags", "a,b", "--json"
    )
    assert (code, err, out.count("\n")) == (0, "", 1)
    stored = json.loads(out)
    assert (stored["title"], stored["namespace"], stored["priority"], stored["tier"]) == ("Plan", "team", 9, "long")
    assert (stored["tags"], stored["source"]) == (["a", "b"], "cli")


@pytest.mark.parametrize("command", ["list", "recall"])
def test_list_and_recall_print_memories_and_their_count(run: Run, command: str) -> None:
    stored = store(run)
    _, out, _ = run(command, *(["deploy"] if command == "recall" else []), "--json")
    answer = json.loads(out)
    assert ([one["id"] for one in answer["memories"]], answer["count"]) == ([stored["id"]], 1)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_global_options_are_accepted_before_and_after_the_command(tmp_path: Path, before: bool) -> None:
    options = ["--db", str(tmp_path / "other.db"), "--json", "--agent-id", "ai:typist@here"]
    for command, words in (("store", ["-T", "x", "-c", "y"]), ("history", []), ("archive", ["list"])):
        if command == "history":
            words = [json.loads(run_command([*options, "list"])[1])["memories"][0]["id"]]
        line = [*options, command, *words] if before else [command, *words, *options]
        code, out, _ = run_command(line)
        assert code == 0
        assert json.loads(out)
    code, out, _ = run_command(["--db", str(tmp_path / "other.db"), "--json", "list"])
    assert json.loads(out)["memories"][0]["agent_id"] == "ai:typist@here"


def test_the_later_of_two_global_options_wins(tmp_path: Path) -> None:
    first, second = (str(tmp_path / name) for name in ("first.db", "second.db"))
    run_command(
        ["--db", first, "--agent-id", "ai:a@h", "store", "-T", "x", "-c", "y", "--db", second, "--agent-id", "ai:b@h"]
    )
    assert not os.path.exists(first)
    with holdfast.open(second) as hold:
        assert [one.agent_id for one in hold.list().memories] == ["ai:b@h"]


def test_two_words_of_a_hyphenated_command_are_that_command(run: Run) -> None:
    assert run("reflect", "suggest", "--dry-run", "--json") == run("reflect-suggest", "--dry-run", "--json")
    assert run("reflect", "suggest", "--dry-run")[0] == 0


def test_by_filters_and_agent_id_is_who_asks(run: Run) -> None:
    store(run, "mine", "x", "--agent-id", "ai:a@h", "--scope", "private")
    store(run, "yours", "x", "--agent-id", "ai:b@h")

    def titles(*words: str) -> list[str]:
        return [one["title"] for one in json.loads(run("list", *words, "--json")[1])["memories"]]

    assert titles("--by", "ai:b@h") == ["yours"]
    assert sorted(titles("--agent-id", "ai:a@h")) == ["mine", "yours"]
    assert titles("--agent-id", "ai:b@h", "--by", "ai:a@h") == []


def test_with_json_an_error_is_one_line_of_json_on_standard_error(run: Run) -> None:
    code, out, err = run("get", "no-such-memory", "--json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert json.loads(err) == {
        "error": "There is no memory 'no-such-memory'.",
        "code": "NOT_FOUND",
        "id": "no-such-memory",
    }


def test_without_json_an_error_is_one_readable_line(run: Run) -> None:
    assert run("get", "no-such-memory") == (1, "", "error: There is no memory 'no-such-memory'. [NOT_FOUND]\n")


USAGE = {
    "option": ["list", "--nonsense"],
    "command": ["nonsense"],
    "subcommand": ["archive", "nonsense"],
    "argument": ["get"],
    "extra": ["get", "a", "b"],
    "value": ["list", "--limit"],
    "shell": ["completions", "tcsh"],
    "port": ["serve", "--port", "http"],
    "flag": ["forget", "--dry-run=perhaps"],
    "required": ["store", "-T", "x"],
}


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE.keys())
def test_a_usage_error_has_the_same_form_as_every_other_error(run: Run, words: list[str]) -> None:
    code, out, err = run(*words, "--json")
    assert (code, out) == (2, "")
    assert json.loads(err)["code"] == "VALIDATION_FAILED"
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.rstrip().endswith("[VALIDATION_FAILED]")


def test_a_group_without_a_command_lists_its_commands(run: Run) -> None:
    code, out, _ = run("archive")
    assert (code, "restore" in out) == (2, True)
    assert json.loads(run("archive", "--json")[2])["code"] == "VALIDATION_FAILED"


def test_a_misspelt_command_gets_the_closest_suggestion(run: Run) -> None:
    assert "Did you mean `recall` or `recalls`?" in run("recal", "x")[2]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list", "--limit", "0"], "VALIDATION_FAILED"),
        (["get", "no-such-memory"], "NOT_FOUND"),
        (["forget"], "FILTER_REQUIRED"),
        (["search"], "FILTER_REQUIRED"),
        (["store", "-T", "Plan", "-c", "y", "--on-conflict", "error"], "TITLE_TAKEN"),
        (["update", "PLAN", "--priority", "9", "--expected-version", "7"], "VERSION_CONFLICT"),
        (["archive", "purge"], "CONFIRMATION_REQUIRED"),
        (["list", "--db", "/"], "STORE_UNREACHABLE"),
        (["list", "--db", "mysql://x"], "MISCONFIGURED"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_command_exits_with_the_code_of_its_error(run: Run, words: list[str], code: str) -> None:
    plan = store(run)["id"]
    exited, _, err = run(*(plan if word == "PLAN" else word for word in words), "--json")
    assert (json.loads(err)["code"], exited) == (code, wire.EXIT[code])


def test_a_batch_with_rejected_items_exits_with_an_error(run: Run, tmp_path: Path) -> None:
    batch = tmp_path / "batch.json"
    batch.write_text(json.dumps([{"title": "good", "content": "x"}, {"title": "bad", "content": " "}]))
    code, out, _ = run("bulk-store", str(batch), "--json")
    assert code == wire.PARTLY_REJECTED_EXIT
    assert [one["outcome"] for one in json.loads(out)["outcomes"]] == ["created", "rejected"]
    assert run("archive", "add", "no-such-memory")[0] == wire.PARTLY_REJECTED_EXIT


def test_a_dash_reads_content_from_standard_input(run: Run) -> None:
    code, out, _ = run("store", "-T", "x", "-c", "-", "--json", stdin="über\x1b[31m".encode())
    assert (code, json.loads(out)["content"]) == (0, "über\x1b[31m")


def test_a_dash_elsewhere_is_literal(run: Run) -> None:
    assert store(run, "-", "x")["title"] == "-"


def test_bulk_input_comes_from_standard_input_or_a_file(run: Run, tmp_path: Path) -> None:
    items = json.dumps([{"title": "a", "content": "x"}])
    assert run("bulk-store", stdin=items.encode())[0] == run("bulk-store", "-", stdin=items.encode())[0] == 0
    for missing in (str(tmp_path), str(tmp_path / "missing.json"), "\udcff"):
        code, _, err = run("bulk-store", missing, "--json")
        assert (code, json.loads(err)["code"]) == (2, "VALIDATION_FAILED")


@pytest.mark.parametrize(
    "stdin", [b"\xff\xfe", b"", b"   ", b"a\x00b", b"x" * 65_537], ids=["not-utf8", "empty", "blank", "NUL", "too-long"]
)
def test_invalid_content_from_standard_input_is_refused_too(run: Run, stdin: bytes) -> None:
    code, out, err = run("store", "-T", "x", "-c", "-", "--json", stdin=stdin)
    assert (code, out, json.loads(err)["code"]) == (2, "", "VALIDATION_FAILED")


def test_an_endless_pipe_is_read_only_up_to_the_limit(run: Run) -> None:
    code, _, err = run("mine", "--content", "-", stdin=b"x" * (MAX_STDIN_BYTES + 1))
    assert (code, "more than 64 MiB: use a file" in err) == (2, True)


BAD_JSON = {
    "depth": "[" * 100_000,
    "deep-objects": '{"a":' * 5000 + "1" + "}" * 5000,
    "nan": '[{"title": "x", "content": "y", "metadata": {"k": NaN}}]',
    "infinity": '[{"title": "x", "content": "y", "metadata": {"k": 1e400}}]',
    "surrogate": '[{"title": "\\ud800", "content": "y"}]',
    "big-number": '[{"title": "x", "content": "y", "priority": 9223372036854775808}]',
    "digits": '[{"title": "x", "content": "y", "metadata": {"k": ' + "9" * 5000 + "}}]",
    "bom": '\ufeff[{"title": "x", "content": "y"}]',
    "trailing": '[{"title": "x", "content": "y"}] garbage',
    "object": "5",
    "empty": "",
    "nul": '[{"title": "x\\u0000", "content": "y"}]',
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_unusable_json_is_refused_and_changes_nothing(run: Run, text: str) -> None:
    code, out, err = run("bulk-store", "-", "--json", stdin=text.encode())
    assert code in (2, wire.PARTLY_REJECTED_EXIT)
    assert "Traceback" not in out + err
    assert json.loads(run("list", "--json")[1])["count"] == 0


def test_json_given_as_a_file_name_is_quoted_in_short(run: Run) -> None:
    code, _, err = run("bulk-store", json.dumps([{"title": "x", "content": "y" * 20_000}]), "--json")
    error = json.loads(err)
    assert (code, error["code"], len(error["error"]) < 250) == (2, "VALIDATION_FAILED", True)
    assert error["error"].endswith("cannot be read: File name too long. Pass a file name, or - for standard input.")
    _, _, err = run("bulk-store", "no-such-file.json", "--json")
    assert json.loads(err)["error"] == "no-such-file.json cannot be read: No such file or directory."


def test_the_last_of_two_equal_keys_counts(run: Run) -> None:
    run("bulk-store", "-", stdin=b'[{"title": "x", "title": "z", "content": "y"}]')
    assert [one["title"] for one in json.loads(run("list", "--json")[1])["memories"]] == ["z"]


SEARCHES = ['"', "*", "AND", "a AND", "NEAR(", "title:", "C++", "'", "(" * 2000, "x" * 100_000, "--", "%s", "\u202e"]


@pytest.mark.parametrize("text", SEARCHES, ids=lambda text: ascii(text[:12]))
@pytest.mark.parametrize("command", ["search", "recall"])
def test_any_text_can_be_typed_as_a_search(run: Run, command: str, text: str) -> None:
    code, out, err = run(command, "--json", "--", text)
    if len(text) > 65_536 and command == "search":
        assert (code, json.loads(err)["fields"]) == (2, ["query"])
    else:
        assert (code, json.loads(out)["count"]) == (0, 0)


BAD_VALUES = [
    ("limit", ["list", "--limit", "-1"]),
    ("limit", ["list", "--limit", "1000000000"]),
    ("limit", ["list", "--limit", "'"]),
    ("offset", ["list", "--offset", "9223372036854775808"]),
    ("namespace", ["list", "-n", "../../etc"]),
    ("namespace", ["list", "-n", "a b"]),
    ("namespace", ["list", "-n", "a" * 10_000]),
    ("since", ["list", "--since", "0000-00-00"]),
    ("since", ["list", "--since", "10000-01-01"]),
    ("tier", ["list", "-t", "eternal"]),
    ("title", ["store", "-c", "x", "-T", "a\x1b[2J"]),
    ("title", ["store", "-c", "x", "-T", "x" * 513]),
    ("content", ["store", "-T", "x", "-c", ""]),
    ("content", ["store", "-T", "x", "-c", "x" * 65_537]),
    ("confidence", ["store", "-T", "x", "-c", "y", "--confidence", "nan"]),
    ("metadata", ["store", "-T", "x", "-c", "y", "--metadata", "{"]),
    ("metadata", ["store", "-T", "x", "-c", "y", "--metadata", "novalue"]),
    ("ttl_secs", ["store", "-T", "x", "-c", "y", "--ttl-secs", "-5"]),
    ("change", ["undo", "one"]),
    ("witness", ["verify", "--witness", "x"]),
]


@pytest.mark.parametrize(
    ("field", "words"), BAD_VALUES, ids=lambda given: " ".join(given)[:40] if isinstance(given, list) else given
)
def test_an_unusable_value_is_refused_and_its_field_named(run: Run, field: str, words: list[str]) -> None:
    code, out, err = run(*words, "--json")
    error = json.loads(err)
    assert (code, out, error["code"], error["fields"]) == (2, "", "VALIDATION_FAILED", [field])


def test_an_unknown_filter_is_an_error_and_not_ignored(run: Run) -> None:
    store(run)
    for words in (["list", "--x') OR 1=1 --", "1"], ["list", "--where", "1"], ["recall", "x", "--$where=1"]):
        assert run(*words)[0] == 2


def test_forget_without_a_filter_is_refused_and_one_without_matches_archives_nothing(run: Run) -> None:
    store(run)
    assert run("forget", "--json")[0] == 2
    assert json.loads(run("forget", "-p", "unrelated", "--json")[1])["archived"] == 0
    assert json.loads(run("list", "--json")[1])["count"] == 1


def test_irreversible_commands_need_a_confirmation(run: Run) -> None:
    stored = store(run)
    run("archive", "add", stored["id"])
    assert run("archive", "purge")[0] == wire.EXIT["CONFIRMATION_REQUIRED"]
    assert json.loads(run("archive", "list", "--json")[1])["count"] == 1
    code, out, _ = run("archive", "purge", "--older-than-days", "0", "--yes", "--json")
    assert (code, json.loads(out)["purged"]) == (0, 1)


def test_only_irreversible_commands_ask_for_confirmation(run: Run) -> None:
    assert {op.name for op in REGISTRY if op.irreversible} == {
        "archive_purge",
        "compact",
        "interaction_erase",
        "principal_purge",
        "quarantine_drop",
        "restore",
        "run_clear",
    }
    assert run("delete", store(run)["id"])[0] == 0


HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \r\n\u202eturned \x00".replace("\x00", "")


@pytest.mark.parametrize(
    "words",
    [["list"], ["recall", "hostile"], ["search", "hostile"], ["get", "ID"], ["history", "ID"], ["events"], ["export"]],
)
def test_stored_text_cannot_emit_terminal_control_sequences(run: Run, words: list[str]) -> None:
    stored = store(run, "hostile", f"hostile {HOSTILE}", "--metadata", json.dumps({HOSTILE: HOSTILE}))
    code, out, err = run(*(stored["id"] if word == "ID" else word for word in words))
    assert (code, err) == (0, "")
    assert "hostile" in out
    assert not set("\x1b\x07\x9b\r\u202e") & set(out)


def test_text_is_escaped_and_stays_readable() -> None:
    assert escape("a\x1b[31mb\u202ec\nd\te\ud800") == "a\\x1b[31mb\\u202ec\nd\te\\ud800"


def test_an_error_quoting_its_input_is_escaped_too(run: Run) -> None:
    assert "\x1b" not in run("get", "a\x1b[2J")[2]


def test_a_list_is_a_table_with_aligned_columns(run: Run) -> None:
    store(run, "Short", "x")
    store(run, "A rather longer title", "x", "-n", "team/project", "-p", "10")
    head, *rows = run("list")[1].splitlines()
    for column in ("TIER", "PRI", "NAMESPACE", "TITLE"):
        start = head.index(column)
        assert all(row[start - 1] == " " and row[start] != " " for row in rows)
    assert [row.split("  ")[-1] for row in rows] == ["A rather longer title", "Short"]


def test_an_empty_result_is_stated_in_words(run: Run) -> None:
    assert [
        run(*words)[1] for words in (["list"], ["recall", "x"], ["search", "x"], ["archive", "list"], ["inbox"])
    ] == [
        "No memories.\n",
        "Nothing found.\n",
        "No memory contains all of these words.\n",
        "The archive is empty.\n",
        "No messages.\n",
    ]


def test_a_memory_is_displayed_in_full(run: Run) -> None:
    _, out, _ = run("store", "-T", "Plan", "-c", "We deploy\non Tuesdays.", "--tags", "a,b")
    lines = out.splitlines()
    assert (lines[0], lines[3:7]) == ("Plan", ["tags: a, b", "", "We deploy", "on Tuesdays."])


def test_a_reader_that_closes_early_causes_no_error_output(run: Run, db: str) -> None:
    for number in range(50):
        store(run, f"{number}", "x" * 5000)
    command = f"{HOLDFAST} --db {db} list --limit 1000 --json | head -c 10"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ('{"memories', "")


def test_a_failed_write_of_the_output_is_an_error(process: Process) -> None:
    with open("/dev/full", "w") as full:
        done = process("list", "--json", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == wire.EXIT["ERROR"]
    assert json.loads(done.stderr)["code"] == "ERROR"


def test_closed_streams_cause_no_crash(db: str) -> None:
    for closed, words, code in (("<&-", "store -T x -c -", 2), (">&-", "list", 0), ("2>&-", "get nothing", 1)):
        command = f"{HOLDFAST} --db {db} {words} {closed}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), words


def test_a_machine_without_home_or_locale_is_supported(process: Process) -> None:
    bare = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = process("store", "-T", "é", "-c", "日本語 \U0001f600", env=bare, text=False, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "日本語" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [b"store", b"-T", b"\xff", b"-c", b"y"],
        [b"get", b"\xff"],
        [b"list", b"--\xff"],
        [b"\xff"],
        [b"bulk-store", b"\xff"],
        [b"--agent-id", b"\xff", b"list"],
    ],
    ids=str,
)
def test_arguments_that_are_not_text_are_refused(process: Process, words: list[bytes]) -> None:
    done = process("--json", *words)
    assert (done.returncode, done.stdout, json.loads(done.stderr)["code"]) == (2, "", "VALIDATION_FAILED")


def test_a_store_path_that_is_not_text_is_refused_before_a_file_is_created(process: Process, tmp_path: Path) -> None:
    done = process("list", "--json", b"--db", b"\xff.db", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stderr)["code"]) == (wire.EXIT["MISCONFIGURED"], "MISCONFIGURED")
    assert not [name for name in os.listdir(tmp_path) if not name.startswith("memory.db")]


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    note, cut, folder = tmp_path / "note.txt", tmp_path / "cut.db", tmp_path / "folder"
    note.write_bytes(b"a shopping list, and nothing but a shopping list" * 50)
    folder.mkdir()
    (folder / "x").symlink_to("x")
    run_command(["--db", str(cut), "store", "-T", "x", "-c", "y"])
    cut.write_bytes(cut.read_bytes()[:-4096])
    for path, codes in (
        (note, {"NOT_A_STORE"}),
        (folder, {"STORE_UNREACHABLE"}),
        (Path("/dev/full"), {"STORE_UNREACHABLE"}),
        (folder / "x", {"STORE_UNREACHABLE"}),
        (cut, {"STORE_DAMAGED", "NOT_A_STORE"}),
    ):
        before = path.read_bytes() if path.is_file() else b""
        code, out, err = run_command(["--db", str(path), "list", "--json"])
        outcome = json.loads(err) if err else {"code": None, "out": out}
        assert outcome["code"] in codes, (path, outcome)
        assert code == wire.EXIT[outcome["code"]]
        assert (path.read_bytes() if path.is_file() else b"") == before


def test_an_unusable_setting_is_refused(process: Process, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("prot = 1")
    for bad in ({"HOLDFAST_CONFIG": str(config)}, {"HOLDFAST_PORT": "99999"}, {"HOLDFAST_PROT": "1"}):
        done = process("list", "--json", env={**os.environ, **bad})
        assert (done.returncode, json.loads(done.stderr)["code"]) == (wire.EXIT["MISCONFIGURED"], "MISCONFIGURED")


def test_following_continues_with_new_changes_until_interrupted(run: Run, db: str) -> None:
    store(run, "first", "x")
    command = [HOLDFAST, "--db", db, "events", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        assert follower.stderr
        assert json.loads(follower.stdout.readline())["memory"]["title"] == "first"
        store(run, "second", "x")
        assert json.loads(follower.stdout.readline())["memory"]["title"] == "second"
        follower.send_signal(signal.SIGINT)
        assert (follower.wait(timeout=TIMEOUT), follower.stderr.read().strip()) == (130, "")


def test_a_deprecated_setting_prints_one_line_on_standard_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEEP_RUNS", "7")
    monkeypatch.setenv("HOLDFAST_AUDIT", "none")
    code, out, err = run("list", "--json")
    assert (code, json.loads(out)["memories"]) == (0, [])
    (line,) = err.splitlines()
    assert line.startswith("warning: HOLDFAST_AUDIT is deprecated; use HOLDFAST_ACCESS_LOG.")
    assert "HOLDFAST_KEEP_RUNS is deprecated; use HOLDFAST_RUN_RETENTION_DAYS." in line


def test_both_names_of_a_setting_are_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEEP_RUNS", "7")
    monkeypatch.setenv("HOLDFAST_RUN_RETENTION_DAYS", "7")
    code, out, err = run("list")
    assert (code, out) == (wire.EXIT["MISCONFIGURED"], "")
    assert "HOLDFAST_KEEP_RUNS and HOLDFAST_RUN_RETENTION_DAYS are the same setting" in err
