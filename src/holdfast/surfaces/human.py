"""Answers for a person: aligned, coloured on a terminal, and harmless whatever was stored."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """Stored text that cannot move the cursor, colour the screen or turn the line around."""
    return _UNSAFE.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def one_line(text: str, width: int = 100) -> str:
    flat = " ".join(safe(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def table(rows: Iterable[tuple[str, ...]], head: tuple[str, ...]) -> Iterator[str]:
    """Columns as wide as what is in them."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for number, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield click.style(line, bold=True) if number == 0 else line


def memory(answer: Any) -> Iterator[str]:
    """One memory, whole."""
    yield click.style(safe(answer.title), bold=True)
    unusual = [word for word in (answer.scope, answer.state) if word not in ("collective", "live")]
    about = (
        answer.id,
        safe(answer.namespace),
        answer.tier,
        f"priority {answer.priority}",
        f"v{answer.version}",
        *unusual,
    )
    yield click.style("  ".join(about), dim=True)
    by = f"by {safe(answer.agent_id)} at {answer.created_at[:19].replace('T', ' ')}"
    end = f", until {answer.expires_at[:19].replace('T', ' ')}" if isinstance(answer.expires_at, str) else ""
    yield click.style(by + end, dim=True)
    if answer.tags:
        yield click.style("tags: " + ", ".join(safe(tag) for tag in answer.tags), fg="cyan")
    if mark := getattr(answer, "stale", None):
        yield stale(mark)
    yield ""
    yield safe(answer.content)
    links = getattr(answer, "links", [])
    for link in links:
        yield click.style(f"  {link.source_id} -{link.relation}-> {link.target_id}", dim=True)
    yield from _noticed(answer)
    if outcome := getattr(answer, "outcome", None):
        yield click.style(f"({outcome})", fg="green")


def _noticed(answer: Any) -> Iterator[str]:
    """What was noticed of a memory: orders and secrets in it, and others that are like it."""
    for name, what in (("untrusted", "untrusted"), ("secrets", "holds secrets"), ("redacted", "taken out")):
        if found := getattr(answer, name, None):
            yield click.style(f"{what}: {', '.join(found)}", fg="yellow")
    if again := getattr(answer, "restated", None):
        yield click.style(f"restated {many(again, 'time')}", dim=True)
    for one in getattr(answer, "similar", None) or ():
        yield click.style(f"  {one.suggestion:<11} {one.id}  {one_line(one.title, 60)}", dim=True)


