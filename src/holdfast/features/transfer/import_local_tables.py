"""Import records of local tables. Each is written completely, never over a live lease."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.features.transfer import local_tables as ledgers
from holdfast.features.transfer.local_table_rows import LEDGERS, Kept, Ledger
from holdfast.features.transfer.model import Options, Outcome
from holdfast.features.usage import store as usage
from holdfast.kernel.caller import RESERVED_AGENTS, admit_agent
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.records import validate as door
from holdfast.kernel.storage.port import Session


class Taking(NamedTuple):
    """State of one import, as far as local tables need it."""

    hold: Hold
    session: Session
    now: int
    options: Options
    here: Callable[[str], str]
    """Maps a memory id of the file to the id here."""
    there: Callable[[str, str], str]
    """The same for a memory that must exist; takes the field name for the error."""


def admitted(taking: Taking, ledger: Ledger, given: Kept) -> Kept:
    """Check the namespace of a record and set its author."""
    return _authored(taking, ledger, _placed(taking, ledger, given))


def take(taking: Taking, ledger: Ledger, given: Kept) -> Outcome:
    """Add a record, or replace an older state of it. Raises before anything is written."""
    stored = ledgers.get(taking.session, ledger, ledger.id_of(given))
    if stored is None:
        _must_be_trusted(taking, given)
        ledgers.put(taking.session, ledger, _alone(taking, ledger, given))
        return "imported"
    if not taking.options.trust_source and ledger.author is not None:
        given = {**given, ledger.author: stored[ledger.author]}
    return _over(taking, ledger, ledger.free(stored), stored, given)


def _must_be_trusted(taking: Taking, given: Kept) -> None:
    if not taking.options.trust_source and given.get("handler", "none") != "none":
        raise Forbidden("handler: tasks with a handler are imported from a trusted source only.")


def _over(taking: Taking, ledger: Ledger, free: Kept, stored: Kept, given: Kept) -> Outcome:
    """Keep the later of two states of a record."""
    if free == given:
        return "unchanged"
    if any(free[name] != given[name] for name in given if name not in ledger.changes):
        raise _other(ledger, "but it is a different record")
    if ledger.rank(given) <= ledger.rank(free):
        return "older"
    if _is_held(stored, taking.now):
        raise Conflict(f"A record of {ledger.array} has a live lease here: import it again later.", retryable=True)
    if taking.options.on_conflict == "error":
        raise _other(ledger, "with other contents")
    _must_be_trusted(taking, given)
    ledgers.put(taking.session, ledger, _alone(taking, ledger, given))
    return "merged"


def _other(ledger: Ledger, why: str) -> Conflict:
    return Conflict(f"A record of {ledger.array} with this key exists, {why}. Nothing was changed.")


def _is_held(stored: Kept, now: int) -> bool:
    return stored.get("state") == "running" and ("lease_until" not in stored or (stored["lease_until"] or 0) > now)


def _placed(taking: Taking, ledger: Ledger, given: Kept) -> Kept:
    """Check that the importer can write here; map memory ids to those of this store."""
    caller = taking.hold.caller
    if ledger.placed:
        given = {**given, "namespace": door.namespace(given["namespace"])}
        caller.must_reach(given["namespace"])
    elif ledger is LEDGERS["task_runs"]:
        task = ledgers.get(taking.session, LEDGERS["tasks"], (given["task"],))
        if task is None or not caller.reaches(task["namespace"]):
            raise NotFound(f"task: there is no task {given['task']!r}.", id=given["task"], fields=["task"])
    elif "*" not in caller.namespaces and not ledger.belongs:
        raise Forbidden(f"{ledger.array}: importing requires a key for all namespaces.")
    if ledger.memory is not None and given[ledger.memory]:
        id = given[ledger.memory]
        given = {**given, ledger.memory: taking.there(id, ledger.memory) if ledger.belongs else taking.here(id)}
    return given


def _authored(taking: Taking, ledger: Ledger, given: Kept) -> Kept:
    """Set the author: from the file if it is trusted, else the importer."""
    if ledger.author is None:
        return given
    author = given[ledger.author]
    trusted_author = author if author in RESERVED_AGENTS else admit_agent(author, ledger.author)
    return {**given, ledger.author: trusted_author if taking.options.trust_source else taking.hold.caller.agent}


def _alone(taking: Taking, ledger: Ledger, given: Kept) -> Kept:
    """Avoid clashes with other records: close a second active conversation, reject a taken unique key."""
    session = taking.session
    match ledger.array:
        case "conversations" if given["state"] == "active":
            scope = {"channel": given["channel"], "namespace": given["namespace"], "principals": [given["principal"]]}
            others = [row for row in session.rows("conversation_going_on", **scope) if row[0] != given["id"]]
            return {**given, "state": "closing"} if others else given
        case "tasks" if given["unique_key"] is not None:
            params = {"principals": [given["principal"]], "unique_key": given["unique_key"]}
            rows = session.assembled(("task_select", "task.of_principal", "task.keyed"), params)
            _must_be_free("unique_key", rows[0][0] if rows else None, given["id"])
        case "usage" if given["unique_key"] is not None:
            known = usage.keyed(session, given["agent"], given["unique_key"])
            _must_be_free("unique_key", known[0] if known else None, given["id"])
        case "task_runs" if given["final"]:
            _must_be_free("final", ledgers.final_run(session, given["task"], given["due_at"]), given["id"])
    return given


def _must_be_free(field: str, holder: str | None, id: str) -> None:
    if holder not in (None, id):
        raise Conflict(f"{field}: already used by {holder}", id=holder, fields=[field])
