"""Merge, split and describe the names of principals; names are never merged by guess."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.people import resolve_names
from holdfast.features.people.model import PRINCIPAL, Principal, principal_id, validate_name
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal.transaction import Transaction


class PrincipalNames(Struct, frozen=True):
    """A principal with all its names."""

    principal: str
    """The name that all aliases stand for."""
    names: list[str]
    """All names, the principal first."""
    display: str


def merge(ctx: Context, alias: str, into: str) -> PrincipalNames:
    """Make a name an alias of another; both then share what is known of either."""
    alias, into = validate_name(alias, "alias"), validate_name(into, "principal")
    with ctx.transaction() as write:
        return merge_in_transaction(write, alias, into)


def merge_in_transaction(write: Transaction, alias: str, into: str) -> PrincipalNames:
    """Make a name an alias of another, inside a transaction."""
    whose, target = (resolve_names.resolve_principal(write.session, name) for name in (alias, into))
    if whose == target:
        if alias == target:
            raise Invalid(f"alias: {alias!r} cannot be an alias of itself", fields=["alias"])
        return _read_names(write, target)
    if whose != alias:
        raise Conflict(f"alias: {alias!r} is already an alias of {whose!r}. Split it first.", principal=whose)
    _point_alias(write, alias, target)
    return _read_names(write, target)


def split(ctx: Context, alias: str) -> PrincipalNames:
    """Make an alias independent again, with everything written under it.

    In a cycle of names, which merges on two stores can form, the link back to the alias is cut too.
    """
    alias = validate_name(alias, "alias")
    with ctx.transaction() as write:
        existing = write.get(PRINCIPAL, principal_id(alias))
        if existing is None or existing.state != "live" or existing.stands_for is None:
            raise NotFound(f"{alias!r} is not an alias.")
        write.change(PRINCIPAL, existing, replace(existing, stands_for=None), "split")
        if back := _find_cycle_end(write, existing.stands_for, alias):
            write.change(PRINCIPAL, back, replace(back, stands_for=None), "split")
        return _read_names(write, alias)


def _find_cycle_end(write: Transaction, name: str, alias: str) -> Principal | None:
    """Follow aliases from a name; return the one that points to `alias`, or None."""
    visited: set[str] = set()
    while name not in visited:
        visited.add(name)
        existing = write.get(PRINCIPAL, principal_id(name))
        if existing is None or existing.state != "live" or existing.stands_for is None:
            return None
        if existing.stands_for == alias:
            return existing
        name = existing.stands_for
    return None


def describe(ctx: Context, name: str, display: str) -> PrincipalNames:
    """Set the display name of a principal."""
    with ctx.transaction() as write:
        whose = resolve_names.resolve_principal(write.session, validate_name(name))
        existing = write.get(PRINCIPAL, principal_id(whose))
        if existing is None:
            write.add(PRINCIPAL, _new_principal(write, whose, None, display), "principal")
        else:
            write.change(PRINCIPAL, existing, replace(existing, name=whose, display=display, state="live"), "principal")
        return _read_names(write, whose)


def show(ctx: Context, name: str) -> PrincipalNames:
    """Return the principal of a name; unknown names stand for themselves."""
    with ctx.reading() as session:
        names = resolve_names.list_names(session, validate_name(name))
        row = session.row("principal_get", id=principal_id(names[0]))
    return PrincipalNames(names[0], list(names), PRINCIPAL.load(row).display if row else "")


def list_principals(ctx: Context, limit: int, after: str) -> list[Principal]:
    """List the known names in alphabetical order."""
    with ctx.reading() as session:
        return [PRINCIPAL.load(row) for row in session.rows("principal_live", after=after, limit=limit)]


def _point_alias(write: Transaction, alias: str, target: str) -> None:
    existing = write.get(PRINCIPAL, principal_id(alias))
    if existing is None:
        write.add(PRINCIPAL, _new_principal(write, alias, target, ""), "merge")
    else:
        write.change(PRINCIPAL, existing, replace(existing, name=alias, stands_for=target, state="live"), "merge")


def _new_principal(write: Transaction, name: str, stands_for: str | None, display: str) -> Principal:
    return Principal(principal_id(name), name, stands_for, display, write.now, write.now, write.origin, 1)


def _read_names(write: Transaction, name: str) -> PrincipalNames:
    names = resolve_names.list_names(write.session, name)
    row = write.get(PRINCIPAL, principal_id(names[0]))
    return PrincipalNames(names[0], list(names), row.display if row else "")