def _rows(found: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    for one in found:
        yield (one.id, one.tier, str(one.priority), one_line(one.namespace, 30), one_line(one.title, 60))


def _listed(found: list[Any], nothing: str = "No memories.") -> Iterator[str]:
    if not found:
        yield nothing
        return
    yield from table(_rows(found), ("ID", "TIER", "PRI", "NAMESPACE", "TITLE"))


def memories(answer: Any) -> Iterator[str]:
    yield from _listed(answer.memories)


def results(answer: Any) -> Iterator[str]:
    yield from _listed(answer.results, "Nothing holds all of these words.")


def archived(answer: Any) -> Iterator[str]:
    yield from _listed(answer.archived, "The archive is empty.")


def recalled(answer: Any) -> Iterator[str]:
    """What holds in the namespace, then each hit with its text: what a person asked for."""
    if answer.toon:
        yield from map(safe, answer.toon.splitlines())
        return
    for standard in answer.standards or ():
        yield click.style(f"      {safe(standard.title)}: {one_line(standard.content, 200)}", fg="cyan")
    if not answer.memories:
        yield "Nothing found."
    for hit in answer.memories:
        yield click.style(f"{hit.score:.2f}  {safe(hit.title)}", bold=True)
        yield click.style(f"      {hit.id}  {safe(hit.namespace)}  by {safe(hit.agent_id)}", dim=True)
        yield "      " + one_line(hit.content, 200)
        if hit.matched and hit.matched.start > 0:
            said = hit.content[hit.matched.start : hit.matched.end]
            yield click.style(f"      from {hit.matched.start} to {hit.matched.end}: ", dim=True) + one_line(said, 200)
        if hit.stale:
            yield "      " + stale(hit.stale)
        if hit.untrusted:
            yield click.style(f"      untrusted: {', '.join(hit.untrusted)}", fg="yellow")
        if hit.why:
            yield from _weighed(hit.why, "      ")
    if answer.meta.degraded:
        yield click.style(answer.meta.degraded, fg="yellow")


def namespaces(answer: Any) -> Iterator[str]:
    for one in answer.namespaces:
        yield f"{one.count:>6}  {safe(one.namespace)}"


def taxonomy(answer: Any) -> Iterator[str]:
    yield from _branch(answer.tree, 0)
    if answer.truncated:
        yield "There are more: raise --limit or --depth."


def _branch(branch: Any, depth: int) -> Iterator[str]:
    yield f"{branch.subtree_count:>6}  {'  ' * depth}{safe(branch.name or branch.namespace or '(all)')}"
    for inner in branch.children:
        yield from _branch(inner, depth + 1)


def reached(answer: Any) -> Iterator[str]:
    """What a memory leads to, as far away as it is indented."""
    if not answer.memories:
        yield "No links lead from it."
    for one in answer.memories:
        yield f"{'  ' * one.depth}-{one.relation}-> {safe(one.title)}  " + click.style(one.target_id, dim=True)
    if answer.truncated:
        yield click.style("There are more: raise --limit.", fg="yellow")


def drawn(answer: Any) -> Iterator[str]:
    """A drawing as it is, or the memories and the links between them."""
    if answer.text:
        yield from answer.text.splitlines()
        return
    if answer.format == "json":
        yield msgspec.json.encode(answer).decode()
        return
    titles = {node.id: safe(node.title) for node in answer.nodes}
    if not answer.links:
        yield "No links hold here."
    for link in answer.links:
        yield f"{titles[link.source_id]} -{link.relation}-> {titles[link.target_id]}"
    if answer.truncated:
        yield click.style("There is more than is shown: raise --limit, or ask for less.", fg="yellow")


def paths(answer: Any) -> Iterator[str]:
    if not answer.paths:
        yield "No path connects them."
    for path in answer.paths:
        yield " - ".join(path)


def deleted(answer: Any) -> Iterator[str]:
    yield f"Deleted {answer.id}. `holdfast history {answer.id}` shows it; `holdfast undo CHANGE` brings it back."


def undone(answer: Any) -> Iterator[str]:
    yield f"Took change {answer.undone} back, by change {answer.change}. `holdfast undo {answer.change}` has it again."


def changes(answer: Any) -> Iterator[str]:
    shown = answer.changes
    yield from table(
        (
            (str(c.seq), c.at[:19].replace("T", " "), c.op, str(c.version or ""), safe(c.actor), _after(c))
            for c in shown
        ),
        ("CHANGE", "AT", "WHAT", "VERSION", "BY", "AFTER IT"),
    )
    if isinstance(answer.folded_before, str):
        yield f"What happened before {answer.folded_before} was folded by compact."


def events(answer: Any) -> Iterator[str]:
    for c in answer.events:
        yield f"{c.seq:>6}  {c.at[:19].replace('T', ' ')}  {c.op:<10} {c.kind:<8} {safe(c.actor)}  {_after(c)}"


def _after(change: Any) -> str:
    if not isinstance(change.memory, dict):
        return "(not shown)"
    record = change.memory
    if change.kind == "memory":
        return one_line(f"[{record['state']}] {record['title']}: {record['content']}", 70)
    return one_line(record.get("relation") or record.get("name") or record.get("agent_type") or record["id"], 70)


def verified(answer: Any) -> Iterator[str]:
    if answer.intact:
        yield click.style(f"Intact: {many(answer.entries, 'change')}, head {answer.head}", fg="green")
    else:
        yield click.style("NOT INTACT", fg="red", bold=True)
    for finding in answer.findings:
        yield f"  change {finding.seq}: {safe(finding.what)}"


def diagnosis(answer: Any) -> Iterator[str]:
    """Each part of the store with what is known and what is wrong of it, and the verdict last."""
    colours = {"ok": "green", "warn": "yellow", "critical": "red"}
    width = max(len(section.name) for section in answer.sections)
    for section in answer.sections:
        facts = ", ".join(f"{name} {_fact(fact)}" for name, fact in section.facts.items())
        severity = click.style(f"{section.severity:<8}", fg=colours[section.severity])
        yield f"{severity}  {section.name:<{width}}  {facts}".rstrip()
        for one in section.findings:
            yield click.style(f"          {one.severity}: {safe(one.what)}", fg=colours[one.severity])
    yield click.style(f"The store is {'well' if answer.status == 'ok' else answer.status}.", bold=True)


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{safe(str(name))} {_fact(item)}" for name, item in value.items()) or "none"
    return safe(_scalar(value))


def backed_up(answer: Any) -> Iterator[str]:
    yield f"Wrote {safe(answer.path)} ({answer.bytes:,} bytes)."
    if answer.pruned:
        yield f"Removed {many(len(answer.pruned), 'older snapshot')}."


def snapshots(answer: Any) -> Iterator[str]:
    if not answer.snapshots:
        yield "No snapshots: `holdfast backup` takes one."
    for one in answer.snapshots:
        reason = f"  {safe(one.reason)}" if isinstance(one.reason, str) else ""
        yield f"{safe(one.snapshot)}  {one.bytes:>12,} bytes{reason}"
    for name in answer.unusable:
        yield click.style(f"{safe(name)}  has no manifest: it cannot be restored", fg="yellow")


def restored(answer: Any) -> Iterator[str]:
    if answer.dry_run:
        yield f"{safe(answer.snapshot)} is whole and could be restored. Nothing was changed."
    else:
        yield f"Restored {safe(answer.snapshot)}."
        yield f"What was there before is {safe(answer.before)}: restore that to go back."


def moved(answer: Any) -> Iterator[str]:
    yield from table(((one.table, f"{one.rows:,}") for one in answer.tables if one.rows), ("TABLE", "ROWS"))
    there = "go on with the move to" if answer.resumed else "move to"
    if answer.dry_run:
        yield f"Could {there} {safe(answer.target)}: {many(answer.rows, 'row')}. Nothing was changed."
    else:
        yield f"Moved {safe(answer.source)} to {safe(answer.target)}."
        yield f"All {many(answer.rows, 'row')} are the same on both sides."
        yield "Name the new place with --db or HOLDFAST_DB from now on; the old store is as it was."


def export_written(answer: Any) -> Iterator[str]:
    """How much went into the file; a pipe gets nothing but the export."""
    text = f"{sum(answer.arrays.values()):,} rows in {answer.bytes:,} bytes"
    if answer.file == "-":
        click.echo(text, err=True)
    else:
        yield text


def imported(answer: Any) -> Iterator[str]:
    """What became of the memories, of what came with them, and of every row that was rejected."""
    yield _told("memories", answer) + (" (dry run: nothing was changed)" if answer.dry_run else "")
    for name, counts in answer.arrays.items():
        if name not in ("memories", "archived") and any((counts.imported, counts.merged, counts.older)):
            yield _told(name, counts)
    if answer.kept:
        yield "Kept as it is: " + ", ".join(safe(name) for name in answer.kept)
    for one in answer.errors:
        yield click.style(f"rejected {safe(one.array)}[{one.index}]: {safe(one.error)} [{one.code}]", fg="red")


def _told(name: str, counts: Any) -> str:
    later = f", {counts.older} older than here" if counts.older else ""
    return f"{name}: {counts.imported} new, {counts.merged} merged, {counts.unchanged} unchanged{later}"


def consolidated(answer: Any) -> Iterator[str]:
    """The memory that was made, and of how many."""
    yield from memory(answer.memory)
    yield click.style(f"(made of {answer.consolidated} memories, which are archived)", fg="green")


def duplicate(answer: Any) -> Iterator[str]:
    """Whether it is remembered already, and what is most like it."""
    yield "It is remembered already." if answer.is_duplicate else "It is new."
    if answer.nearest is not None:
        near = answer.nearest
        yield f"{near.similarity:.2f}  {near.id}  {safe(near.namespace)}  {one_line(near.title, 60)}"


def many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def stats(answer: Any) -> Iterator[str]:
    total, links = many(answer.total, "memory", "memories"), many(answer.links_count, "link")
    yield f"{total}, {answer.archived_total} archived, {links}"
    yield f"{many(answer.changes, 'change')} in the journal"
    yield f"{answer.db_size_bytes:,} bytes; {answer.expiring_soon} expire within the hour"
    for count in answer.by_tier:
        yield f"  {count.tier:<6} {count.count}"
    for count in answer.by_namespace[:50]:
        yield f"  {safe(count.namespace):<30} {count.count}"
    for model in answer.embeddings:
        yield f"  {safe(model.model):<30} {many(model.count, 'vector')} of {model.dim}, {model.stale} stale"


def granted(answer: Any) -> Iterator[str]:
    has = f"now has a grant ({answer.permission})" if answer.granted else "has no grant any more"
    yield f"{safe(answer.agent_id)} {has} on {answer.id}."


def outcomes(answer: Any) -> Iterator[str]:
    """A batch, item by item."""
    for one in answer.outcomes:
        id, error = getattr(one, "id", ""), getattr(one, "error", "")
        about = id if isinstance(id, str) else f"item {one.index + 1}"
        yield f"{one.outcome:<9} {safe(about)}" + (f"  {safe(error)}" if isinstance(error, str) else "")
        if anew := getattr(one, "reflect_with", None) or ():
            yield click.style(f"          To draw it anew: reflect {' '.join(anew)}", dim=True)


def invalidations(answer: Any) -> Iterator[str]:
    """What is stale, why, and what became of it."""
    if not answer.invalidations:
        yield "Nothing that is told of here stands on something that fell."
    for one in answer.invalidations:
        yield click.style(f"{one.status:<12} {safe(one.title)}", bold=one.status == "open")
        fell = f" {one.invalidated_id}" if isinstance(one.invalidated_id, str) else ""
        heir = f" by {one.invalidating_id}" if isinstance(one.invalidating_id, str) else ""
        yield f"      {one.dependent_id} stands on{fell}, {one.cause}{heir}  ({one.hop} away)"
        reason = f": {safe(one.reason)}" if isinstance(one.reason, str) else ""
        by = f"  {safe(one.resolver)}{reason}" if isinstance(one.resolver, str) else ""
        yield click.style(f"      {one.id}  since {one.created_at[:19].replace('T', ' ')}{by}", dim=True)


def dependents(answer: Any) -> Iterator[str]:
    if not answer.dependents:
        yield "Nothing stands on it."
    for one in answer.dependents:
        mark = click.style("  stale", fg="yellow") if one.stale else ""
        yield f"{one.hop:>3}  {one.id}  {safe(one.title)}{mark}"


def lineage(answer: Any) -> Iterator[str]:
    """What it comes from, or what comes of it, further in with every step."""
    if not answer.nodes:
        yield "Nothing: it was derived from no other." if answer.direction == "ancestors" else "Nothing came of it."
    for one in answer.nodes:
        gone = "" if one.state == "live" else click.style(f"  {one.state}", fg="yellow")
        yield f"{one.depth:>3}  {one.id}  {one.relation:<12}  {safe(one.title or '-')}{gone}"
    if answer.truncated:
        yield "There is more: ask for fewer steps with --max-depth."


def reflected(answer: Any) -> Iterator[str]:
    """Where a conclusion stands, or that it waits."""
    if answer.pending_id:
        yield f"It would have the depth {answer.proposed_depth}: that waits for an approval as {answer.pending_id}."
        return
    yield f"{answer.id}  {safe(answer.namespace)}  depth {answer.reflection_depth}"
    yield from (click.style(f"  reflects on {id}", dim=True) for id in answer.reflects_on)


def stale(mark: Any) -> str:
    """Why a memory is stale, in one line."""
    fell = f" ({mark.invalidated_id})" if isinstance(mark.invalidated_id, str) else ""
    return click.style(f"stale: what it stands on{fell} is {mark.cause} since {mark.since[:10]}", fg="yellow")


def key_made(answer: Any) -> Iterator[str]:
    yield click.style(answer.key, bold=True)
    where = "everywhere" if answer.namespaces == ["*"] else "in " + ", ".join(map(safe, answer.namespaces))
    yield f"The key {safe(answer.name)!r}: {answer.scope} {where}, as {safe(answer.agent_id)}. Its id is {answer.id}."
    yield "Copy it now: it is kept nowhere and cannot be shown again."


def inbox(answer: Any) -> Iterator[str]:
    if not answer.messages:
        yield "No messages."
    for message in answer.messages:
        mark = " " if message.read else click.style("*", fg="yellow")
        yield f"{mark} {message.created_at[:19].replace('T', ' ')}  {safe(message.sender)}: {safe(message.title)}"
        yield "    " + one_line(message.payload, 200)


def document(answer: Any) -> Iterator[str]:
    """An answer that is a file: the same JSON for a person and a pipe, what could harm a terminal escaped in it."""
    yield _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(answer).decode())


