"""The command line: one command per operation. Each parses, makes one call and prints."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast import settings as setting
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import ConfirmationRequired, HoldfastError, HookConfirmationRequired, Invalid, StoreNotFound
from holdfast.kernel.registry.operation import Entry, bare_type, enum_values, parse_words
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.app import Holdfast

RETRY_SECONDS = 1.0
"""Pause before an unreachable store is tried again."""
FOLLOW_SECONDS = 15.0
"""Longest pause between two polls of a feed."""
MAX_STDIN_BYTES = 1 << 26
"""Bytes read from standard input for one field; no field accepts more."""
GLOBAL_OPTIONS = ("db", "json", "agent_id")
CREATE_HINT = "Create one with `holdfast setup` or `holdfast store`, or choose another with --db or HOLDFAST_DB."
FAMILY_NAMES = {
    "core": "Store and find",
    "lifecycle": "Lifetimes and undo",
    "graph": "Links, entities and namespaces",
    "governance": "Access and permissions",
    "power": "Import, learn, plan and tidy up",
    "meta": "The store itself",
    "archive": "The archive",
    "other": "Messages, sync and backups",
}
SETUP_COMMANDS = ("setup", "install", "boot", "wrap", "hook", "hooks")
"""Commands that connect agents, in the order a newcomer needs them."""


def global_options(taken: set[str] | frozenset[str] = frozenset()) -> list[click.Option]:
    """Return the options accepted before or after a command; a field of the command takes precedence."""
    options = [
        click.Option(["--db"], metavar="PATH", help="Store to use (or HOLDFAST_DB)."),
        click.Option(["--json"], is_flag=True, default=None, help="Print JSON only."),
        click.Option(["--agent-id"], metavar="ID", help="Agent id (or HOLDFAST_AGENT_ID)."),
    ]
    return [option for option in options if option.name not in taken]


class CommandGroup(click.Group):
    """A group that builds a command only when it is called, which keeps startup fast."""

    def __init__(self, path: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(**more)
        self.path = path

    def _entries(self) -> dict[str, Entry | None]:
        """Map each name in this group to its operation, or to None for a subgroup."""
        found: dict[str, Entry | None] = {}
        depth = len(self.path)
        for op in REGISTRY.entries.values():
            if "cli" in op.surfaces and op.cli[:depth] == self.path and len(op.cli) > depth:
                found[op.cli[depth]] = op if len(op.cli) == depth + 1 else None
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._entries(), *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        own = self._entries()
        if cmd_name not in own:
            return None
        op = own[cmd_name]
        return build_command(REGISTRY[op.name]) if op else self._group(cmd_name)

    def _group(self, name: str) -> CommandGroup:
        made = CommandGroup((*self.path, name), name=name, params=global_options())
        made.help = f"{name.capitalize()}: {', '.join(made._entries())}."
        return made

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; two words also match a hyphenated name: `reflect suggest` is `reflect-suggest`.

        The error for an unknown command suggests similar names.
        """
        if len(args) > 1 and self.get_command(ctx, joined := "-".join(args[:2])):
            args = [joined, *args[2:]]
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = similar_names(args[0], self.list_commands(ctx))
            ctx.fail(f"Unknown command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by topic, everyday ones first."""
        titles = () if self.path else ("Connect agents", *FAMILY_NAMES.values())
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for name, op in self._entries().items():
            text = op.summary if op else self._group(name).get_short_help_str(80)
            if name not in self.commands:
                sections.setdefault(self._section(name), []).append((name, text))
        connecting = [] if self.path else [name for name in SETUP_COMMANDS if name in self.commands]
        for name in (*connecting, *sorted(self.commands.keys() - set(connecting))):
            title = "Connect agents" if name in connecting else "Commands" if self.path else "Run"
            sections.setdefault(title, []).append((name, self.commands[name].get_short_help_str(80)))
        for title in filter(sections.get, sections):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def _section(self, name: str) -> str:
        if self.path:
            return "Commands"
        return next(FAMILY_NAMES[entry.family] for entry in REGISTRY.entries.values() if entry.cli[0] == name)


class NonFailingCommand(click.Command):
    """A command run by an agent host. It always exits with 0; an error is one line on standard error."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            self._print_error(Invalid(error.format_message()))
            raise click.exceptions.Exit(0) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - no error may end the agent's session
            self._print_error(error)
            raise click.exceptions.Exit(0) from None

    def _print_error(self, error: Exception) -> None:
        from holdfast.surfaces.cli.hook_command import print_hook_error

        print_hook_error(self.name or "", error)


def similar_names(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    return " or ".join(get_close_matches(word, known, n=2))


def build_command(op: Operation) -> click.Command:
    """Build the command of an operation."""
    params: list[click.Parameter] = []
    shorts: set[str] = set()
    whole = op.bulk or op.whole
    for field in op.fields:
        name = field.encode_name
        if "cli" in (op.field_option(name, "not_on") or ()) or op.field_option(name, "role") == "actor":
            continue
        if name == whole:
            params.append(click.Argument([f"f_{name}"], metavar="[FILE|-]", required=False, default="-"))
        elif op.field_option(name, "argument"):
            params.append(_argument(field))
        else:
            params.append(_option(op, field, shorts))
    if op.irreversible:
        params.append(click.Option(["--yes"], is_flag=True, help="Skip the confirmation."))
    if op.feed:
        params.append(click.Option(["--follow"], is_flag=True, help="Keep printing new changes."))
    if op.repeats:
        params += _repeat_options()
    taken = {param.name[2:] for param in params if param.name}
    return click.Command(
        op.cli[-1], params=[*params, *global_options(taken)], help=op.description, callback=_callback(op)
    )


def _repeat_options() -> list[click.Parameter]:
    return [
        click.Option(["--once"], is_flag=True, help="Run once (default)."),
        click.Option(["--daemon"], is_flag=True, help="Repeat until interrupted."),
        click.Option(
            ["--interval-secs"],
            type=click.IntRange(60, 86_400),
            default=3600,
            metavar="N",
            help="Seconds between runs [default: 3600].",
        ),
    ]


def _argument(field: msgspec.structs.FieldInfo) -> click.Argument:
    several = isinstance(bare_type(msgspec.inspect.type_info(field.type)), msgspec.inspect.ListType)
    name = field.encode_name
    shown = name.removesuffix("s").upper() + "..." if several else name.upper()
    return click.Argument(
        [f"f_{field.encode_name}"],
        metavar=shown if field.required else f"[{shown}]",
        required=field.required,
        nargs=-1 if several else 1,
    )


def _option(op: Operation, field: msgspec.structs.FieldInfo, shorts: set[str]) -> click.Option:
    name = field.encode_name
    flag = "--" + name.replace("_", "-")
    info = bare_type(msgspec.inspect.type_info(field.type))
    text = describe(field.type)
    if isinstance(info, msgspec.inspect.BoolType):
        return click.Option([f"f_{name}", f"{flag}/--no-{flag[2:]}"], default=None, help=text)
    names = [f"f_{name}", flag]
    short = op.field_option(name, "short")
    if short and short not in shorts:
        shorts.add(short)
        names.append(f"-{short}")
    if not field.required and field.default not in (msgspec.NODEFAULT, None, msgspec.UNSET):
        text = f"{text} [default: {field.default}]".strip()
    if field.required:
        text = f"{text} [required]".strip()
    known = enum_values(field.type)
    return click.Option(
        names,
        multiple=True,
        metavar=metavar(field.type),
        help=text,
        shell_complete=lambda ctx, param, begun: [word for word in known if word.startswith(begun)],
    )


def metavar(type_: Any) -> str:
    info = bare_type(msgspec.inspect.type_info(type_))
    match info:
        case msgspec.inspect.LiteralType():
            return "|".join(enum_values(type_))
        case msgspec.inspect.ListType() if isinstance(bare_type(info.item_type), msgspec.inspect.LiteralType):
            return ",".join(enum_values(type_)[:2]) + ",..."
        case msgspec.inspect.IntType():
            return "N"
        case msgspec.inspect.FloatType():
            return "X"
        case msgspec.inspect.ListType() if isinstance(bare_type(info.item_type), msgspec.inspect.StrType):
            return "A,B"
        case msgspec.inspect.StrType():
            return "TEXT"
        case _:
            return "JSON"


def describe(type_: Any) -> str:
    """Return the description in a field's declaration."""
    info = msgspec.inspect.type_info(type_)
    while isinstance(info, msgspec.inspect.Metadata | msgspec.inspect.UnionType):
        if isinstance(info, msgspec.inspect.UnionType):
            info = info.types[0]
            continue
        if info.extra_json_schema and "description" in info.extra_json_schema:
            return str(info.extra_json_schema["description"])
        info = info.type
    return ""


def _callback(op: Operation) -> Callable[..., None]:
    def callback(yes: bool = False, follow: bool = False, daemon: bool = False, **given: Any) -> None:
        wanted = resolve_global_options(given)
        if daemon and given.get("once"):
            raise Invalid("--once and --daemon exclude each other: use one", fields=["once", "daemon"])
        words = {name[2:]: value for name, value in given.items() if name.startswith("f_")}
        arguments = parse_arguments(op, words)
        if op.irreversible and not yes and not arguments.get("dry_run"):
            confirm(op, wanted)
        with open_store(wanted, create=op.makes_store or op.effect is not Effect.READ, later=op.opens_nothing) as hold:
            if follow:
                return follow_feed(op, hold, arguments, wanted)
            if daemon:
                return run_repeatedly(op, hold, arguments, wanted, given["interval_secs"])
            with progress_of(op.name, wanted) as progress:
                answer = call_with_confirmation(op, hold, arguments, wanted, progress)
            print_answer(op, answer, wanted)
            flush_embeddings(op, hold, wanted)
            exit_with(exit_code_of(answer))
        return None

    return callback


def call_with_confirmation(
    op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any], progress: Progress
) -> Any:
    """Call an operation. If a hook requires confirmation and there is a terminal, ask and call again."""
    try:
        return hold.call(op.name, arguments, progress=progress)
    except HookConfirmationRequired as asks:
        if wanted["json"] or not (sys.stdin and sys.stdin.isatty()) or not click.confirm(asks.message, err=True):
            raise
    from dataclasses import replace

    hold.ctx = replace(hold.ctx, is_confirmed=True)
    return hold.call(op.name, arguments, progress=progress)


