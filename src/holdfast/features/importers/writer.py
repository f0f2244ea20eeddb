"""Store imported records: once, in order, with the validation of every other write."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.graph import entities
from holdfast.features.importers import model, store
from holdfast.features.importers.links import add_links, count_new_links
from holdfast.features.importers.model import EnvelopeRows, Note, NoteLink, Omission, Problem, Record, Turn
from holdfast.features.importers.plan import ORIGINAL_KEY, SOURCE_UPDATED_KEY, Options, PlannedMemory, Planner
from holdfast.features.importers.report import Outcome, Report, is_older, is_revert, report_older_exports
from holdfast.features.importers.store import IMPORT_RECORDS, ImportRecord
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.read_memories import require_write_access
from holdfast.features.memories.store_memory import find_title_holder, number_title
from holdfast.features.transfer import importer
from holdfast.features.transfer.import_state import Options as ImportOptions
from holdfast.features.transfer.import_state import Outcome as ImportOutcome
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, higher_tier
from holdfast.kernel.records.validate import memory_from_draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.recalled_blocks import remove_recalled
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import derive_id

BATCH_SIZE = 200
"""Memories per transaction."""
MAX_NUMBERED_TITLES = 1000
SHORTENED_REASON = "shorter at its source"
"""Archive reason of a part that no longer exists."""
CAPTURED_FORMATS = ("claude-code", "codex", "capture")
"""Formats whose turns can arrive twice: captured live and read from a transcript."""


class RecordWriter:
    """Stores records in batches, one transaction each. An interrupted import can be repeated to continue."""

    def __init__(self, ctx: Context, form: str, options: Options) -> None:
        ctx.caller.require_access(options.namespace)
        self.report = Report()
        self._ctx = ctx
        self._form = form
        self._options = options
        self._planner = Planner(options, ctx.caller.agent, ctx.now, self.report.add_problem)
        self._batch: list[PlannedMemory] = []
        self._links: list[NoteLink] = []
        self._short_threads: dict[str, list[Turn]] = {}
        self._long_threads: set[str] = set()
        self._dry_run_keys: set[str] = set()
        """Keys of notes that a dry run would have stored; links can refer to them."""
        self._existing_ids: set[str] = set()
        """Ids of memories in the batch that exist without an import record."""

    def write_records(self, records: Iterable[Record]) -> Report:
        """Store all records and return the report."""
        for record in records:
            self._ctx.progress.check()
            self._add_record(record)
            if len(self._batch) >= BATCH_SIZE or len(self._links) >= BATCH_SIZE:
                self._flush()
        self.report.short_conversations += len(self._short_threads)
        self._flush()
        report_older_exports(self.report, self._form)
        return self.report

    def _add_record(self, record: Record) -> None:
        match record:
            case Turn():
                self._add_turn(record)
            case Note():
                self._batch.extend(self._planner.plan_note(record))
            case NoteLink():
                self._links.append(record)
            case EnvelopeRows():
                import_rows(self._ctx, record, self.report, dry_run=self._options.dry_run)
            case Omission():
                self.report.left_out[record.kind] += record.number
            case Problem():
                self.report.add_problem(record)

    def _add_turn(self, turn: Turn) -> None:
        """Plan a turn, unless its kind is excluded or it contains only recalled text."""
        if turn.kind != "message" and turn.kind not in self._options.include:
            self.report.left_out[turn.kind] += 1
            return
        content = remove_recalled(turn.content)
        if content != turn.content:
            self.report.left_out["recalled"] += 1
            if not content.strip():
                return
        for one in self._hold_back_short(replace(turn, content=content)):
            self._batch.extend(self._planner.plan_turn(one))

    def _hold_back_short(self, turn: Turn) -> Iterator[Turn]:
        """Hold back the turns of a conversation until it has `min_messages`."""
        if turn.thread in self._long_threads:
            yield turn
            return
        waiting = self._short_threads.setdefault(turn.thread, [])
        waiting.append(turn)
        if len(waiting) >= self._options.min_messages:
            self._long_threads.add(turn.thread)
            self.report.conversations += 1
            yield from self._short_threads.pop(turn.thread)

    def _flush(self) -> None:
        """Write the current batch, then its links."""
        batch, self._batch = self._batch, []
        ties, self._links = self._links, []
        self._write_batch(batch)
        if ties and self._options.dry_run:
            count_new_links(self._ctx, ties, self._planner, self.report, self._dry_run_keys)
        elif ties:
            add_links(self._ctx, ties, self._planner, self.report)

    def _write_batch(self, batch: list[PlannedMemory]) -> None:
        """Write a batch in one transaction. Starts none if nothing has changed."""
        with self._ctx.reading() as session:
            known = store.find_records(session, [one.key for one in batch])
        fresh = {one.key: one for one in batch if one.key not in known or known[one.key].digest != one.digest}
        self.report.outcomes["unchanged"] += len(batch) - len(fresh)
        if batch and batch[0].key in known:
            self.report.first_memory = self.report.first_memory or known[batch[0].key].memory
        if self._options.dry_run:
            records: list[ImportRecord] = []
            for one in fresh.values():
                self._write_one(None, one, known.get(one.key), records)
        elif fresh:
            self._write_fresh(list(fresh.values()))

    def _write_fresh(self, fresh: list[PlannedMemory]) -> None:
        with self._ctx.transaction() as write:
            known = store.find_records(write.session, [one.key for one in fresh])
            self._existing_ids = store.find_existing_memories(
                write.session, [_memory_id(one) for one in fresh if one.key not in known]
            )
            records: list[ImportRecord] = []
            for one in fresh:
                self._write_one(write, one, known.get(one.key), records)
            IMPORT_RECORDS.put_many(write.session, records)

    def _write_one(
        self, write: Transaction | None, planned: PlannedMemory, known: ImportRecord | None, records: list[ImportRecord]
    ) -> None:
        """Write or dry-run one memory. An error rejects only this one."""
        try:
            outcome = (
                self._dry_run_one(planned, known, records)
                if write is None
                else self._store_memory(write, planned, known, records)
            )
        except StoreError:
            raise
        except HoldfastError as error:
            self.report.add_error(planned.where, error)
        else:
            self.report.add_outcome(outcome, planned.draft)

    def _dry_run_one(self, planned: PlannedMemory, known: ImportRecord | None, records: list[ImportRecord]) -> Outcome:
        """Outcome of a memory in a dry run."""
        with self._ctx.reading() as session:
            self._build_memory(session, planned, _memory_id(planned), "", self._ctx.now())
            if known is not None:
                return self._dry_run_update(session, planned, known)
            twin = self._find_twin(session, planned, records)
        if twin is None:
            if planned.utterance_digest is None:
                self._dry_run_keys.add(planned.key)
            return "stored"
        records.append(self._build_record(planned, twin, ""))
        return "joined"

    def _dry_run_update(self, session: Session, planned: PlannedMemory, known: ImportRecord) -> Outcome:
        there = _load_memory(session, known.memory)
        if there is None or not _is_untouched(there, known):
            return "left"
        return "unchanged" if self._is_newer_here(session, planned, there) else "updated"

    def _is_newer_here(self, session: Session, planned: PlannedMemory, current: Memory) -> bool:
        """Whether the stored version is newer than the source. Counts reverts."""
        if is_older(planned, current):
            self.report.older_than_here += 1
            return True
        self.report.reverts += is_revert(session, planned, current)
        return False

    def _build_memory(self, session: Session, planned: PlannedMemory, id: str, origin: str, now: int) -> Memory:
        """Validate a planned memory and apply the policy on secrets."""
        draft, secrets = store_memory.filter_draft_secrets(session, planned.draft)
        if secrets.kinds:
            what = f"{'secrets redacted' if secrets.redacted else 'contains secrets'}: {', '.join(secrets.kinds)}"
            self.report.add_problem(Problem(where=planned.where, what=what, rejected=False))
        agent, lifetimes = self._ctx.caller.agent, self._ctx.lifetimes
        return memory_from_draft(draft, id=id, agent=agent, origin=origin, now=now, lifetimes=lifetimes)

    def _store_memory(
        self, write: Transaction, planned: PlannedMemory, known: ImportRecord | None, records: list[ImportRecord]
    ) -> Outcome:
        if known is not None:
            return self._update_memory(write, planned, known, records)
        if (twin := self._find_twin(write.session, planned, records)) is not None:
            return self._join_twin(write, planned, twin, records)
        if _memory_id(planned) in self._existing_ids and (there := write.get(MEMORY, _memory_id(planned))) is not None:
            return self._adopt_existing(write, planned, there, records)
        memory = self._build_memory(write.session, planned, _memory_id(planned), write.origin, write.now)
        holder = find_title_holder(write, memory.namespace, memory.title)
        if holder is not None and self._is_same_memory(write, holder, memory):
            records.append(self._make_record(planned, holder))
            return "unchanged"
        memory = write.add(MEMORY, _with_free_title(write, memory, holder), "import")
        if memory.kind == "entity":
            entities.add_alias(write, memory, fold_name(planned.draft.title), planned.draft.title)
        records.append(self._make_record(planned, memory))
        return "stored"

    def _is_same_memory(self, write: Transaction, holder: Memory, memory: Memory) -> bool:
        """Whether the title already belongs to an identical memory visible to the caller."""
        same = (holder.content, holder.kind) == (memory.content, memory.kind)
        return same and bool(memories.by_ids(write.session, self._ctx.caller, [holder.id], write.now))

    def _find_twin(self, session: Session, planned: PlannedMemory, records: list[ImportRecord]) -> str | None:
        """Find the memory of the same turn that arrived by the other route and is not paired yet."""
        if planned.utterance_digest is None or self._form not in CAPTURED_FORMATS:
            return None
        candidates = [
            *IMPORT_RECORDS.get_many(session, [planned.utterance_digest], "utterance_digest"),
            *(note for note in records if note.utterance_digest == planned.utterance_digest),
        ]
        paired_ids = {note.memory for note in candidates if note.route == self._options.route}
        return next((note.memory for note in candidates if note.memory not in paired_ids), None)

    def _join_twin(self, write: Transaction, planned: PlannedMemory, twin: str, records: list[ImportRecord]) -> Outcome:
        """Pair a turn with its twin. The transcript has the better position."""
        memory = write.get(MEMORY, twin)
        if memory is None or memory.state != "live":
            records.append(self._build_record(planned, twin, ""))
            self.report.first_memory = self.report.first_memory or twin
            return "left"
        place = planned.draft.place if self._options.route == "mine" else memory.place
        memory = self._change_memory(
            write, memory, replace(memory, place=place, **self._extend_lifetime(write, memory))
        )
        records.append(self._make_record(planned, memory))
        return "joined"

    def _extend_lifetime(self, write: Transaction, memory: Memory) -> dict[str, Any]:
        """Tier and expiry: the longer of the stored and the requested lifetime."""
        tier = higher_tier(memory.tier, self._options.tier)
        if tier == memory.tier or memory.expires_at is None:
            return {"tier": tier}
        end = self._ctx.lifetimes.expiry(tier, write.now)
        return {"tier": tier, "expires_at": None if end is None else max(end, memory.expires_at)}

    def _change_memory(self, write: Transaction, before: Memory, after: Memory) -> Memory:
        """Change a memory, numbering its title if it is taken."""
        if before == after:
            return before
        require_write_access(self._ctx, write, before)
        holder = find_title_holder(write, after.namespace, after.title)
        if holder is not None and holder.id != before.id:
            after = _with_free_title(write, after, holder)
        return write.change(MEMORY, before, after, "import")

    def _adopt_existing(
        self, write: Transaction, planned: PlannedMemory, current: Memory, records: list[ImportRecord]
    ) -> Outcome:
        """Adopt a memory without an import record, from another node or a backup."""
        if current.state == "live" and current.version == 1:
            return self._apply_update(write, planned, current, records)
        records.append(self._make_record(planned, current))
        return "unchanged" if current.content == planned.draft.content else "left"

    def _update_memory(
        self, write: Transaction, planned: PlannedMemory, known: ImportRecord, records: list[ImportRecord]
    ) -> Outcome:
        """Update a changed record. A memory archived or edited here is not changed."""
        there = write.get(MEMORY, known.memory)
        if there is None or not _is_untouched(there, known):
            records.append(replace(known, digest=planned.digest, utterance_digest=planned.utterance_digest))
            return "left"
        if self._is_newer_here(write.session, planned, there):
            return "unchanged"
        outcome = self._apply_update(write, planned, there, records)
        if planned.next_part_key is not None:
            self._archive_extra_parts(write, planned.next_part_key, records)
        return outcome

    def _apply_update(
        self, write: Transaction, planned: PlannedMemory, current: Memory, records: list[ImportRecord]
    ) -> Outcome:
        """Write the current text of the source to its memory."""
        fresh = self._build_memory(write.session, planned, current.id, write.origin, write.now)
        fields = ("title", "content", "speaker", "occurred_at", "thread", "place", "source_span", "state", "reason")
        changes = {name: getattr(fresh, name) for name in fields}
        if planned.source_updated_at is not None:
            changes["metadata"] = {**current.metadata, SOURCE_UPDATED_KEY: fresh.metadata[SOURCE_UPDATED_KEY]}
        if self._form == "slack":
            others = {name: value for name, value in current.metadata.items() if name != ORIGINAL_KEY}
            changes["metadata"] = others | {
                name: fresh.metadata[name] for name in (ORIGINAL_KEY,) if name in fresh.metadata
            }
        after = self._change_memory(
            write, current, replace(current, **changes, **self._extend_lifetime(write, current))
        )
        records.append(self._make_record(planned, after))
        return "unchanged" if after.version == current.version else "updated"

    def _archive_extra_parts(self, write: Transaction, key: str, records: list[ImportRecord]) -> None:
        """Archive the parts that no longer exist. They return if the text grows again."""
        while (extra := store.find_records(write.session, [key]).get(key)) is not None:
            memory = write.get(MEMORY, extra.memory)
            if memory is not None and memory.state == "live":
                require_write_access(self._ctx, write, memory)
                archive_memory(write, memory, SHORTENED_REASON, "archive")
                records.append(replace(extra, digest=""))
            base, _, number = key.rpartition(".")
            key = f"{base}.{int(number) + 1}"

    def _make_record(self, planned: PlannedMemory, memory: Memory) -> ImportRecord:
        self.report.first_memory = self.report.first_memory or memory.id
        return self._build_record(planned, memory.id, _memory_text_digest(memory))

    def _build_record(self, planned: PlannedMemory, memory: str, text_digest: str) -> ImportRecord:
        return ImportRecord(
            key=planned.key,
            memory=memory,
            route=self._options.route,
            utterance_digest=planned.utterance_digest,
            digest=planned.digest,
            text_digest=text_digest,
        )


def _memory_id(planned: PlannedMemory) -> str:
    """Memory id, equal on every node that imports the same source."""
    return derive_id("mined", planned.key)


def _load_memory(session: Session, id: str) -> Memory | None:
    rows = session.select(("memory_select", "memory.one"), {"id": id})
    return MEMORY.load(rows[0]) if rows else None


def _memory_text_digest(memory: Memory) -> str:
    return model.digest(memory.title, memory.content)


def _is_untouched(memory: Memory | None, known: ImportRecord) -> bool:
    """Whether a memory is unchanged since its import: neither archived nor edited."""
    if memory is None or (memory.state != "live" and (memory.state, memory.reason) != ("archived", SHORTENED_REASON)):
        return False
    return known.text_digest == _memory_text_digest(memory)


def _with_free_title(write: Transaction, memory: Memory, holder: Memory | None) -> Memory:
    """Number the title of a memory if it is taken."""
    title, number = memory.title, 2
    while holder is not None and holder.id != memory.id and number < MAX_NUMBERED_TITLES:
        title, number = number_title(memory.title, number), number + 1
        holder = find_title_holder(write, memory.namespace, title)
    return replace(memory, title=title)


_IMPORT_OUTCOMES: dict[Outcome, ImportOutcome] = {
    "stored": "imported",
    "updated": "merged",
    "unchanged": "unchanged",
    "left": "older",
}


def import_rows(ctx: Context, rows: EnvelopeRows, report: Report, *, dry_run: bool) -> None:
    """Import rows. An admin keeps the owners of the file; other callers become owner and need write permission."""
    if dry_run and rows.is_page and not {"memories", "archived"} & rows.envelope.keys():
        report.links += len(rows.envelope.get("links", ()))  # a dry run has not stored the pages with their ends
        return
    decides = ctx.caller.has_right("admin")
    options = ImportOptions(trust_source=decides, check_rights=not decides)
    result = importer.import_envelope(ctx, {"memories": [], **rows.envelope}, options, dry_run=dry_run)
    for name in result.counts.keys() & {"memories", "archived"}:
        counts = result.counts[name]
        for outcome, import_outcome in _IMPORT_OUTCOMES.items():
            report.outcomes[outcome] += counts[import_outcome]
        report.kinds["memory"] += counts["imported"]
    report.links += result.counts["links"]["imported"] if "links" in result.counts else 0
    for one in result.rejected:
        report.add_error(f"{rows.where} {one.array}[{one.index}]", one.error)
