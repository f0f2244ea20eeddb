"""Terminal output of sync, conflicts, bundles, compaction, peers and quarantine."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from holdfast.kernel.terminal import escape, pluralize, print_error, render_table, shorten, style


def render_sync(answer: Any) -> Iterator[str]:
    if answer.dry_run is True:
        for name in ("pull", "push"):
            if (plan := getattr(answer, name)) is not UNSET:
                links = pluralize(plan.links, "link")
                yield f"would {name}: {plan.new} new, {plan.update} changed, {plan.noop} unchanged, {links}"
    elif answer.direction == "pull":
        yield f"pulled {answer.imported} memories from remote"
    elif answer.direction == "push":
        yield f"pushed {answer.exported} memories to remote"
    else:
        yield f"merged: pulled {answer.pulled}, pushed {answer.pushed}"
    for name in answer.forked:
        text = f"{escape(name)} is forked: a copy of its store was used. Sync that store to repair it."
        yield style(text, fg="red")
    if answer.given_again is not UNSET:
        again = pluralize(answer.given_again, "change")
        yield f"a store restored from a copy was repaired: new incarnation, {again} reissued"
    yield from _render_other_changes(answer)


def _render_other_changes(answer: Any) -> Iterator[str]:
    """Print the counts of deletions, links and conflicts, and every rejected change."""
    more = [(answer.deletes, "deletion"), (answer.links, "link"), (answer.conflicts, "conflict")]
    if counts := [pluralize(number, what) for number, what in more if number]:
        yield ", ".join(counts) + (": see `holdfast sync conflicts`" if answer.conflicts else "")
    for one in answer.errors:
        where = "here" if one.by == "here" else "there"
        text = f"rejected {where}: {escape(one.kind)} {escape(one.record)}: {escape(one.detail)} [{one.reason}]"
        yield style(text, fg="red")


def render_conflicts(answer: Any) -> Iterator[str]:
    if not answer.conflicts:
        yield "No conflicts."
        return
    rows = (
        (
            one.id,
            escape(one.namespace),
            escape(one.title),
            escape(one.field),
            _format_side(one.shown),
            _format_side(one.other),
        )
        for one in answer.conflicts
    )
    yield from render_table(rows, ("ID", "NAMESPACE", "TITLE", "FIELD", "SHOWN", "OTHER"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def render_conflict(answer: Any) -> Iterator[str]:
    yield f"{escape(answer.namespace)} / {escape(answer.title)}: {escape(answer.field)}"
    for name in ("shown", "other"):
        side = getattr(answer, name)
        whose = " (mine)" if answer.mine == name else ""
        by = f" by {escape(side.actor)}" if side.actor is not UNSET else ""
        yield style(f"{name}{whose}, {side.at}{by}", bold=True)
        yield f"  {escape(str(side.value))}"


def render_conflict_resolution(answer: Any) -> Iterator[str]:
    yield f"Kept {answer.kept} of {escape(answer.field)} in {answer.memory_id}."
    if answer.other_id is not UNSET:
        yield f"The other value is now memory {answer.other_id}."


def render_sync_status(answer: Any) -> Iterator[str]:
    if not answer.peers:
        yield "No peers connected. Sync with others: `holdfast sync daemon --peers URL`."
    rows = ((escape(one.peer), one.state, *map(_format_optional, _get_columns(one))) for one in answer.peers)
    if answer.peers:
        yield from render_table(
            rows, ("PEER", "STATE", "BEHIND HERE", "BEHIND THERE", "CONFLICTS MET", "QUARANTINED", "LAST SUCCESS")
        )
    for one in answer.peers:
        if one.last_error is not UNSET:
            yield style(
                f"{escape(one.peer)}: {escape(one.last_error)} ({pluralize(one.failures, 'failure')})", fg="red"
            )
        if one.unknown_there is not UNSET:
            yield f"{escape(one.peer)}: its release does not support {', '.join(one.unknown_there)}: upgrade it"
        if one.clock_ahead_secs is not UNSET:
            yield f"{escape(one.peer)}: its clock differs by {one.clock_ahead_secs:+.0f} seconds"
    yield f"{pluralize(answer.conflicts, 'open conflict')}, {answer.quarantined} in quarantine"
    if answer.pending_replication:
        pending = pluralize(answer.pending_replication, "change")
        yield f"{pending} pending acknowledgement since {answer.pending_since}"


def render_bundle_export(answer: Any) -> Iterator[str]:
    """Print the size of the bundle; on standard error if the bundle itself goes to standard output."""
    whole = f" and {pluralize(answer.states, 'full record')}" if answer.states else ""
    text = f"{pluralize(answer.changes, 'change')}{whole} in {answer.bytes:,} bytes; next time: --since {answer.next}"
    if answer.file == "-":
        print_error(text)
    else:
        yield text


def render_bundle_import(answer: Any) -> Iterator[str]:
    verb = "would import" if answer.dry_run else "imported"
    count = pluralize(answer.imported, "memory", "memories")
    yield f"{verb} {count} from {escape(answer.node)}, up to its change {answer.next}"
    yield from _render_other_changes(answer)


def render_compaction(answer: Any) -> Iterator[str]:
    verb = "would compact" if answer.dry_run else "compacted"
    size = f"{answer.bytes_before:,} to {answer.bytes_after:,} bytes"
    yield f"{verb} {pluralize(answer.folded, 'entry', 'entries')} of {pluralize(answer.records, 'record')}: {size}"
    if answer.since is not UNSET:
        yield f"full history since {answer.since} (change {answer.floor})"
    if answer.waits_for is not UNSET:
        older = pluralize(answer.held_back, "older entry", "older entries")
        yield f"{older} kept until {escape(answer.waits_for)} has received them"


def _get_columns(one: Any) -> tuple[Any, ...]:
    return one.behind_here, one.behind_there, one.conflicts, one.quarantined, one.last_success


def _format_optional(value: Any) -> str:
    return "-" if value is UNSET else str(value)


def _format_side(side: Any) -> str:
    text = escape(str(side.value)).replace("\n", " ")
    return text if len(text) <= 40 else text[:39] + "…"


def render_peer_token(answer: Any) -> Iterator[str]:
    yield answer.token


def render_peer(answer: Any) -> Iterator[str]:
    yield f"Peer {escape(answer.name)}{_format_url(answer)}"
    yield f"  reads:  {_format_patterns(answer.tell)}"
    yield f"  writes: {_format_patterns(answer.take)}{_format_admin(answer)}"


def render_peer_removal(answer: Any) -> Iterator[str]:
    yield f"Removed peer {escape(answer.name)}. Data it sent before stays."


def render_peer_certificate(answer: Any) -> Iterator[str]:
    yield f"Wrote {escape(answer.certificate)} and its key, signed by {escape(answer.ca)}"
    yield f"sha256:{answer.fingerprint}"


def _format_url(answer: Any) -> str:
    return "" if answer.url is UNSET else f" at {escape(answer.url)}"


def _format_admin(answer: Any) -> str:
    return ", admin" if answer.admin else ""


def _format_patterns(patterns: list[str]) -> str:
    return ", ".join(escape(pattern) for pattern in patterns) or "nothing"


def render_quarantine(answer: Any) -> Iterator[str]:
    if not answer.quarantined:
        yield "The quarantine is empty."
        return
    rows = (
        (
            one.id,
            one.reason,
            escape(one.kind),
            escape(one.record),
            _get_sender(one),
            str(one.tries),
            shorten(one.detail, 60),
        )
        for one in answer.quarantined
    )
    yield from render_table(rows, ("ID", "REASON", "KIND", "RECORD", "FROM", "TRIES", "DETAIL"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def render_quarantined_change(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.kind)} {escape(answer.record)}: {answer.reason}", bold=True)
    yield escape(answer.detail)
    yield f"change {answer.number} of {escape(answer.origin)}, {escape(answer.action)} by {escape(answer.actor)}"
    yield f"made {answer.made_at}, sent by {_get_sender(answer)}"
    yield f"in quarantine since {answer.kept_at}, tried {pluralize(answer.tries, 'time')}, last {answer.tried_at}"
    if answer.says is not UNSET:
        yield escape(answer.says)


def render_quarantine_retry(answer: Any) -> Iterator[str]:
    yield f"{answer.applied} applied, {answer.rejected} still in quarantine"
    for one in answer.outcomes:
        if one.outcome == "rejected":
            text = f"rejected: {escape(one.kind)} {escape(one.record)}: {escape(one.detail)} [{one.reason}]"
            yield style(text, fg="red")


def render_quarantine_drop(answer: Any) -> Iterator[str]:
    for one in answer.dropped:
        change = f"change {one.number} of {escape(one.origin)}"
        yield f"Dropped {escape(one.kind)} {escape(one.record)}, {change} [{one.reason}]"


def _get_sender(one: Any) -> str:
    return escape(one.peer if one.peer_name is UNSET else one.peer_name)
