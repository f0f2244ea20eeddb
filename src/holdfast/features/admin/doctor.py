"""Check the health of the store without changing it."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holdfast.features.admin import backup
from holdfast.features.embeddings import passage_vectors
from holdfast.features.embeddings import service as embedding_service
from holdfast.features.history import service as history
from holdfast.features.sync.quorum.pending_acks import count_pending
from holdfast.features.webhooks.model import REVOKED, SubscriptionStatus
from holdfast.features.webhooks.service import list_all_statuses
from holdfast.kernel.context import Context
from holdfast.kernel.errors import EmbedderFailed, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import get_compaction_point
from holdfast.kernel.records.fields import computed
from holdfast.kernel.storage.port import Fault
from holdfast.kernel.timestamps import DAY, SECOND, format_timestamp

Severity = Literal["ok", "warn", "critical"]
SEVERITIES: tuple[Severity, ...] = ("ok", "warn", "critical")

MAX_LOG_BYTES = 64 << 20
LOW_SPACE = 256 << 20
CRITICAL_SPACE = 32 << 20
MAX_CLOCK_LAG = 120 * SECOND
MAX_PEER_LAG = 30 * SECOND
CRITICAL_CLOCK_LAG = 7 * DAY
MAX_CONNECTION_SHARE = 0.9
MAX_FINDINGS = 20


class Problem(Struct, frozen=True):
    severity: Severity
    what: str


class HealthSection(Struct, frozen=True):
    name: str
    facts: dict[str, Any]
    findings: list[Problem]

    @computed
    def severity(self) -> Severity:
        return _find_worst(finding.severity for finding in self.findings)


class DoctorReport(Struct, frozen=True):
    sections: list[HealthSection]

    @computed
    def status(self) -> Severity:
        """The worst severity of all sections."""
        return _find_worst(section.severity for section in self.sections)


SectionContent = tuple[dict[str, Any], list[Problem]]


def _find_worst(severities: Iterator[Severity]) -> Severity:
    return max(severities, key=SEVERITIES.index, default="ok")


def run_checks(ctx: Context) -> DoctorReport:
    """Run the checks of every section in order; a section that cannot be read is itself a finding."""
    ctx.caller.require_all_namespaces()
    faults: list[Fault] = []
    parts: dict[str, Callable[[], SectionContent]] = {
        "storage": lambda: _check_storage(ctx, faults),
        "full_text": lambda: ({}, [_fault_finding(fault) for fault in faults if fault.part == "full_text"]),
        "journal": lambda: _check_journal(ctx),
        "clock": lambda: _check_clock(ctx),
        "schema": lambda: _check_schema(ctx),
        "counts": lambda: _count_records(ctx),
        "vectors": lambda: _check_embeddings(ctx),
        "replication": lambda: _check_replication(ctx),
        "subscriptions": lambda: _check_subscriptions(ctx),
        "backups": lambda: _check_backups(ctx),
    }
    sections = []
    for number, (name, look) in enumerate(parts.items()):
        ctx.progress(number, len(parts), name)
        try:
            facts, findings = look()
        except StoreError as error:
            facts, findings = {}, [Problem("critical", error.message)]
        sections.append(HealthSection(name, facts, findings[:MAX_FINDINGS]))
    return DoctorReport(sections)


def _fault_finding(fault: Fault) -> Problem:
    return Problem("critical", fault.what)


def _check_storage(ctx: Context, faults: list[Fault]) -> SectionContent:
    faults += ctx.store.faults()
    facts = ctx.store.facts()
    findings = [_fault_finding(fault) for fault in faults if fault.part == "storage"]
    return facts, [*findings, *_check_space(facts), *_check_server(facts), *_check_modes(ctx.store.private_files())]


def _check_space(facts: dict[str, Any]) -> Iterator[Problem]:
    """Check the free space and write-ahead log of a store in a file."""
    if "free_bytes" not in facts:
        return
    log, free = facts["log_bytes"], facts["free_bytes"]
    if log > MAX_LOG_BYTES:
        yield Problem("warn", f"The write-ahead log has {log} bytes: a long-running reader may block its checkpoint.")
    if free < CRITICAL_SPACE:
        yield Problem("critical", f"Only {free} bytes are free on the disk of the store.")
    elif free < max(LOW_SPACE, facts["bytes"]):
        yield Problem("warn", f"Only {free} bytes are free on the disk of the store: too few for a backup.")


def _check_server(facts: dict[str, Any]) -> Iterator[Problem]:
    """Check that a database server is durable, writable and has free connections."""
    if not facts.get("fsync", True):
        yield Problem("warn", "fsync is off in the database: a power failure can lose changes.")
    if facts.get("replica"):
        yield Problem("warn", "The database is a read-only replica.")
    if facts.get("connections", 0) > MAX_CONNECTION_SHARE * facts.get("most_connections", 1):
        yield Problem("warn", f"{facts['connections']} of {facts['most_connections']} connections are in use.")


def _check_modes(private_files: list[Path]) -> Iterator[Problem]:
    """Check that others cannot read or replace private files."""
    if os.name == "nt":
        return
    for private in private_files:
        if private.exists() and (mode := stat.S_IMODE(private.stat().st_mode)) & 0o077:
            yield Problem("warn", f"Other users can read {private} (mode {mode:04o}). Run: chmod 600 {private}")
    for parent in sorted({private.parent for private in private_files}):
        folder = parent.stat().st_mode
        if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
            yield Problem("warn", f"Other users can replace files in {parent}. Run: chmod o-w {parent}")


def _check_journal(ctx: Context) -> SectionContent:
    with ctx.reading() as session:
        head = journal.get_head(session)
        breaks, floor = history.verify(ctx, session), get_compaction_point(session)
    findings = [Problem("critical", f"change {broken.seq}: {broken.message}") for broken in breaks]
    facts = {"entries": head.seq, "node": head.node, "origin": head.origin}
    if floor is not None:
        facts |= {
            "folded": floor.removed_entries,
            "floor": floor.seq,
            "whole_since": format_timestamp(floor.recorded_at),
        }
    return facts, findings


def _check_clock(ctx: Context) -> SectionContent:
    """Check for a clock that went back: the order of changes stays correct, but their timestamps do not."""
    with ctx.reading() as session:
        last = journal.get_head(session).recorded_at
    now = ctx.now()
    facts = {"now": format_timestamp(now), "last_change": format_timestamp(last) if last else None}
    if last - now > CRITICAL_CLOCK_LAG:
        return facts, [Problem("critical", "The clock is more than a week behind the last change. Correct it.")]
    if last - now > MAX_CLOCK_LAG:
        return facts, [Problem("warn", f"The clock is {(last - now) // SECOND} seconds behind the last change.")]
    return facts, []


def _check_schema(ctx: Context) -> SectionContent:
    with ctx.reading() as session:
        return {"version": max(row[0] for row in session.rows("migration_list"))}, []


def _count_records(ctx: Context) -> SectionContent:
    with ctx.reading() as session:
        memories = {row[0]: row[1] for row in session.rows("transfer_states", now=ctx.now())}
        others = {row[0]: row[1] for row in session.rows("transfer_counts")}
    return {"memories": memories, **others}, []


def _check_embeddings(ctx: Context) -> SectionContent:
    """Check that embeddings exist and the model loads. Sends no request to a provider."""
    embedder = ctx.embedder
    if embedder is None:
        return {"model": None}, []
    with ctx.reading() as session:
        live, without = passage_vectors.count_missing(session, embedder.model)
    facts = {"model": embedder.model, "remote": embedder.remote, "memories": live, "without": without}
    try:
        embedding_service.check_model_loads(embedder)
    except EmbedderFailed as error:
        return facts, [
            Problem("critical", f"Embeddings cannot be computed; recall uses keywords only. {error.message}")
        ]
    if without > embedding_service.MAX_FRESH:
        missing = f"{without} of {live} memories have no embeddings and are found by keywords only"
        return facts, [Problem("warn", f"{missing}. Run `holdfast admin reembed`.")]
    return facts, []


def _check_replication(ctx: Context) -> SectionContent:
    """Check for changes without acknowledgements and for changes in quarantine."""
    with ctx.reading() as session:
        pending, since = count_pending(session)
        aside = len(session.rows("quarantine_names"))
    facts = {"pending": pending, "since": format_timestamp(since) if since else None, "quarantined": aside}
    findings = []
    if since is not None and ctx.now() - since > MAX_PEER_LAG:
        findings.append(Problem("warn", f"{pending} changes have waited for acknowledgements since {facts['since']}."))
    if aside:
        findings.append(Problem("warn", f"{aside} changes are in quarantine. See `holdfast sync quarantine`."))
    return facts, findings


def _check_subscriptions(ctx: Context) -> SectionContent:
    """Check for ended subscriptions and dead letters."""
    with ctx.reading() as session:
        statuses = list_all_statuses(session)
    facts = {
        "active": sum(one.state == "active" for one in statuses),
        "ended": sum(one.state == "ended" for one in statuses),
        "waiting": sum(one.waiting for one in statuses),
        "dead_letters": sum(one.dead for one in statuses),
    }
    return facts, [finding for one in statuses for finding in _check_deliveries(one)]


def _check_deliveries(one: "SubscriptionStatus") -> Iterator[Problem]:
    again = f"`holdfast webhook replay {one.id}"
    if one.state == "ended":
        resume = "" if one.why == REVOKED else f"Resume: {again} --since {one.place}`. "
        yield Problem("warn", f"A subscription ended: {one.why} {resume}Remove: `holdfast webhook remove {one.id}`.")
    if one.dead and one.why != REVOKED:
        letters = "1 dead letter" if one.dead == 1 else f"{one.dead} dead letters"
        causes = f"`holdfast webhook deliveries {one.id} --state dead`"
        yield Problem("warn", f"A subscription has {letters}. Causes: {causes}. Resend: {again} --all-dead-letters`.")


def _check_backups(ctx: Context) -> SectionContent:
    manifests, unusable = backup.list_snapshots(ctx)
    facts = {"snapshots": len(manifests), "newest": manifests[0].created_at if manifests else None}
    return facts, [Problem("warn", f"Snapshot {name} has no manifest and cannot be restored.") for name in unusable]