def flush_embeddings(op: Operation, hold: Holdfast, wanted: dict[str, Any]) -> None:
    """Compute the embeddings of a large write. A failure is printed; a later run computes what is missing."""
    if op.effect is Effect.READ or op.opens_nothing or op.name == "reembed":
        return
    try:
        with progress_of("vectors", wanted) as progress:
            hold.flush_embeddings(progress, wholly=op.reports or op.bulk is not None)
    except HoldfastError as error:
        click.echo(f"Embeddings were not computed. {error.message}", err=True)


def resolve_global_options(given: dict[str, Any]) -> dict[str, Any]:
    """Merge the global options: those after the command win over those before it."""
    chosen = {name: given.get(name) for name in GLOBAL_OPTIONS}
    before = click.get_current_context().parent
    while before:
        chosen = {name: before.params.get(name) if value is None else value for name, value in chosen.items()}
        before = before.parent
    return chosen


def parse_arguments(op: Operation, given: dict[str, Any]) -> dict[str, Any]:
    """Convert the typed words to the operation's arguments."""
    words: dict[str, list[str]] = {}
    ready: dict[str, Any] = {}
    for name, value in given.items():
        if name == (op.bulk or op.whole):
            words[name] = [read_file(value)]
        elif isinstance(value, bool):
            ready[name] = value
        elif value not in (None, ()):
            many = [value] if isinstance(value, str) else list(value)
            words[name] = [
                read_stdin(MAX_STDIN_BYTES) if one == "-" and op.field_option(name, "stdin") else one for one in many
            ]
    return parse_words(op, words) | ready


