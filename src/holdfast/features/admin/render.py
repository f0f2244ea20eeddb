"""Terminal output of stats, doctor, backup, restore and migrate."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, format_scalar, pluralize, render_table, style


def render_stats(answer: Any) -> Iterator[str]:
    total, links = pluralize(answer.total, "memory", "memories"), pluralize(answer.links_count, "link")
    yield f"{total}, {answer.archived_total} archived, {links}"
    yield f"{pluralize(answer.changes, 'change')} in the journal"
    yield f"{answer.db_size_bytes:,} bytes; {answer.expiring_soon} expire within the hour"
    for count in answer.by_tier:
        yield f"  {count.tier:<6} {count.count}"
    for count in answer.by_namespace[:50]:
        yield f"  {escape(count.namespace):<30} {count.count}"
    for model in answer.embeddings:
        yield f"  {escape(model.model):<30} {pluralize(model.count, 'vector')} of {model.dim}, {model.stale} stale"


def render_diagnosis(answer: Any) -> Iterator[str]:
    """Print each section of the report with its facts and findings, then the overall status."""
    colours = {"ok": "green", "warn": "yellow", "critical": "red"}
    width = max(len(section.name) for section in answer.sections)
    for section in answer.sections:
        facts = ", ".join(f"{name} {_format_fact(fact)}" for name, fact in section.facts.items())
        severity = style(f"{section.severity:<8}", fg=colours[section.severity])
        yield f"{severity}  {section.name:<{width}}  {facts}".rstrip()
        for one in section.findings:
            yield style(f"          {one.severity}: {escape(one.what)}", fg=colours[one.severity])
    yield style(f"Status: {answer.status}", bold=True)


def _format_fact(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{escape(str(name))} {_format_fact(item)}" for name, item in value.items()) or "none"
    return escape(format_scalar(value))


def render_backup(answer: Any) -> Iterator[str]:
    yield f"Wrote {escape(answer.path)} ({answer.bytes:,} bytes)."
    if answer.pruned:
        yield f"Removed {pluralize(len(answer.pruned), 'older snapshot')}."


def render_snapshots(answer: Any) -> Iterator[str]:
    if not answer.snapshots:
        yield "No snapshots. Create one with `holdfast backup`."
    for one in answer.snapshots:
        reason = f"  {escape(one.reason)}" if isinstance(one.reason, str) else ""
        yield f"{escape(one.snapshot)}  {one.bytes:>12,} bytes{reason}"
    for name in answer.unusable:
        yield style(f"{escape(name)}  no manifest, cannot be restored", fg="yellow")


def render_restore(answer: Any) -> Iterator[str]:
    if answer.dry_run:
        yield f"{escape(answer.snapshot)} is valid and can be restored. Nothing was changed."
    else:
        yield f"Restored {escape(answer.snapshot)}."
        yield f"To go back: holdfast backup restore --from {escape(answer.before)}"


def render_migration(answer: Any) -> Iterator[str]:
    yield from render_table(((one.table, f"{one.rows:,}") for one in answer.tables if one.rows), ("TABLE", "ROWS"))
    action = "continue the migration to" if answer.resumed else "migrate to"
    if answer.dry_run:
        yield f"Would {action} {escape(answer.target)}: {pluralize(answer.rows, 'row')}. Nothing was changed."
    else:
        yield f"Migrated {escape(answer.source)} to {escape(answer.target)}."
        yield f"Verified: all {pluralize(answer.rows, 'row')} are equal on both sides."
        yield "Use the new store with --db or HOLDFAST_DB; the old store is unchanged."
