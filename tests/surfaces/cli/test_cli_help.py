"""Help, the index of commands, and completion."""

import os
import re
import subprocess
from pathlib import Path

import click
import pytest
from four_surfaces import new_store, run_command
from holdfast_command import HOLDFAST, Run

import holdfast
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces.cli.app import cli
from holdfast.surfaces.cli.command_group import locate_command
from holdfast.surfaces.cli.help.command_tree import command_tree
from holdfast.surfaces.cli.help.commands import COMMANDS
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.help.words import EVERYDAY, FOREIGN, PURPOSES, TOPICS
from holdfast.surfaces.cli.operation_command import build_command


@pytest.fixture
def db(tmp_path: Path) -> str:
    return new_store(tmp_path)


ON_CLI = [op for op in REGISTRY if "cli" in op.surfaces]


def test_every_command_has_help_naming_all_its_options(run: Run) -> None:
    helps = [(op, *run(*op.cli, "--help")) for op in ON_CLI]
    assert [(op.name, code, err) for op, code, _, err in helps if (code, err) != (0, "")] == []
    assert [
        (op.name, word)
        for op, _, out, _ in helps
        for word in (op.summary.split()[0], "--db", "--json", *(param.opts[0] for param in options_of(op)))
        if word not in out
    ] == []


def options_of(op: Operation) -> list[click.Option]:
    params = build_command(op).params
    return [param for param in params if isinstance(param, click.Option) and not param.hidden]


def test_every_option_and_argument_of_every_command_is_described() -> None:
    root = click.Context(cli, info_name="holdfast")
    undescribed = []
    for path in command_tree().visible:
        command = locate_command(root, path).command
        assert isinstance(command, DocumentedCommand)
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        undescribed += [(path, one.opts[0]) for one in options if not one.help]
        undescribed += [(path, name) for name, text in command.arguments if not text]
    assert undescribed == []


def test_common_options_come_before_advanced_ones(run: Run) -> None:
    _, out, _ = run("store", "--help")
    headings = ("Examples:", "\nOptions:", "-T, --title", "Advanced options:", "--citations", "Global options:")
    places = [out.index(heading) for heading in headings]
    assert places == sorted(places)


def test_no_letter_is_shared_by_two_options_of_a_command() -> None:
    letters = {op.name: [name for option in options_of(op) for name in option.opts if len(name) == 2] for op in ON_CLI}
    assert {name: found for name, found in letters.items() if len(found) != len(set(found))} == {}


def list_names(out: str) -> list[str]:
    return re.findall(r"^  ([a-z][a-z-]*)  ", out, re.MULTILINE)


def test_help_lists_at_most_forty_commands_by_topic_each_once(run: Run) -> None:
    code, out, _ = run("help")
    names = [name for names in TOPICS.values() for name in names]
    assert (code, list_names(out)) == (0, names)
    assert sorted(names) == sorted(command_tree().names(()))
    assert len(names) == len(set(names)) <= 40
    assert run("--help")[1] == out


def test_holdfast_alone_shows_ten_everyday_commands_and_where_the_rest_is() -> None:
    code, out, err = run_command([])
    assert list_names(out.decode()) == list(EVERYDAY)
    assert (len(EVERYDAY), code, err, b"`holdfast help`" in out) == (10, 2, b"", True)


def test_help_all_lists_every_command_with_its_words(run: Run) -> None:
    code, out, _ = run("help", "--all")
    assert code == 0
    assert [path for path in command_tree().visible if f"\n  {' '.join(path)} " not in f"\n{out}\n"] == []


@pytest.mark.parametrize("words", ["task add", "sync", "sync peers add", "agents hooks", "peers add"])
def test_help_of_words_is_the_help_of_that_command(run: Run, words: str) -> None:
    out = run("help", *words.split())[1]
    assert out == run(*words.split(), "--help")[1]
    assert out.startswith(f"Usage: holdfast {words} ")


def test_every_group_says_what_it_is_for() -> None:
    tree = command_tree()
    assert [path for path in tree.children if path and " ".join(path) not in PURPOSES] == []
    assert [words for words in PURPOSES if tuple(words.split()) not in tree.children] == []


def test_every_former_name_runs_the_command_that_replaced_it() -> None:
    tree, root = command_tree(), click.Context(cli, info_name="holdfast")
    hidden = {former: locate_command(root, former).command.callback for former in tree.former}
    shown = {former: locate_command(root, now).command.callback for former, now in tree.former.items()}

    def names(path: tuple[str, ...], command: object) -> str:
        return getattr(tree.leaf(path), "name", None) or repr(command)

    assert {former: names(former, hidden[former]) for former in hidden} == {
        former: names(now, shown[former]) for former, now in tree.former.items()
    }
    assert [former for former in tree.former if former in tree.visible] == []