def read_stdin(max_bytes: int | None = None) -> str:
    """Read standard input; reject more than the limit without reading the rest."""
    if sys.stdin is None:
        raise Invalid("Standard input is closed: name a file instead.")
    read = sys.stdin.buffer.read(-1 if max_bytes is None else max_bytes + 1)
    if max_bytes is not None and len(read) > max_bytes:
        raise Invalid(f"Standard input has more than {max_bytes >> 20} MiB: use a file, or split it.")
    try:
        return read.decode()
    except UnicodeDecodeError:
        raise Invalid("Standard input is not UTF-8 text.") from None


def read_file(name: str) -> str:
    if name == "-":
        return read_stdin()
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise Invalid(f"{name} is not UTF-8 text.") from None
    except OSError as error:
        raise Invalid(_unreadable_message(name, error)) from None


def _unreadable_message(name: str, error: OSError) -> str:
    """Explain why a file cannot be read. A long name is shortened: it may be content passed by mistake."""
    from holdfast.kernel.terminal import shorten

    hint = " Pass a file name, or - for standard input." if name.lstrip()[:1] in ("[", "{") else ""
    return f"{shorten(name)} cannot be read: {error.strerror}.{hint}"


def confirm(op: Operation, wanted: dict[str, Any]) -> None:
    if wanted["json"] or not (sys.stdin and sys.stdin.isatty()):
        raise ConfirmationRequired
    if not click.confirm(f"{op.summary} This cannot be undone. Continue?", err=True):
        raise ConfirmationRequired("Cancelled. Nothing was changed.")


