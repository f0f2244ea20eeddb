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
    Changed,
    Document,
    Piece,
    Receipt,
    alone,
    guard,
    keep_receipt,
    read,
    receipt_of,
    replace,
)
from holdfast.surfaces.install.targets import TARGETS, Command, Machine, Place, Target
from holdfast.surfaces.install.text import Ours, missing, removed, spliced, without_empty

TRIES = 20
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


class Connected(Struct, frozen=True):
    """The result of `install`."""

    outcomes: list[Outcome]
    command: list[str]
    """The command that the agents start."""


class Found(Struct, frozen=True, omit_defaults=True):
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


class Detected(Struct, frozen=True):
    """The agents on this machine."""

    agents: list[Found]


@dataclass(frozen=True)
class Plan:
    """A file and its planned text."""

    document: Document
    after: str | None
    """None: delete the file."""
    receipt: Receipt | None

    @property
    def changes(self) -> bool:
        return self.after is None or self.after != self.document.text

    @property
    def change(self) -> Literal["create", "edit", "delete", "none"]:
        if not self.changes:
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


def planned(place: Place, *, away: bool) -> Plan:
    """Plan the change of a file; raise if it cannot be changed safely."""
    document = read(place.file)
    with _telling(place, away=away):
        plan = (_taken_away if away else _put_in)(place, document, receipt_of(document.real))
    if plan.changes:
        guard(document)
    return plan


@contextmanager
def _telling(place: Place, *, away: bool) -> Iterator[None]:
    """Add the file name to an editor's errors, and what to do by hand."""
    try:
        yield
    except FileRefused as error:
        text = f"{place.file}, {error.message}. It was not changed."
        if type(error) is FileRefused and "key" not in error.details:
            text += f" {_by_hand(place, away=away)}"
        raise type(error)(text, file=str(place.file), **error.details) from None


def _by_hand(place: Place, *, away: bool) -> str:
    values = " ".join(msgspec.json.encode(want.value).decode() for want in place.wants)
    return "Remove the entries named holdfast by hand." if away else f"Add this by hand: {values}"


def _put_in(place: Place, document: Document, receipt: Receipt | None) -> Plan:
    """Plan to insert our entries where they are missing and to repair them where they differ."""
    made = document.data is None
    text = place.base if made else document.text
    model = place.format.parse(text)
    if all(want.differs(model) == [] for want in place.wants):
        return Plan(document, document.text, receipt)
    for want in place.wants:
        place.format.check(text, want.where(model), want.value)
    before = _before(place, text, receipt)
    if before is not None and receipt is not None:
        text, made = before, receipt.made
    elif any(want.differs(model) is not None for want in place.wants):
        return Plan(document, _put_right(place, text), _of_keys(place, document, receipt))
    keys = _lacking(place, text)
    pieces = []
    for want in reversed(place.wants):
        splice = place.format.put(text, want.where(place.format.parse(text)), want.value)
        pieces.append(Piece(text[splice.start : splice.end], splice.new, splice.start))
        text = spliced(text, [splice])
    return Plan(document, text, Receipt(str(document.file), made, place.base if made else "", pieces, keys))


def _of_keys(place: Place, document: Document, receipt: Receipt | None) -> Receipt:
    """Return a receipt of the created parent keys only, for when the written text has changed since."""
    keys = [*(receipt.keys if receipt else ()), *_lacking(place, document.text)]
    return Receipt(str(document.file), False, "", [], keys)


def _lacking(place: Place, text: str) -> list[tuple[str, ...]]:
    model = place.format.parse(text)
    return [way for want in place.wants for way in missing(model, want.where(model))]


def _before(place: Place, text: str, receipt: Receipt | None) -> str | None:
    """Return the exact text before our change, if it can be restored and nothing was added to our entry."""
    back = receipt.taken_back(text) if receipt else None
    if back is None:
        return None
    try:
        model, rest = place.format.parse(back), _rest(place, back)
    except FileMalformed:
        return None
    return back if all(want.differs(model) is None for want in place.wants) and rest == _rest(place, text) else None


def _rest(place: Place, text: str) -> Any:
    """Return the parsed text without our entries and the empty parents that may have been created for them."""
    model = place.format.parse(text)
    for want in place.wants:
        while want.differs(model) is not None:
            model = removed(model, want.way(model))
        model = without_empty(model, want.where(model))
    return model


def _put_right(place: Place, text: str) -> str:
    """Repair existing entries; other keys in them are kept."""
    for want in place.wants:
        differs = want.differs(place.format.parse(text))
        for key in differs or ():
            way = want.where(place.format.parse(text))
            text = spliced(text, [place.format.put(text, (*way, key), want.value[key])])
        if differs is None:
            text = spliced(text, [place.format.put(text, want.where(place.format.parse(text)), want.value)])
    return text


