"""Merge, split and describe the names of principals; names are never merged by guess."""

from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.conversations import store as conversations
from holdfast.features.memories import store as memories
from holdfast.features.people import facts
from holdfast.features.people import store as principals
from holdfast.features.people.principal import PRINCIPAL, Principal, admit_name, id_of
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal.transaction import Transaction


class Known(NamedTuple):
    """A principal with all its names."""

    principal: str
    names: tuple[str, ...]
    display: str


def merge(hold: Hold, alias: str, into: str) -> Known:
    """Make a name an alias of another; both then share what is known of either."""
    alias, into = admit_name(alias, "alias"), admit_name(into, "principal")
    with hold.writing() as write:
        return merge_in(write, alias, into)


def merge_in(write: Transaction, alias: str, into: str) -> Known:
    """Make a name an alias of another, inside a transaction."""
    whose, target = (principals.resolve(write.session, name) for name in (alias, into))
    if whose == target:
        if alias == target:
            raise Invalid(f"alias: {alias!r} cannot be an alias of itself", fields=["alias"])
        return _known(write, target)
    if whose != alias:
        raise Conflict(f"alias: {alias!r} is already an alias of {whose!r}. Split it first.", principal=whose)
    _point(write, alias, target)
    return _known(write, target)


def split(hold: Hold, alias: str) -> Known:
    """Make an alias independent again, with everything written under it.

    In a cycle of names, which merges on two stores can form, the link back to the alias is cut too.
    """
    alias = admit_name(alias, "alias")
    with hold.writing() as write:
        known = write.get(PRINCIPAL, id_of(alias))
        if known is None or known.state != "live" or known.stands_for is None:
            raise NotFound(f"{alias!r} is not an alias.")
        write.change(PRINCIPAL, known, replace(known, stands_for=None), "split")
        if back := _leading_back(write, known.stands_for, alias):
            write.change(PRINCIPAL, back, replace(back, stands_for=None), "split")
        return _known(write, alias)


def _leading_back(write: Transaction, name: str, alias: str) -> Principal | None:
    """Follow aliases from a name; return the one that points to `alias`, or None."""
    passed: set[str] = set()
    while name not in passed:
        passed.add(name)
        known = write.get(PRINCIPAL, id_of(name))
        if known is None or known.state != "live" or known.stands_for is None:
            return None
        if known.stands_for == alias:
            return known
        name = known.stands_for
    return None


def describe(hold: Hold, name: str, display: str) -> Known:
    """Set the display name of a principal."""
    with hold.writing() as write:
        whose = principals.resolve(write.session, admit_name(name))
        known = write.get(PRINCIPAL, id_of(whose))
        if known is None:
            write.add(PRINCIPAL, _fresh(write, whose, None, display), "principal")
        else:
            write.change(PRINCIPAL, known, replace(known, name=whose, display=display, state="live"), "principal")
        return _known(write, whose)


def show(hold: Hold, name: str) -> Known:
    """Return the principal of a name; unknown names stand for themselves."""
    with hold.reading() as session:
        names = principals.known_as(session, admit_name(name))
        row = session.row("principal_get", id=id_of(names[0]))
    return Known(names[0], names, PRINCIPAL.load(row).display if row else "")


class Counts(NamedTuple):
    """Numbers of live records of a principal that the caller may see."""

    principal: str
    conversations: int
    messages: int
    observations: int
    facts: int


def counts(hold: Hold, name: str) -> Counts:
    """Count the records of a principal under all its names."""
    with hold.reading() as session:
        names = principals.known_as(session, admit_name(name))
        return Counts(
            names[0],
            conversations.count(session, hold.caller, names),
            conversations.count_turns(session, hold.caller, names, hold.now()),
            memories.count_noted(session, hold.caller, names, hold.now()),
            len(facts.known(hold, name)),
        )


def browse(hold: Hold, limit: int, after: str) -> list[Principal]:
    """List the known names in alphabetical order."""
    with hold.reading() as session:
        return [PRINCIPAL.load(row) for row in session.rows("principal_live", after=after, limit=limit)]


def _point(write: Transaction, alias: str, target: str) -> None:
    known = write.get(PRINCIPAL, id_of(alias))
    if known is None:
        write.add(PRINCIPAL, _fresh(write, alias, target, ""), "merge")
    else:
        write.change(PRINCIPAL, known, replace(known, name=alias, stands_for=target, state="live"), "merge")


def _fresh(write: Transaction, name: str, stands_for: str | None, display: str) -> Principal:
    return Principal(id_of(name), name, stands_for, display, write.now, write.now, write.origin, 1)


def _known(write: Transaction, name: str) -> Known:
    names = principals.known_as(write.session, name)
    row = write.get(PRINCIPAL, id_of(names[0]))
    return Known(names[0], names, row.display if row else "")
