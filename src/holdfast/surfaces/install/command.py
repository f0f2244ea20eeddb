"""The commands `holdfast install` and `holdfast setup`: arguments, questions and output."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.terminal import escape, render_table
from holdfast.surfaces.install.connect import (
    AgentStatus,
    DetectResult,
    FileChange,
    InstallRequest,
    InstallResult,
    Outcome,
    connect,
    detect,
)
from holdfast.surfaces.install.targets import TARGETS, this_command, this_machine

if TYPE_CHECKING:
    from holdfast.app import Holdfast

ALIASES = {"claude": "claude-code", "codex-cli": "codex", "gemini-cli": "gemini", "vs-code": "vscode", "code": "vscode"}
TITLE = "Holdfast is set up"


class SetupResult(Struct, frozen=True):
    """The result of `setup`."""

    outcomes: list[Outcome]
    """One for each agent found that was not connected."""
    memory: str
    """The id of the first memory."""
    recalled: str
    """Its content as found by recall."""
    next: list[str]
    """Next steps."""


def resolve_names(words: Sequence[str]) -> list[str]:
    """Resolve agent names and aliases; reject an unknown one with similar names."""
    names = list(dict.fromkeys(ALIASES.get(word.lower(), word.lower()) for word in words))
    for name in names:
        if name not in TARGETS:
            near = " or ".join(get_close_matches(name, TARGETS, n=2))
            meant = f"Did you mean {near}? " if near else ""
            raise Invalid(f"Unknown agent {name!r}. {meant}Known agents: {', '.join(TARGETS)}.", field="targets")
    return names


def install(words: Sequence[str], *, db: str | None, config: str | None, **asked: bool) -> InstallResult | DetectResult:
    """Detect agents, or plan and apply the requested changes."""
    if asked["detect"]:
        if words or asked["apply"] or asked["away"] or config:
            raise Invalid("--detect takes no targets, --apply, --uninstall or --config", fields=["detect"])
        return detect(this_machine(), this_command(db))
    if not words:
        raise Invalid(f"Name an agent: {', '.join(TARGETS)}. `holdfast install --detect` lists those on this machine.")
    names = resolve_names(words)
    if config and len(names) > 1:
        raise Invalid("--config needs exactly one agent", fields=["config", "targets"])
    file = Path(config).expanduser().absolute() if config else None
    wish = InstallRequest(this_machine(), this_command(db), asked["hooks"], asked["away"], asked["apply"], file)
    return connect(names, wish)


def render_answer(answer: InstallResult | DetectResult) -> Iterator[str]:
    """Render the answer for the terminal."""
    if isinstance(answer, DetectResult):
        yield from _render_agents(answer.agents)
        yield from (f"{one.title}: {escape(one.reason)}" for one in answer.agents if isinstance(one.reason, str))
        return
    for outcome in answer.outcomes:
        yield from _render_outcome(outcome)
    if any(outcome.outcome == "planned" for outcome in answer.outcomes):
        yield "Dry run. Add --apply to write."


def _render_agents(agents: Sequence[AgentStatus]) -> Iterator[str]:
    rows = [
        (one.target, "yes" if one.installed else "no", one.state, _hooks_cell(one), escape(one.file)) for one in agents
    ]
    yield from render_table(rows, ("agent", "here", "state", "hooks", "file"))


def _hooks_cell(agent: AgentStatus) -> str:
    return "" if not isinstance(agent.hooks, bool) else "yes" if agent.hooks else "no"


def _render_outcome(outcome: Outcome) -> Iterator[str]:
    if outcome.outcome == "rejected":
        yield f"{click.style(outcome.title, bold=True)}: rejected: {escape(str(outcome.reason))} [{outcome.code}]"
        return
    said = {"planned": "would be changed", "applied": "changed", "noop": "already up to date"}[outcome.outcome]
    yield f"{click.style(outcome.title, bold=True)}: {said}"
    for file in outcome.files:
        yield from _render_file(file, done=outcome.outcome == "applied")
    if isinstance(outcome.next, str):
        yield f"  {outcome.next}"


def _render_file(file: FileChange, *, done: bool) -> Iterator[str]:
    if file.change == "none":
        yield f"  {escape(file.file)}: unchanged"
        return
    if not done:
        yield from map(_colour_line, escape(str(file.diff)).splitlines())
        return
    verb = {"create": "created", "edit": "changed", "delete": "deleted"}[file.change]
    yield f"  {escape(file.file)}: {verb}" + (
        f"; backup: {escape(file.backup)}" if isinstance(file.backup, str) else ""
    )


def _colour_line(line: str) -> str:
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


Ask = Callable[[str], bool]
Say = Callable[[str], object]


def connect_found(db: str | None, *, hooks: bool, yes: bool, ask: Ask, say: Say) -> list[Outcome]:
    """Connect every unconnected agent on this machine: show the change, ask, apply.

    With `yes`, an agent connected to another store or program is left unchanged.
    """
    machine, command = this_machine(), this_command(db)
    agents = [one for one in detect(machine, command).agents if one.installed]
    for line in _render_agents(agents) if agents else ["No supported agent was found."]:
        say(line)
    done: list[Outcome] = []
    for agent in agents:
        if yes and agent.state == "elsewhere":
            say(f"{agent.title} uses another Holdfast; to change it: `holdfast install {agent.target} --apply`.")
        elif agent.state != "connected" or (hooks and agent.hooks is False):
            done += _connect_if_confirmed(agent.target, InstallRequest(machine, command, hooks), ask, say)
    return done


def _connect_if_confirmed(name: str, wish: InstallRequest, ask: Ask, say: Say) -> Iterator[Outcome]:
    try:
        planned = connect([name], wish).outcomes[0]
        for line in _render_outcome(planned):
            say(line)
        if not ask(f"Connect {planned.title}?"):
            return
        outcome = connect([name], InstallRequest(wish.machine, wish.command, wish.hooks, apply=True)).outcomes[0]
    except HoldfastError as error:
        outcome = Outcome(name, TARGETS[name].title, "rejected", code=error.code, reason=error.message)
    for line in _render_outcome(outcome):
        say(line)
    yield outcome


def first_memory(hold: Holdfast, outcomes: Sequence[Outcome]) -> SetupResult:
    """Store a memory and recall it, to prove that the setup works."""
    titles = [one.title for one in outcomes if one.outcome == "applied"]
    agents = f" and connected to {', '.join(titles)}" if titles else ""
    content = f"Holdfast was set up on {platform.node()} on {datetime.now(UTC):%Y-%m-%d}{agents}."
    stored: Any = hold.call("store", {"title": TITLE, "content": content, "tags": ["holdfast"]})
    recalled: Any = hold.call("recall", {"context": "When was Holdfast set up?", "limit": 5})
    back = next((one.content for one in recalled.memories if one.id == stored.id), None)
    if back is None:
        raise HoldfastError("The first memory was stored but not found: run `holdfast doctor`.")
    return SetupResult(list(outcomes), stored.id, back, list(_next_steps(outcomes)))


def _next_steps(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        if isinstance(one.next, str):
            yield f"{one.title}: {one.next}"
    yield 'Ask an agent "When was Holdfast set up?": it should call memory_recall and answer.'
    yield "`holdfast recall QUESTION` searches from the terminal; `holdfast install --detect` lists connected agents."
    yield "`holdfast serve` opens the web page: http://127.0.0.1:9077/"


def render_setup(answer: SetupResult) -> Iterator[str]:
    """Render the result of `setup` for the terminal."""
    yield f"Stored {answer.memory}: {TITLE}"
    yield f"Recalled: {escape(answer.recalled)}"
    yield click.style("Next", bold=True)
    for line in answer.next:
        yield f"  {line}"