def _taken_away(place: Place, document: Document, receipt: Receipt | None) -> Plan:
    """Plan the removal: restore the original text if possible, else cut out our entries only."""
    if document.data is None:
        return Plan(document, "", None)
    model = place.format.parse(document.text)
    if all(want.differs(model) is None for want in place.wants):
        return Plan(document, document.text, None)
    before = _before(place, document.text, receipt)
    if before is not None and receipt is not None:
        return Plan(document, None if receipt.made and before == receipt.base else before, None)
    return Plan(document, _without(place, document.text, receipt.keys if receipt else []), None)


def _without(place: Place, text: str, ours: Ours) -> str:
    """Cut out our entries; parents stay, even empty, unless we created them."""
    for want in place.wants:
        while want.differs(model := place.format.parse(text)) is not None:
            text = place.format.drop(text, want.way(model), ours)
    return text


def _done(place: Place, *, away: bool) -> FileChange:
    """Apply the plan; plan again if another program changed the file in between."""
    for _ in range(TRIES):
        plan = planned(place, away=away)
        if not plan.changes:
            return FileChange(str(place.file), "none")
        try:
            backup = replace(plan.document, None if plan.after is None else plan.document.encoded(plan.after))
        except Changed:
            continue
        except OSError as error:
            raise FileRefused(f"Cannot write {place.file}: {error.strerror}.", file=str(place.file)) from None
        keep_receipt(plan.document.real, plan.receipt)
        return FileChange(str(place.file), plan.change, plan.diff(), str(backup) if backup else UNSET)
    raise FileRefused(f"Another program keeps writing {place.file}: close it first.", file=str(place.file))


def _shown(plan: Plan) -> FileChange:
    return FileChange(str(plan.document.file), plan.change, plan.diff() if plan.changes else UNSET)


@dataclass(frozen=True)
class Wish:
    """A request to `install`."""

    machine: Machine
    command: Command
    hooks: bool = True
    away: bool = False
    apply: bool = False
    file: Path | None = None

    def places(self, target: Target) -> list[Place]:
        return target.places(self.machine, self.command, hooks=self.hooks or self.away, file=self.file)


def connect(names: Sequence[str], wish: Wish) -> Connected:
    """Connect agents or remove Holdfast from them. With several agents, an error in one does not stop the others."""
    one: Callable[[str, Wish], Outcome] = _connected if len(names) == 1 else _tried
    return Connected([one(name, wish) for name in names], wish.command.words("mcp"))


def _tried(name: str, wish: Wish) -> Outcome:
    try:
        return _connected(name, wish)
    except HoldfastError as error:
        return Outcome(name, TARGETS[name].title, "rejected", code=error.code, reason=error.message)


def _connected(name: str, wish: Wish) -> Outcome:
    """Connect one agent; nothing is written until all of its files are planned."""
    target = TARGETS[name]
    places = wish.places(target)
    plans = [planned(place, away=wish.away) for place in places]
    if not any(plan.changes for plan in plans):
        return Outcome(name, target.title, "noop", [_shown(plan) for plan in plans])
    if not wish.apply:
        return Outcome(name, target.title, "planned", [_shown(plan) for plan in plans])
    with alone():
        done = [_done(place, away=wish.away) for place in places]
    return Outcome(name, target.title, "applied", done, UNSET if wish.away else target.then)


def detect(machine: Machine, command: Command) -> Detected:
    """Detect the agents on this machine and whether each is connected."""
    return Detected([_found(name, target, machine, command) for name, target in TARGETS.items()])


def _found(name: str, target: Target, machine: Machine, command: Command) -> Found:
    places = target.places(machine, command, hooks=True)
    known = Found(name, target.title, target.is_there(machine), "not connected", str(places[0].file))
    servers = places[:-1] if target.hooks else places
    try:
        differences = list(_differences(servers))
        hooks = not any(one != [] for one in _differences(places[len(servers) :])) if target.hooks else UNSET
    except HoldfastError as error:
        return msgspec.structs.replace(known, state="unreadable", reason=error.message)
    if None in differences:
        return msgspec.structs.replace(known, hooks=hooks)
    return msgspec.structs.replace(known, state="elsewhere" if any(differences) else "connected", hooks=hooks)


def _differences(places: list[Place]) -> Iterator[list[str] | None]:
    for place in places:
        document = read(place.file)
        with _telling(place, away=False):
            model = place.format.parse(document.text)
        yield from (want.differs(model) for want in place.wants)