def anything(answer: Any) -> Iterator[str]:
    """An answer without a form of its own: its fields, indented."""
    yield from _plain(msgspec.to_builtins(answer), 0)


def _plain(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list | tuple) and item:
                yield f"{pad}{safe(str(key))}:"
                yield from _plain(item, depth + 1)
            else:
                yield f"{pad}{safe(str(key))}: {safe(_scalar(item))}"
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, dict):
                lines = list(_plain(item, depth + 1))
                yield pad + "- " + lines[0].lstrip() if lines else pad + "-"
                yield from lines[1:]
            else:
                yield f"{pad}- {safe(_scalar(item))}"
    else:
        yield pad + safe(_scalar(value))


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case [] | {}:
            return "none"
        case _:
            return str(value)


def reembedded(answer: Any) -> Iterator[str]:
    yield f"{answer.memories} memories got vectors by {answer.model}, of {answer.passages} passages."
    if answer.dropped:
        yield click.style(
            f"{answer.dropped} older vectors were dropped: they had another number of dimensions.", fg="yellow"
        )
    for one in answer.refused:
        yield click.style(f"{one.id} got none: {one.error}", fg="yellow")


def context(answer: Any) -> Iterator[str]:
    yield from map(safe, answer.text.splitlines()) if answer.text else [answer.reason]
    if answer.degraded:
        yield click.style(answer.degraded, fg="yellow")


