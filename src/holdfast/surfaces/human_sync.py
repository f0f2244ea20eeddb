"""What went from one store to another, and what they said at once, in a person's words."""

from collections.abc import Iterator
from typing import Any

import click
from msgspec import UNSET

from .human import many, safe, table


def synced(answer: Any) -> Iterator[str]:
    if answer.dry_run is True:
        for name in ("pull", "push"):
            if (plan := getattr(answer, name)) is not UNSET:
                links = many(plan.links, "link")
                yield f"would {name}: {plan.new} new, {plan.update} changed, {plan.noop} the same, {links}"
    elif answer.direction == "pull":
        yield f"pulled {answer.imported} memories from remote"
    elif answer.direction == "push":
        yield f"pushed {answer.exported} memories to remote"
    else:
        yield f"merged: pulled {answer.pulled}, pushed {answer.pushed}"
    for name in answer.forked:
        text = f"two stores gave the same numbers as {safe(name)}: let that store sync, one of them was a copy"
        yield click.style(text, fg="red")
    if answer.given_again is not UNSET:
        again = many(answer.given_again, "change")
        yield f"one of the stores was brought back from a copy: it goes on as a new incarnation, {again} given again"
    yield from _besides(answer)


def _besides(answer: Any) -> Iterator[str]:
    more = [(answer.deletes, "deletion"), (answer.links, "link"), (answer.conflicts, "conflict")]
    if told := [many(number, what) for number, what in more if number]:
        yield ", ".join(told) + (": see `holdfast conflicts list`" if answer.conflicts else "")
    for one in answer.errors:
        where = "here" if one.by == "here" else "there"
        text = f"rejected {where}: {safe(one.kind)} {safe(one.record)}: {safe(one.detail)} [{one.reason}]"
        yield click.style(text, fg="red")


def conflicts(answer: Any) -> Iterator[str]:
    if not answer.conflicts:
        yield "No conflicts."
        return
    rows = (
        (one.id, safe(one.namespace), safe(one.title), safe(one.field), _short(one.shown), _short(one.other))
        for one in answer.conflicts
    )
    yield from table(rows, ("ID", "NAMESPACE", "TITLE", "FIELD", "SHOWN", "OTHER"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def conflict(answer: Any) -> Iterator[str]:
    yield f"{safe(answer.namespace)} / {safe(answer.title)}: {safe(answer.field)}"
    for name in ("shown", "other"):
        side = getattr(answer, name)
        whose = " (mine)" if answer.mine == name else ""
        by = f" by {safe(side.actor)}" if side.actor is not UNSET else ""
        yield click.style(f"{name}{whose}, {side.at}{by}", bold=True)
        yield f"  {safe(str(side.value))}"


def resolved(answer: Any) -> Iterator[str]:
    yield f"Kept {answer.kept} of {safe(answer.field)} in {answer.memory_id}."
    if answer.other_id is not UNSET:
        yield f"The other is {answer.other_id} now."


def status(answer: Any) -> Iterator[str]:
    if not answer.peers:
        yield "No peers yet: `holdfast sync-daemon --peers URL` keeps this store in step with others."
    rows = ((safe(one.peer), one.state, *map(_known, _columns(one))) for one in answer.peers)
    if answer.peers:
        yield from table(
            rows, ("PEER", "STATE", "BEHIND HERE", "BEHIND THERE", "CONFLICTS MET", "ASIDE", "LAST SUCCESS")
        )
    for one in answer.peers:
        if one.last_error is not UNSET:
            yield click.style(f"{safe(one.peer)}: {safe(one.last_error)} ({many(one.failures, 'failure')})", fg="red")
        if one.unknown_there is not UNSET:
            yield f"{safe(one.peer)}: its release does not know {', '.join(one.unknown_there)}: upgrade it"
        if one.clock_ahead_secs is not UNSET:
            yield f"{safe(one.peer)}: its clock is {one.clock_ahead_secs:+.0f} seconds from the one here"
    yield f"{many(answer.conflicts, 'conflict')} not resolved now, {answer.quarantined} in quarantine"
    if answer.pending_replication:
        yield f"{many(answer.pending_replication, 'change')} that too few others have, since {answer.pending_since}"


def bundled(answer: Any) -> Iterator[str]:
    whole = f" and {many(answer.states, 'whole record')}" if answer.states else ""
    text = f"{many(answer.changes, 'change')}{whole} in {answer.bytes:,} bytes; next time: --since {answer.next}"
    if answer.file == "-":
        click.echo(text, err=True)
    else:
        yield text


def unbundled(answer: Any) -> Iterator[str]:
    would = "would take" if answer.dry_run else "took"
    brought = many(answer.imported, "memory", "memories")
    yield f"{would} {brought} from {safe(answer.node)}, up to its change {answer.next}"
    yield from _besides(answer)


def compacted(answer: Any) -> Iterator[str]:
    would = "would be folded" if answer.dry_run else "folded"
    said = f"{answer.bytes_before:,} to {answer.bytes_after:,} bytes"
    yield f"{many(answer.folded, 'entry', 'entries')} of {many(answer.records, 'record')} {would}: {said}"
    if answer.since is not UNSET:
        yield f"history is whole since {answer.since} (change {answer.floor})"
    if answer.waits_for is not UNSET:
        held = many(answer.held_back, "older entry", "older entries")
        yield f"{held} kept until {safe(answer.waits_for)} has taken them"


def _columns(one: Any) -> tuple[Any, ...]:
    return one.behind_here, one.behind_there, one.conflicts, one.quarantined, one.last_success


def _known(value: Any) -> str:
    return "-" if value is UNSET else str(value)


def _short(side: Any) -> str:
    text = safe(str(side.value)).replace("\n", " ")
    return text if len(text) <= 40 else text[:39] + "…"
