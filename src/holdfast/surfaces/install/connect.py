"""Connect an agent or remove Holdfast from it: plan all changes, show a diff, apply on request."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.errors import FileMalformed, FileRefused, HoldfastError
from holdfast.surfaces.install.files import (
    Document,
    FileChanged,
    Piece,
    Receipt,
    check_writable,
    install_lock,
    load_receipt,
    read_document,
    replace_file,
    save_receipt,
)
from holdfast.surfaces.install.targets import TARGETS, Command, ConfigFile, Machine, Target
from holdfast.surfaces.install.text import OwnPaths, apply_splices, missing_keys, without_empty, without_value

MAX_TRIES = 20
"""How often to retry a file that another program keeps writing."""


class FileChange(Struct, frozen=True, omit_defaults=True):
    """The change of one file."""

    file: str
    change: Literal["create", "edit", "delete", "none"]
    diff: str | UnsetType = UNSET
    backup: str | UnsetType = UNSET


class Outcome(Struct, frozen=True, omit_defaults=True):
    """The result for one agent."""

    target: str
    title: str
    outcome: Literal["planned", "applied", "noop", "rejected"]
    files: list[FileChange] = []
    next: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class InstallResult(Struct, frozen=True):
    """The result of `install`."""

    outcomes: list[Outcome]
    command: list[str]
    """The command that the agents start."""


class AgentStatus(Struct, frozen=True, omit_defaults=True):
    """The state of an agent on this machine."""

    target: str
    title: str
    installed: bool
    state: Literal["connected", "elsewhere", "not connected", "unreadable"]
    """`elsewhere`: it uses another Holdfast or another store."""
    file: str
    hooks: bool | UnsetType = UNSET
    """Whether its hooks are installed, for agents with hooks."""
    reason: str | UnsetType = UNSET


class DetectResult(Struct, frozen=True):
    """The agents on this machine."""

    agents: list[AgentStatus]


@dataclass(frozen=True)
class Plan:
    """A file and its planned text."""

    document: Document
    after: str | None
    """None: delete the file."""
    receipt: Receipt | None

    @property
    def has_changes(self) -> bool:
        return self.after is None or self.after != self.document.text

    @property
    def change(self) -> Literal["create", "edit", "delete", "none"]:
        if not self.has_changes:
            return "none"
        return "delete" if self.after is None else "create" if self.document.data is None else "edit"

    def diff(self) -> str:
        name = str(self.document.file)
        before, after = _lines(self.document.text), _lines(self.after or "")
        known = self.document.data is not None
        heads = (name if known else "/dev/null", name if self.after is not None else "/dev/null")
        return "".join(difflib.unified_diff(before, after, *heads))


def _lines(text: str) -> list[str]:
    """Split a text into lines ending with a newline, whatever the file's line ending."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [f"{line}\n" for line in (lines if lines[-1] else lines[:-1])]


def plan_change(place: ConfigFile, *, uninstall: bool) -> Plan:
    """Plan the change of a file; raise if it cannot be changed safely."""
    document = read_document(place.file)
    with _with_file_name(place, uninstall=uninstall):
        plan = (_plan_removal if uninstall else _plan_insert)(place, document, load_receipt(document.real))
    if plan.has_changes:
        check_writable(document)
    return plan


@contextmanager
def _with_file_name(place: ConfigFile, *, uninstall: bool) -> Iterator[None]:
    """Add the file name to an editor's errors, and what to do by hand."""
    try:
        yield
    except FileRefused as error:
        text = f"{place.file}, {error.message}. It was not changed."
        if type(error) is FileRefused and "key" not in error.details:
            text += f" {_manual_hint(place, uninstall=uninstall)}"
        raise type(error)(text, file=str(place.file), **error.details) from None


def _manual_hint(place: ConfigFile, *, uninstall: bool) -> str:
    values = " ".join(msgspec.json.encode(want.value).decode() for want in place.entries)
    return "Remove the entries named holdfast by hand." if uninstall else f"Add this by hand: {values}"