@contextmanager
def open_store(wanted: dict[str, Any], *, create: bool = True, later: bool = False) -> Iterator[Holdfast]:
    """Open the store of a command. A read-only command does not create one."""
    from holdfast.app import open as open_memory

    try:
        opening = open_memory(settings=settings_of(wanted), source="cli", make=create, later=later, once=True)
    except StoreNotFound as error:
        raise StoreNotFound(f"{error.message} {CREATE_HINT}") from None
    with opening as hold:
        yield hold


def settings_of(wanted: dict[str, Any], **flags: Any) -> setting.Settings:
    """Load the settings, overridden by the global options and the command's flags."""
    return setting.load({"db": wanted["db"], "agent_id": wanted["agent_id"], **flags})


@contextmanager
def progress_of(name: str, wanted: dict[str, Any]) -> Iterator[Progress]:
    """Show a progress bar on a terminal; show nothing in a pipe."""
    if wanted["json"] or sys.stderr is None or not sys.stderr.isatty():
        yield Progress()
        return
    with ExitStack() as stack:
        bars: list[Any] = []

        def report(done: int, total: int, what: str) -> None:
            if not bars:
                bars.append(stack.enter_context(click.progressbar(length=1, file=sys.stderr)))
            bars[0].length, bars[0].label = max(total, 1), what or name
            bars[0].update(done - bars[0].pos)

        yield Progress(report)


def print_answer(op: Operation, answer: Any, wanted: dict[str, Any]) -> None:
    if wanted["json"]:
        click.echo(wire.encode(answer))
        return
    module, function = (op.human or "holdfast.kernel.terminal:render_fields").split(":")
    render = getattr(importlib.import_module(module), function)
    for line in render(answer):
        click.echo(line, nl=isinstance(line, str))


def exit_code_of(answer: Any) -> int:
    """Return the exit code: a batch with rejected items or a failed check is not a success."""
    rejected = any(one.outcome == "rejected" for one in getattr(answer, "outcomes", ()))
    number = getattr(answer, "rejected", 0)
    if rejected or (number and number is not True) or getattr(answer, "refused", None):
        return wire.PARTLY_REJECTED_EXIT
    return 1 if getattr(answer, "intact", True) is False or getattr(answer, "status", "ok") == "critical" else 0


def exit_with(code: int) -> None:
    if code:
        click.get_current_context().exit(code)