def explained(answer: Any) -> Iterator[str]:
    """What kept a memory out, and what it is worth beside the hits."""
    yield click.style(safe(answer.title), bold=True) + click.style(f"  {answer.id}", dim=True)
    for reason in answer.reasons:
        yield click.style(f"  {safe(reason.message)}", fg="green" if answer.returned else "yellow")
    if answer.why:
        yield from _weighed(answer.why, "  ")


def _weighed(why: Any, indent: str) -> Iterator[str]:
    """What a score is made of."""
    names = {name: name.replace("_", " ") for name in why.parts}
    if why.cosine is msgspec.UNSET:
        names["vector"] = "estimated vector"
    parts = [f"{names[name]} {part.value:.2f} x {part.weight:g}" for name, part in why.parts.items()]
    total = " + ".join(parts) or "nothing"
    adjusted = ", ".join(
        f"{name} {value:{'g' if name == 'over' else '+.3f'}}" for name, value in why.adjustments.items()
    )
    factor = f"{why.adjustment:.3f}" + (f" ({adjusted})" if adjusted else "")
    yield click.style(f"{indent}score {why.score:.3f} = ({total}) x {factor}", dim=True)
    if why.terms:
        yield click.style(f"{indent}holds {', '.join(map(safe, why.terms))}", dim=True)


def judged(answer: Any) -> Iterator[str]:
    for one in answer.judged:
        again = "" if one.outcome == "applied" else ", as was said before"
        yield f"{one.id} {one.verdict}{again}. Its utility is {one.utility:+.2f}."


def recalls(answer: Any) -> Iterator[str]:
    if not answer.recalls:
        yield "Nothing was asked, or it is no longer kept."
    for one in answer.recalls:
        yield click.style(one_line(one.question) if one.question else "(not kept)", bold=True)
        yield click.style(
            f"  {one.recall_id}  {one.asked_at[:19].replace('T', ' ')}  by {safe(one.agent_id)}", dim=True
        )
        for hit in one.hits:
            said = ", ".join(f"{verdict} by {safe(agent)}" for agent, verdict in hit.verdicts.items())
            yield f"  {hit.score:.3f}  {hit.id}  {said}".rstrip()