def _plan_insert(place: ConfigFile, document: Document, receipt: Receipt | None) -> Plan:
    """Plan to insert our entries where they are missing and to repair them where they differ."""
    made = document.data is None
    text = place.base if made else document.text
    model = place.format.parse(text)
    if all(want.differs(model) == [] for want in place.entries):
        return Plan(document, document.text, receipt)
    for want in place.entries:
        place.format.check(text, want.where(model), want.value)
    before = _original_text(place, text, receipt)
    if before is not None and receipt is not None:
        text, made = before, receipt.made
    elif any(want.differs(model) is not None for want in place.entries):
        return Plan(document, _repair_entries(place, text), _receipt_of_keys(place, document, receipt))
    keys = _missing_keys(place, text)
    pieces = []
    for want in reversed(place.entries):
        splice = place.format.put(text, want.where(place.format.parse(text)), want.value)
        pieces.append(Piece(text[splice.start : splice.end], splice.new, splice.start))
        text = apply_splices(text, [splice])
    return Plan(document, text, Receipt(str(document.file), made, place.base if made else "", pieces, keys))


def _receipt_of_keys(place: ConfigFile, document: Document, receipt: Receipt | None) -> Receipt:
    """Return a receipt of the created parent keys only, for when the written text has changed since."""
    keys = [*(receipt.keys if receipt else ()), *_missing_keys(place, document.text)]
    return Receipt(str(document.file), False, "", [], keys)


def _missing_keys(place: ConfigFile, text: str) -> list[tuple[str, ...]]:
    model = place.format.parse(text)
    return [way for want in place.entries for way in missing_keys(model, want.where(model))]


def _original_text(place: ConfigFile, text: str, receipt: Receipt | None) -> str | None:
    """Return the exact text before our change, if it can be restored and nothing was added to our entry."""
    back = receipt.undo(text) if receipt else None
    if back is None:
        return None
    try:
        model, rest = place.format.parse(back), _other_content(place, back)
    except FileMalformed:
        return None
    return (
        back
        if all(want.differs(model) is None for want in place.entries) and rest == _other_content(place, text)
        else None
    )


def _other_content(place: ConfigFile, text: str) -> Any:
    """Return the parsed text without our entries and the empty parents that may have been created for them."""
    model = place.format.parse(text)
    for want in place.entries:
        while want.differs(model) is not None:
            model = without_value(model, want.removal_path(model))
        model = without_empty(model, want.where(model))
    return model


def _repair_entries(place: ConfigFile, text: str) -> str:
    """Repair existing entries; other keys in them are kept."""
    for want in place.entries:
        differs = want.differs(place.format.parse(text))
        for key in differs or ():
            way = want.where(place.format.parse(text))
            text = apply_splices(text, [place.format.put(text, (*way, key), want.value[key])])
        if differs is None:
            text = apply_splices(text, [place.format.put(text, want.where(place.format.parse(text)), want.value)])
    return text


def _plan_removal(place: ConfigFile, document: Document, receipt: Receipt | None) -> Plan:
    """Plan the removal: restore the original text if possible, else cut out our entries only."""
    if document.data is None:
        return Plan(document, "", None)
    model = place.format.parse(document.text)
    if all(want.differs(model) is None for want in place.entries):
        return Plan(document, document.text, None)
    before = _original_text(place, document.text, receipt)
    if before is not None and receipt is not None:
        return Plan(document, None if receipt.made and before == receipt.base else before, None)
    return Plan(document, _cut_entries(place, document.text, receipt.keys if receipt else []), None)


def _cut_entries(place: ConfigFile, text: str, ours: OwnPaths) -> str:
    """Cut out our entries; parents stay, even empty, unless we created them."""
    for want in place.entries:
        while want.differs(model := place.format.parse(text)) is not None:
            text = place.format.drop(text, want.removal_path(model), ours)
    return text