def follow_feed(op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Print new pages until interrupted. If the store becomes unreachable, wait and try again."""
    came = False
    while True:
        try:
            answer, came = hold.call(op.name, arguments), True
        except HoldfastError as error:
            if not (came and error.retryable):
                raise
            print_error(error, wanted["json"])
            sleep(RETRY_SECONDS)
            continue
        for item in answer.events:
            if wanted["json"]:
                click.echo(wire.encode(item))
        if not wanted["json"] and answer.events:
            print_answer(op, answer, wanted)
        moved = answer.next > arguments.get("after", 0)
        arguments = {**arguments, "after": answer.next}
        if not (answer.events or moved):
            hold.ctx.store.wait_for_commit(FOLLOW_SECONDS)


def run_repeatedly(
    op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any], pause: int
) -> None:
    """Run and print an operation repeatedly, until interrupted."""
    from holdfast.surfaces.cli.repeat import repeat_until_stopped

    def once(progress: Progress) -> None:
        print_answer(op, hold.call(op.name, arguments, progress=progress), wanted)
        sys.stdout.flush()
        flush_embeddings(op, hold, wanted)

    repeat_until_stopped(once, pause, lambda error: print_error(error, wanted["json"]))


@click.command(cls=CommandGroup, params=global_options(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli(**_: Any) -> None:
    """One persistent memory for every AI agent."""


@cli.command(params=global_options())
@click.option("--host", help="Address to listen on [default: 127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on [default: 9077].")
@click.option("--tls-cert", metavar="FILE", help="Server certificate (PEM); enables HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Private key of --tls-cert.")
@click.option("--client-ca", metavar="FILE", help="CA that must have signed client certificates (PEM).")
@click.option(
    "--client-fingerprints", metavar="FILE", help="File with the SHA-256 of each accepted client certificate."
)
@click.option("--quorum-writes", type=int, metavar="W", help="Stores that must confirm a write, this one included.")
@click.option("--quorum-peers", metavar="URL,...", help="Peers that count towards the quorum.")
@click.option("--quorum-timeout-ms", type=int, metavar="MS", help="Longest wait for confirmations [default: 2000].")
def serve(host: str | None, port: int | None, **given: Any) -> None:
    """Serve the web page, the HTTP API, and MCP at /mcp until interrupted."""
    wanted = resolve_global_options(given)
    named = ("tls_cert", "tls_key", "client_ca", "client_fingerprints", "quorum_writes", "quorum_timeout_ms")
    flags = {"host": host, "port": port, **{name: given[name] for name in named}}
    flags["quorum_peers"] = given["quorum_peers"].split(",") if given["quorum_peers"] else None
    settings = settings_of(wanted, **flags)
    from holdfast.app import open as open_memory
    from holdfast.surfaces.serve import serve as run

    with open_memory(settings=settings, source="api") as hold:
        exit_with(run(settings, hold) or 0)


@cli.command("sync-daemon", params=global_options())
@click.option("--peers", metavar="URL,...", help="Peer URLs, such as https://desk.example:9077.")
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Seconds between two exchanges with a peer [default: 2]."
)
@click.option("--batch-size", type=int, metavar="N", help="Changes per request, roughly [default: 500].")
@click.option("--api-key", metavar="KEY", help="API key for the peers (or HOLDFAST_SYNC_API_KEY).")
@click.option("--client-cert", metavar="FILE", help="Client certificate (PEM).")
@click.option("--client-key", metavar="FILE", help="Private key of --client-cert.")
@click.option("--ca", metavar="FILE", help="CA that signs the peers' certificates (PEM).")
@click.option("--fingerprint", metavar="SHA256", help="Only accept the peer certificate with this fingerprint.")
@click.option("--insecure-skip-server-verify", is_flag=True, default=None, help="Accept any peer certificate.")
def sync_daemon(peers: str | None, interval: float | None, **given: Any) -> None:
    """Sync with peers continuously, until interrupted."""
    wanted = resolve_global_options(given)
    named = ("batch_size", "api_key", "client_cert", "client_key", "ca", "fingerprint", "insecure_skip_server_verify")
    flags = {f"sync_{name}": given[name] for name in named}
    settings = setting.load(
        {"db": wanted["db"], "agent_id": wanted["agent_id"], "sync_interval_secs": interval, **flags}
        | {"sync_peers": peers.split(",") if peers else None}
    )
    from holdfast.app import open as open_memory
    from holdfast.surfaces.cli.sync_daemon import run_sync_daemon

    with open_memory(settings=settings, source="cli") as hold:
        exit_with(run_sync_daemon(hold))


@cli.command(params=global_options())
@click.option(
    "--profile",
    help="Tools to offer: core, graph, admin, power, full, or families such as core,archive [default: core].",
)
def mcp(profile: str | None, **given: Any) -> None:
    """Serve MCP over standard input and output; agents start this."""
    wanted = resolve_global_options(given)
    settings = settings_of(wanted, profile=profile)
    from holdfast.app import open as open_memory
    from holdfast.surfaces.mcp.stdio import serve as run

    with open_memory(settings=settings, source="nhi") as hold:
        exit_with(run(hold, settings.profile))


@cli.command(params=global_options())
@click.option("--slots", type=click.IntRange(1, 64), default=4, show_default=True, help="Tasks to run in parallel.")
@click.option(
    "--lease", type=click.IntRange(3, 3600), default=60, show_default=True, help="Lease of a running task, in seconds."
)
@click.option(
    "--allow", default="webhook,job", show_default=True, help="Handlers to run: webhook, job, command, python."
)
@click.option("--once", is_flag=True, help="Run the tasks that are due now, then exit.")
def worker(slots: int, lease: int, allow: str, *, once: bool, **given: Any) -> None:
    """Run due tasks by their handlers, until interrupted."""
    wanted = resolve_global_options(given)
    settings = settings_of(wanted)
    from holdfast.app import open as open_memory
    from holdfast.surfaces.cli.worker import run_worker

    with open_memory(settings=settings, source="system") as hold:
        exit_with(run_worker(hold, settings, slots=slots, lease=lease, allow=allow, once=once))


@cli.command(cls=NonFailingCommand, params=global_options())
@click.option("--path", metavar="DIR", help="Folder of the project [default: this one].")
@click.option("-n", "--namespace", metavar="TEXT", help="Project namespace; overrides --path.")
@click.option("--budget", type=int, metavar="N", help="Longest context, in tokens [default: 1500].")
@click.option("--no-header", is_flag=True, help="Omit the header line.")
def boot(path: str | None, namespace: str | None, budget: int | None, *, no_header: bool, **given: Any) -> None:
    """Print the session-start context for a project. Never fails or blocks."""
    from holdfast.surfaces.cli.hook_command import Deadline

    wanted = resolve_global_options(given)
    settings = settings_of(wanted)
    with Deadline("boot", settings.hook_timeout_ms / 1000) as deadline:
        answer = read_boot_context(settings, path, namespace, budget)
        said = [answer.text] if answer.text else []
        deadline.write(
            wire.encode(answer)
            if wanted["json"]
            else "\n".join(said if no_header else [answer.manifest, *said]).encode()
        )


def read_boot_context(settings: setting.Settings, path: str | None, namespace: str | None, budget: int | None) -> Any:
    """Build the session-start context of a namespace, or of the project of a local folder."""
    from holdfast.app import open as open_memory
    from holdfast.features.admin.backup import local_path
    from holdfast.features.agent_hosts import projects

    with open_memory(settings=settings, source="cli", once=True) as hold:
        if namespace is None:
            found = projects.find_project(hold.ctx, local_path(path or "."))
            namespace, budget = found.namespace, budget or found.budget
        return hold.call("boot", {"namespace": namespace, "budget": budget or hold.settings.boot_budget})


@cli.command(params=global_options(), context_settings={"ignore_unknown_options": True})
@click.argument("agent")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("--system-flag", metavar="FLAG", help="Pass the context with this flag of the agent.")
@click.option("--system-env", metavar="NAME", help="Pass the context in this environment variable.")
@click.option("--message-file-flag", metavar="FLAG", help="Pass the context in a file with this flag.")
@click.option("--no-boot", is_flag=True, help="Run the agent without context.")
@click.option("--budget", type=int, metavar="N", help="Longest context, in tokens [default: 1500].")
def wrap(agent: str, words: tuple[str, ...], budget: int | None, *, no_boot: bool, **given: Any) -> None:
    """Run an agent with the session-start context (exec)."""
    from holdfast.surfaces.cli.hook_command import Deadline, print_hook_error
    from holdfast.surfaces.cli.wrap_command import PREAMBLE, choose_strategy, exec_agent

    ways = {"flag": given["system_flag"], "env": given["system_env"], "file": given["message_file_flag"]}
    strategy, message = choose_strategy(agent, ways), ""  # type: ignore[arg-type]
    if not no_boot:
        try:
            settings, alone = (
                settings_of(resolve_global_options(given)),
                partial(exec_agent, agent, words, "", strategy),
            )
            with Deadline("wrap", settings.hook_timeout_ms / 1000, alone):
                answer = read_boot_context(settings, None, None, budget)
            message = "\n".join(filter(None, (PREAMBLE, answer.manifest, answer.text)))
        except HoldfastError as error:
            print_hook_error("wrap", error)
    exec_agent(agent, words, message, strategy)


@cli.command(cls=NonFailingCommand, params=global_options())
@click.argument("event", metavar="session-start|prompt|tool|session-end")
@click.argument("payload", required=False, metavar="[JSON]")
@click.option("--host", metavar="claude-code|codex", help="Calling agent host [default: detect].")
def hook(event: str, payload: str | None, host: str | None, **given: Any) -> None:
    """Handle an agent hook event. Never fails or blocks."""
    from holdfast.surfaces.cli.hook_command import run_hook

    wanted = resolve_global_options(given)
    run_hook(event, host, payload, settings_of(wanted))


@cli.group(cls=CommandGroup, path=("hooks",), params=global_options())
def hooks(**_: Any) -> None:
    """Turn agent hooks on or off; list and test lifecycle hooks."""


@hooks.command("off", params=global_options())
def hooks_off(**_: Any) -> None:
    """Turn agent hooks off in all sessions."""
    from holdfast.surfaces.cli.hook_command import set_hooks_enabled

    set_hooks_enabled(on=False)
    click.echo("Hooks are off: they add no context and store nothing. To turn them on: `holdfast hooks on`.")


@hooks.command("on", params=global_options())
def hooks_on(**_: Any) -> None:
    """Turn agent hooks on again."""
    from holdfast.surfaces.cli.hook_command import disabled_reason, set_hooks_enabled

    set_hooks_enabled(on=True)
    why = disabled_reason(setting.load({}))
    click.echo("Hooks are on." if why is None else f"Hooks are still off: {why}.")


@hooks.command("status", params=global_options())
def hooks_status(**_: Any) -> None:
    """Show whether agent hooks are on."""
    from holdfast.surfaces.cli.hook_command import disabled_reason

    why = disabled_reason(setting.load({}))
    click.echo("Hooks are on." if why is None else f"Hooks are off: {why}.")


@cli.group(params=global_options(), invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Small sizes only, as a smoke test.")
@click.option("--full", is_flag=True, help="Include a million memories.")
@click.option("--postgres", metavar="URL", help="PostgreSQL database to measure, in temporary schemas.")
@click.option("--out", default="bench-report", metavar="DIR", help="Report directory [default: bench-report].")
def bench(quick: bool, full: bool, postgres: str | None, out: str, **given: Any) -> None:
    """Measure this machine: speed relative to a floor, with a table and plots.

    Requires a clone of the Holdfast repository; the subcommands do not.
    """
    if click.get_current_context().invoked_subcommand:
        return
    from pathlib import Path

    from holdfast.surfaces.bench.find_benchmarks import load_measure_machine

    wanted = resolve_global_options(given)
    measure_machine = load_measure_machine()
    with progress_of("bench", wanted) as progress:
        report = measure_machine(Path(out), quick=quick, full=full, postgres=postgres, progress=progress)
    click.echo(wire.encode(report) if wanted["json"] else report.text())


@bench.command(params=global_options())
@click.argument("file", required=False)
@click.option(
    "--set",
    "cut",
    metavar="NAME",
    help="Question set: turns or docs (LoCoMo); sessions, pool or pool-turn (LongMemEval).",
)
@click.option("--surface", type=click.Choice(["library", "http", "cli"]), default="library", help="Surface to measure.")
@click.option("--limit-questions", type=click.IntRange(1), metavar="N", help="Ask a sample of this many questions.")
@click.option("--limit", type=click.IntRange(10, 50), default=50, metavar="N", help="Hits per question [default: 50].")
@click.option("--postgres", metavar="URL", help="Use this PostgreSQL database, in a temporary schema.")
@click.option("--plot", metavar="FILE", help="Write a plot to this SVG file.")
def quality(file: str | None, cut: str | None, limit_questions: int | None, plot: str | None, **given: Any) -> None:
    """Measure recall quality on the questions of a LoCoMo or LongMemEval file.

    Without a file, use the bundled questions.
    """
    from pathlib import Path

    from holdfast.features.recall.quality.question_files import BUNDLED_QUESTIONS
    from holdfast.surfaces.bench.quality import measure_quality

    wanted = resolve_global_options(given)
    asked = {name: given[name] for name in ("surface", "limit", "postgres")}
    with progress_of("quality", wanted) as progress:
        found = measure_quality(
            Path(file) if file else BUNDLED_QUESTIONS,
            cut,
            progress=progress,
            questions=limit_questions,
            plot=Path(plot) if plot else None,
            **asked,
        )
    click.echo(wire.encode(found) if wanted["json"] else found.to_text())


@bench.command(params=global_options())
def firing(**given: Any) -> None:
    """Measure how often the prompt hook adds context where it should, and where it should not.

    Uses the bundled held-out prompts, which were not used to tune its threshold.
    """
    from holdfast.surfaces.bench.hook_firing import measure_firing

    found = measure_firing()
    click.echo(wire.encode(found) if resolve_global_options(given)["json"] else found.text())


@cli.command(params=global_options())
@click.argument(
    "targets", nargs=-1, metavar="[TARGET]...", shell_complete=lambda ctx, param, begun: complete_agents(begun)
)
@click.option("--detect", is_flag=True, help="List the agents on this machine and their state.")
@click.option("--dry-run", is_flag=True, help="Show what would change (default).")
@click.option("--apply", is_flag=True, help="Write the changes; each file gets a backup.")
@click.option("--uninstall", is_flag=True, help="Remove Holdfast's entries only.")
@click.option("--hooks/--no-hooks", default=True, help="Install hooks for Claude Code and Codex [default: yes].")
@click.option("--config", metavar="FILE", help="Config file of the agent, if not the default one; skips hooks.")
def install(targets: tuple[str, ...], *, detect: bool, apply: bool, uninstall: bool, hooks: bool, **given: Any) -> None:
    """Connect agents to this store: preview the changes to their files, or write them.

    TARGET is claude-code, claude-desktop, codex, cursor, windsurf, continue, cline, gemini, zed, goose, opencode or
    vscode. Comments and foreign entries are kept; a file that cannot be parsed is not changed.
    """
    wanted = resolve_global_options(given)
    if apply and given["dry_run"]:
        raise Invalid("--apply and --dry-run exclude each other: use one", fields=["apply", "dry_run"])
    from holdfast.surfaces.install.command import install as run
    from holdfast.surfaces.install.command import render_answer

    asked = {"detect": detect, "apply": apply, "away": uninstall, "hooks": hooks}
    answer = run(targets, db=wanted["db"], config=given["config"], **asked)
    for line in [wire.encode(answer)] if wanted["json"] else render_answer(answer):
        click.echo(line)
    exit_with(exit_code_of(answer))


def complete_agents(begun: str) -> list[str]:
    from holdfast.surfaces.install.targets import TARGETS

    return [name for name in TARGETS if name.startswith(begun)]


@cli.command(params=global_options())
@click.option("--yes", is_flag=True, help="Connect every agent found, without asking.")
@click.option("--hooks/--no-hooks", default=True, help="Install hooks for Claude Code and Codex [default: yes].")
def setup(*, yes: bool, hooks: bool, **given: Any) -> None:
    """Connect the agents on this machine, asking for each, and store a first memory."""
    wanted = resolve_global_options(given)
    if not yes and (wanted["json"] or not (sys.stdin and sys.stdin.isatty())):
        raise ConfirmationRequired("Not a terminal: use --yes, or `holdfast install`.")
    from holdfast.surfaces.install.command import connect_found, first_memory, render_setup

    def say(line: str) -> None:
        if not wanted["json"]:
            click.echo(line)

    def ask(text: str) -> bool:
        return yes or click.confirm(text, err=True)

    outcomes = connect_found(wanted["db"], hooks=hooks, yes=yes, ask=ask, say=say)
    with open_store(wanted) as hold:
        answer = first_memory(hold, outcomes)
    for line in [wire.encode(answer)] if wanted["json"] else render_setup(answer):
        click.echo(line)
    exit_with(exit_code_of(answer))


@cli.command(params=global_options())
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completions(shell: str, **_: Any) -> None:
    """Print the completion script of a shell; source it in the shell's startup file."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "holdfast", "_HOLDFAST_COMPLETE").source())


def run(words: list[str]) -> int:
    """Run a command and return its exit code. An error is printed once, as text or JSON."""
    as_json = "--json" in words
    try:
        code = cli.main(words, prog_name="holdfast", standalone_mode=False)
        if sys.stdout is not None:  # the parent process may have closed it
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return 2
    except click.UsageError as error:
        return print_error(Invalid(error.format_message()), as_json, hint=usage(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return print_error(HoldfastError(f"Cannot write the output: {error.strerror or error}."), as_json)
    except HoldfastError as error:
        return print_error(error, as_json)
    except UnicodeEncodeError:
        return print_error(Invalid("The arguments are not valid Unicode text."), as_json)


def usage(error: click.UsageError) -> str:
    return error.ctx.get_usage() + f"\nTry '{error.ctx.command_path} --help'." if error.ctx else ""


def print_error(error: HoldfastError, as_json: bool, hint: str = "") -> int:
    from holdfast.kernel.terminal import escape

    if as_json:
        message = error.message.encode(errors="backslashreplace").decode()
        click.echo(wire.encode(error.to_json() | {"error": message}), err=True)
    else:
        if hint:
            click.echo(hint, err=True)
        click.echo(f"{click.style('error', fg='red')}: {escape(error.message)} [{error.code}]", err=True)
    return wire.EXIT[error.code]
