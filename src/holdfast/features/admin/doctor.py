"""Check the health of the store without changing it."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.features.admin import backup
from holdfast.features.embeddings import service as embed
from holdfast.features.embeddings import store as vectors
from holdfast.features.history import service as history
from holdfast.features.sync.quorum import store as unreplicated
from holdfast.features.webhooks import store as subscriptions
from holdfast.features.webhooks.model import REVOKED, Standing
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import EmbedderFailed, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.checkpoint import floor_of
from holdfast.kernel.storage.port import Fault
from holdfast.kernel.timestamps import DAY, SECOND, to_text

Severity = Literal["ok", "warn", "critical"]
SEVERITIES: tuple[Severity, ...] = ("ok", "warn", "critical")

LARGE_LOG = 64 << 20
LITTLE_SPACE = 256 << 20
NO_SPACE = 32 << 20
SLOW_CLOCK = 120 * SECOND
SLOW_PEERS = 30 * SECOND
WRONG_CLOCK = 7 * DAY
MANY_CONNECTIONS = 0.9
MOST_FINDINGS = 20


class Finding(NamedTuple):
    severity: Severity
    what: str


class Section(NamedTuple):
    name: str
    facts: dict[str, Any]
    findings: list[Finding]

    @property
    def severity(self) -> Severity:
        return worst(finding.severity for finding in self.findings)


Examined = tuple[dict[str, Any], list[Finding]]


def worst(severities: Iterator[Severity]) -> Severity:
    return max(severities, key=SEVERITIES.index, default="ok")


def examine(hold: Hold) -> list[Section]:
    """Run the checks of every section in order; a section that cannot be read is itself a finding."""
    backup.must_reach_all(hold)
    faults: list[Fault] = []
    parts: dict[str, Callable[[], Examined]] = {
        "storage": lambda: _storage(hold, faults),
        "full_text": lambda: ({}, [_broken(fault) for fault in faults if fault.part == "full_text"]),
        "journal": lambda: _journal(hold),
        "clock": lambda: _clock(hold),
        "schema": lambda: _schema(hold),
        "counts": lambda: _counts(hold),
        "vectors": lambda: _vectors(hold),
        "replication": lambda: _replication(hold),
        "subscriptions": lambda: _subscriptions(hold),
        "backups": lambda: _backups(hold),
    }
    sections = []
    for number, (name, look) in enumerate(parts.items()):
        hold.progress(number, len(parts), name)
        try:
            facts, findings = look()
        except StoreError as error:
            facts, findings = {}, [Finding("critical", error.message)]
        sections.append(Section(name, facts, findings[:MOST_FINDINGS]))
    return sections


def _broken(fault: Fault) -> Finding:
    return Finding("critical", fault.what)


def _storage(hold: Hold, faults: list[Fault]) -> Examined:
    faults += hold.store.faults()
    facts = hold.store.facts()
    findings = [_broken(fault) for fault in faults if fault.part == "storage"]
    return facts, [*findings, *_room(facts), *_server(facts), *_modes(hold.store.private_files())]


def _room(facts: dict[str, Any]) -> Iterator[Finding]:
    """Check the free space and write-ahead log of a store in a file."""
    if "free_bytes" not in facts:
        return
    log, free = facts["log_bytes"], facts["free_bytes"]
    if log > LARGE_LOG:
        yield Finding("warn", f"The write-ahead log has {log} bytes: a long-running reader may block its checkpoint.")
    if free < NO_SPACE:
        yield Finding("critical", f"Only {free} bytes are free on the disk of the store.")
    elif free < max(LITTLE_SPACE, facts["bytes"]):
        yield Finding("warn", f"Only {free} bytes are free on the disk of the store: too few for a backup.")


def _server(facts: dict[str, Any]) -> Iterator[Finding]:
    """Check that a database server is durable, writable and has free connections."""
    if not facts.get("fsync", True):
        yield Finding("warn", "fsync is off in the database: a power failure can lose changes.")
    if facts.get("replica"):
        yield Finding("warn", "The database is a read-only replica.")
    if facts.get("connections", 0) > MANY_CONNECTIONS * facts.get("most_connections", 1):
        yield Finding("warn", f"{facts['connections']} of {facts['most_connections']} connections are in use.")


def _modes(private_files: list[Path]) -> Iterator[Finding]:
    """Check that others cannot read or replace private files."""
    if os.name == "nt":
        return
    for private in private_files:
        if private.exists() and (mode := stat.S_IMODE(private.stat().st_mode)) & 0o077:
            yield Finding("warn", f"Other users can read {private} (mode {mode:04o}). Run: chmod 600 {private}")
    for parent in sorted({private.parent for private in private_files}):
        folder = parent.stat().st_mode
        if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
            yield Finding("warn", f"Other users can replace files in {parent}. Run: chmod o-w {parent}")


def _journal(hold: Hold) -> Examined:
    with hold.reading() as session:
        head = journal.head_of(session)
        breaks, floor = history.verify(hold, session), floor_of(session)
    findings = [Finding("critical", f"change {broken.seq}: {broken.what}") for broken in breaks]
    facts = {"entries": head.seq, "node": head.node, "origin": head.origin}
    if floor is not None:
        facts |= {"folded": floor.dropped, "floor": floor.seq, "whole_since": to_text(floor.kept_at)}
    return facts, findings


def _clock(hold: Hold) -> Examined:
    """Check for a clock that went back: the order of changes stays correct, but their timestamps do not."""
    with hold.reading() as session:
        last = journal.head_of(session).kept_at
    now = hold.now()
    facts = {"now": to_text(now), "last_change": to_text(last) if last else None}
    if last - now > WRONG_CLOCK:
        return facts, [Finding("critical", "The clock is more than a week behind the last change. Correct it.")]
    if last - now > SLOW_CLOCK:
        return facts, [Finding("warn", f"The clock is {(last - now) // SECOND} seconds behind the last change.")]
    return facts, []


def _schema(hold: Hold) -> Examined:
    with hold.reading() as session:
        return {"version": max(row[0] for row in session.rows("migration_list"))}, []


def _counts(hold: Hold) -> Examined:
    with hold.reading() as session:
        memories = {row[0]: row[1] for row in session.rows("transfer_states", now=hold.now())}
        others = {row[0]: row[1] for row in session.rows("transfer_counts")}
    return {"memories": memories, **others}, []


def _vectors(hold: Hold) -> Examined:
    """Check that embeddings exist and the model loads. Sends no request to a provider."""
    embedder = hold.embedder
    if embedder is None:
        return {"model": None}, []
    with hold.reading() as session:
        live, without = vectors.lacking(session, embedder.model)
    facts = {"model": embedder.model, "remote": embedder.remote, "memories": live, "without": without}
    try:
        embed.must_load(embedder)
    except EmbedderFailed as error:
        return facts, [
            Finding("critical", f"Embeddings cannot be computed; recall uses keywords only. {error.message}")
        ]
    if without > embed.FRESH:
        missing = f"{without} of {live} memories have no embeddings and are found by keywords only"
        return facts, [Finding("warn", f"{missing}. Run `holdfast reembed`.")]
    return facts, []


def _replication(hold: Hold) -> Examined:
    """Check for changes without acknowledgements and for changes in quarantine."""
    with hold.reading() as session:
        pending, since = unreplicated.waiting(session)
        aside = len(session.rows("quarantine_names"))
    facts = {"pending": pending, "since": to_text(since) if since else None, "quarantined": aside}
    findings = []
    if since is not None and hold.now() - since > SLOW_PEERS:
        findings.append(Finding("warn", f"{pending} changes have waited for acknowledgements since {facts['since']}."))
    if aside:
        findings.append(Finding("warn", f"{aside} changes are in quarantine. See `holdfast quarantine list`."))
    return facts, findings


def _subscriptions(hold: Hold) -> Examined:
    """Check for ended subscriptions and dead letters."""
    with hold.reading() as session:
        found = subscriptions.standings(session, None)
    facts = {
        "active": sum(one.state == "active" for one in found),
        "ended": sum(one.state == "ended" for one in found),
        "waiting": sum(one.waiting for one in found),
        "dead_letters": sum(one.dead for one in found),
    }
    return facts, [finding for one in found for finding in _undelivered(one)]


def _undelivered(one: "Standing") -> Iterator[Finding]:
    again = f"`holdfast subscription replay {one.id}"
    if one.state == "ended":
        resume = "" if one.why == REVOKED else f"Resume: {again} --since {one.place}`. "
        yield Finding("warn", f"A subscription ended: {one.why} {resume}Remove: `holdfast unsubscribe {one.id}`.")
    if one.dead and one.why != REVOKED:
        letters = "1 dead letter" if one.dead == 1 else f"{one.dead} dead letters"
        causes = f"`holdfast subscription deliveries {one.id} --state dead`"
        yield Finding("warn", f"A subscription has {letters}. Causes: {causes}. Resend: {again} --all-dead-letters`.")


def _backups(hold: Hold) -> Examined:
    found, unusable = backup.listed(hold)
    facts = {"snapshots": len(found), "newest": found[0].created_at if found else None}
    return facts, [Finding("warn", f"Snapshot {name} has no manifest and cannot be restored.") for name in unusable]