@pytest.mark.parametrize(
    "words",
    [
        *("audit", "auto-tag", "bulk-store", "kg-query", "get-links", "find-paths", "unlink", "why-not", "mine", "gc"),
        *("verify", "events", "taxonomy", "namespaces", "backups", "restore", "migrate", "reembed", "capabilities"),
        *("peers add", "peers list", "conflicts resolve", "quarantine drop", "sync-status", "sync export-bundle"),
        *("principal merge", "fact everybody", "conversation say", "onboarding tell", "session keep", "project which"),
        *("lesson add", "outcome record", "limitation resolve", "observation save", "run open", "task runs"),
        *("keys create", "grant", "inbox", "interaction list", "policy set", "pending approve", "price set"),
        *("subscribe", "subscription deliveries", "hooks list", "hooks on", "worker", "sync-daemon", "boot", "wrap"),
        *("hook", "bench quality", "completions", "curate-proposals", "curate proposals", "invalidations list"),
        *("reflect suggest", "reflect-suggest", "export-reflections", "import reflections", "skill compose"),
        *("recover-previous-session", "list-subscriptions", "kg-invalidate", "verify-signed-events-chain", "llm test"),
    ],
)
def test_a_name_of_an_earlier_release_or_of_ai_memory_still_works(run: Run, words: str) -> None:
    code, out, err = run(*words.split(), "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: ")


def test_a_former_name_takes_the_options_it_had(run: Run) -> None:
    id = run("store", "-T", "Plan", "-c", "x", "--scope", "private", "--json")[1].split('"id":"')[1][:36]
    assert run("grant", id, "--agent-id", "ai:scout@here")[0] == 0
    assert "ai:scout@here" in run("agents", "register", "--agent-id", "ai:scout@here", "--agent-type", "human")[1]
    assert run("kg-query", "--source-id", id)[0] == 0
    assert run("graph", "path", "--target-id", id, id)[0] == 0
    for option in ("--budget", "--budget-tokens"):
        assert run("context", "plan", option, "300")[0] == 0
    assert run("fact", "set", "city", "Bonn", "--principal", "ann")[0] == 0
    assert "Bonn" in run("fact", "get", "city", "--person", "ann")[1]
    assert run("recall", "--query", "plan", "--json")[0] == run("recall", "--context", "plan", "--json")[0] == 0


def test_an_argument_given_twice_or_not_at_all_is_an_error(run: Run) -> None:
    assert "Missing argument 'ID'" in run("get")[2]
    assert "unexpected extra argument (b)" in run("get", "--id", "a", "b")[2]


def test_a_subcommand_wins_over_an_argument_of_the_same_name(run: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    holdfast.open(other).close()
    assert run("sync", other, "--json")[0] == 0
    assert "peers" in run("sync", "status", "--json")[1]
    assert run("sync", "--json", "status")[1].startswith("{")
    assert run("stale")[1] == run("stale", "list")[1] == run("invalidations", "list")[1]


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        ("add", "`store`"),
        ("remember", "`store`"),
        ("rm", "`delete`"),
        ("find", "`recall` or `search`"),
        ("ls", "`list`"),
        ("status", "`stats` or `doctor` or `sync status`"),
        ("verfy", "`admin verify`"),
        ("stroe", "`store`"),
        ("webhook rm", "`webhook remove`"),
        ("skill show", "`skill get`"),
        ("stale lst", "`stale`"),
        ("xqzvw", "help"),
    ],
)
def test_an_unknown_word_leads_to_the_right_command(run: Run, words: str, suggested: str) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert f"No such command `{words}`." in err
    assert suggested in err.splitlines()[-1]


def test_suggestions_are_commands_and_no_foreign_word_hides_one() -> None:
    tree = command_tree()

    def exists(words: str) -> bool:
        path = tuple(word for word in words.split() if not word.startswith("--"))
        return tree.leaf(path) is not None or tree.is_group(path)

    assert [words for meant in FOREIGN.values() for words in meant if not exists(words)] == []
    assert [word for word in FOREIGN if tree.leaf((word,)) or tree.is_group((word,))] == []


def test_the_command_index_matches_each_command() -> None:
    loaded = {words: entry.load() for words, entry in COMMANDS.items()}
    assert [words for words, command in loaded.items() if command.name != words.split()[-1]] == []
    summaries = {words: entry.summary for words, entry in COMMANDS.items()}
    assert {words: command.get_short_help_str(90) for words, command in loaded.items()} == summaries


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_completions(run: Run, shell: str) -> None:
    code, out, err = run("completions", shell)
    assert (code, err) == (0, "")
    assert "_HOLDFAST_COMPLETE" in out


@pytest.mark.parametrize(
    ("typed_so_far", "offered"),
    [
        ("holdfast reca", {"recall", "recalls"}),
        ("holdfast kg-", set()),
        ("holdfast sync st", {"status"}),
        ("holdfast sync peers a", {"add"}),
        ("holdfast sync --dir", {"--direction"}),
        ("holdfast stale d", {"dismiss"}),
        ("holdfast archive re", {"restore"}),
        ("holdfast store --tit", {"--title"}),
        ("holdfast store --tier m", {"mid"}),
    ],
)
def test_completion_covers_commands_options_and_choices(typed_so_far: str, offered: set[str]) -> None:
    words = typed_so_far.split()
    environment = {
        **os.environ,
        "_HOLDFAST_COMPLETE": "bash_complete",
        "COMP_WORDS": typed_so_far,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([HOLDFAST], env=environment, capture_output=True, text=True, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines() if line} == offered


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == (0, f"holdfast, version {holdfast.__version__}\n", "")