def _apply_change(place: ConfigFile, *, uninstall: bool) -> FileChange:
    """Apply the plan; plan again if another program changed the file in between."""
    for _ in range(MAX_TRIES):
        plan = plan_change(place, uninstall=uninstall)
        if not plan.has_changes:
            return FileChange(str(place.file), "none")
        try:
            backup = replace_file(plan.document, None if plan.after is None else plan.document.encode(plan.after))
        except FileChanged:
            continue
        except OSError as error:
            raise FileRefused(f"Cannot write {place.file}: {error.strerror}.", file=str(place.file)) from None
        save_receipt(plan.document.real, plan.receipt)
        return FileChange(str(place.file), plan.change, plan.diff(), str(backup) if backup else UNSET)
    raise FileRefused(f"Another program keeps writing {place.file}: close it first.", file=str(place.file))


def _preview_change(plan: Plan) -> FileChange:
    return FileChange(str(plan.document.file), plan.change, plan.diff() if plan.has_changes else UNSET)


@dataclass(frozen=True)
class InstallRequest:
    """A request to `install`."""

    machine: Machine
    command: Command
    hooks: bool = True
    uninstall: bool = False
    apply: bool = False
    file: Path | None = None

    def config_files(self, target: Target) -> list[ConfigFile]:
        return target.config_files(self.machine, self.command, hooks=self.hooks or self.uninstall, file=self.file)


def connect(names: Sequence[str], wish: InstallRequest) -> InstallResult:
    """Connect agents or remove Holdfast from them. With several agents, an error in one does not stop the others."""
    one: Callable[[str, InstallRequest], Outcome] = _connect_agent if len(names) == 1 else _connect_or_reject
    return InstallResult([one(name, wish) for name in names], wish.command.words("mcp"))


def _connect_or_reject(name: str, wish: InstallRequest) -> Outcome:
    try:
        return _connect_agent(name, wish)
    except HoldfastError as error:
        return Outcome(name, TARGETS[name].title, "rejected", code=error.code, reason=error.message)


def _connect_agent(name: str, wish: InstallRequest) -> Outcome:
    """Connect one agent; nothing is written until all of its files are planned."""
    target = TARGETS[name]
    places = wish.config_files(target)
    plans = [plan_change(place, uninstall=wish.uninstall) for place in places]
    if not any(plan.has_changes for plan in plans):
        return Outcome(name, target.title, "noop", [_preview_change(plan) for plan in plans])
    if not wish.apply:
        return Outcome(name, target.title, "planned", [_preview_change(plan) for plan in plans])
    with install_lock():
        done = [_apply_change(place, uninstall=wish.uninstall) for place in places]
    return Outcome(name, target.title, "applied", done, UNSET if wish.uninstall else target.next_step)


def detect(machine: Machine, command: Command) -> DetectResult:
    """Detect the agents on this machine and whether each is connected."""
    return DetectResult([_agent_status(name, target, machine, command) for name, target in TARGETS.items()])


def _agent_status(name: str, target: Target, machine: Machine, command: Command) -> AgentStatus:
    places = target.config_files(machine, command, hooks=True)
    known = AgentStatus(name, target.title, target.is_installed(machine), "not connected", str(places[0].file))
    servers = places[:-1] if target.hooks else places
    try:
        differences = list(_list_differences(servers))
        hooks = not any(one != [] for one in _list_differences(places[len(servers) :])) if target.hooks else UNSET
    except HoldfastError as error:
        return msgspec.structs.replace(known, state="unreadable", reason=error.message)
    if None in differences:
        return msgspec.structs.replace(known, hooks=hooks)
    return msgspec.structs.replace(known, state="elsewhere" if any(differences) else "connected", hooks=hooks)


def _list_differences(places: list[ConfigFile]) -> Iterator[list[str] | None]:
    for place in places:
        document = read_document(place.file)
        with _with_file_name(place, uninstall=False):
            model = place.format.parse(document.text)
        yield from (want.differs(model) for want in place.entries)
