"""Store imported records: once, in order, with the validation of every other write."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.graph import entities as entity
from holdfast.features.importers import freshness as older
from holdfast.features.importers import model as reading
from holdfast.features.importers import store as mined
from holdfast.features.importers.envelope_rows import take_in
from holdfast.features.importers.links import rehearse_all, tie_all
from holdfast.features.importers.model import LeftOut, Note, Problem, Record, Rows, Tie, Turn
from holdfast.features.importers.plan import ORIGINAL, UPDATED, Options, Planned, Planner
from holdfast.features.importers.report import Outcome, Report
from holdfast.features.importers.store import Mined
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store_memory import must_change, numbered, title_holder
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, higher
from holdfast.kernel.records.validate import admit
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold

BATCH = 200
"""Memories per transaction."""
MOST_NUMBERED = 1000
SHORTER = "shorter at its source"
"""Archive reason of a part that no longer exists."""
HOSTS = ("claude-code", "codex", "capture")
"""Formats whose turns can arrive twice: captured live and read from a transcript."""


class Keeper:
    """Stores records in batches, one transaction each. An interrupted import can be repeated to continue."""

    def __init__(self, hold: Hold, form: str, options: Options) -> None:
        hold.caller.must_reach(options.namespace)
        self.report = Report()
        self._hold = hold
        self._form = form
        self._options = options
        self._planner = Planner(options, hold.caller.agent, hold.now, self.report.problem)
        self._batch: list[Planned] = []
        self._ties: list[Tie] = []
        self._waiting: dict[str, list[Turn]] = {}
        self._threads: set[str] = set()
        self._rehearsed_notes: set[str] = set()
        """Keys of notes that a dry run would have stored; links can refer to them."""
        self._there: set[str] = set()
        """Ids of memories in the batch that exist without an import record."""

    def take(self, records: Iterable[Record]) -> Report:
        """Store all records and return the report."""
        for record in records:
            self._hold.progress.check()
            self._one(record)
            if len(self._batch) >= BATCH or len(self._ties) >= BATCH:
                self._flush()
        self.report.short += len(self._waiting)
        self._flush()
        older.tell(self.report, self._form)
        return self.report

    def _one(self, record: Record) -> None:
        match record:
            case Turn():
                self._turn(record)
            case Note():
                self._batch.extend(self._planner.note(record))
            case Tie():
                self._ties.append(record)
            case Rows():
                take_in(self._hold, record, self.report, dry_run=self._options.dry_run)
            case LeftOut():
                self.report.left_out[record.sort] += record.number
            case Problem():
                self.report.problem(record)

    def _turn(self, turn: Turn) -> None:
        """Plan a turn, unless its kind is excluded or it contains only recalled text."""
        if turn.sort != "message" and turn.sort not in self._options.include:
            self.report.left_out[turn.sort] += 1
            return
        content = reading.without_recalled(turn.content)
        if content != turn.content:
            self.report.left_out["recalled"] += 1
            if not content.strip():
                return
        for one in self._long_enough(replace(turn, content=content)):
            self._batch.extend(self._planner.turn(one))

    def _long_enough(self, turn: Turn) -> Iterator[Turn]:
        """Hold back the turns of a conversation until it has `min_messages`."""
        if turn.thread in self._threads:
            yield turn
            return
        waiting = self._waiting.setdefault(turn.thread, [])
        waiting.append(turn)
        if len(waiting) >= self._options.min_messages:
            self._threads.add(turn.thread)
            self.report.threads += 1
            yield from self._waiting.pop(turn.thread)

    def _flush(self) -> None:
        """Write the current batch, then its links."""
        batch, self._batch = self._batch, []
        ties, self._ties = self._ties, []
        self._keep_all(batch)
        if ties and self._options.dry_run:
            rehearse_all(self._hold, ties, self._planner, self.report, self._rehearsed_notes)
        elif ties:
            tie_all(self._hold, ties, self._planner, self.report)

    def _keep_all(self, batch: list[Planned]) -> None:
        """Write a batch in one transaction. Starts none if nothing has changed."""
        with self._hold.reading() as session:
            known = mined.known(session, [one.key for one in batch])
        fresh = {one.key: one for one in batch if one.key not in known or known[one.key].digest != one.digest}
        self.report.outcomes["unchanged"] += len(batch) - len(fresh)
        if batch and batch[0].key in known:
            self.report.first = self.report.first or known[batch[0].key].memory
        if self._options.dry_run:
            records: list[Mined] = []
            for one in fresh.values():
                self._tried(None, one, known.get(one.key), records)
        elif fresh:
            self._keep_fresh(list(fresh.values()))

    def _keep_fresh(self, fresh: list[Planned]) -> None:
        with self._hold.writing() as write:
            known = mined.known(write.session, [one.key for one in fresh])
            self._there = mined.there(write.session, [_id(one) for one in fresh if one.key not in known])
            records: list[Mined] = []
            for one in fresh:
                self._tried(write, one, known.get(one.key), records)
            mined.put(write.session, records)

    def _tried(self, write: Transaction | None, one: Planned, known: Mined | None, noted: list[Mined]) -> None:
        """Write or dry-run one memory. An error rejects only this one."""
        try:
            outcome = self._rehearsed(one, known, noted) if write is None else self._kept(write, one, known, noted)
        except StoreError:
            raise
        except HoldfastError as error:
            self.report.error(one.where, error)
        else:
            self.report.done(outcome, one.draft)

    def _rehearsed(self, one: Planned, known: Mined | None, noted: list[Mined]) -> Outcome:
        """Outcome of a memory in a dry run."""
        with self._hold.reading() as session:
            self._admitted(session, one, _id(one), "", self._hold.now())
            if known is not None:
                return self._rehearsed_again(session, one, known)
            twin = self._twin(session, one, noted)
        if twin is None:
            if one.said is None:
                self._rehearsed_notes.add(one.key)
            return "stored"
        noted.append(Mined(one.key, twin, self._options.route, one.said, one.digest, ""))
        return "joined"

    def _rehearsed_again(self, session: Session, one: Planned, known: Mined) -> Outcome:
        there = _memory(session, known.memory)
        if there is None or not _is_as_mined(there, known):
            return "left"
        return "unchanged" if self._stays(session, one, there) else "updated"

    def _stays(self, session: Session, one: Planned, there: Memory) -> bool:
        """Whether the stored version is newer than the source. Counts reverts."""
        if older.is_older(one, there):
            self.report.older += 1
            return True
        self.report.went_back += older.goes_back(session, one, there)
        return False

    def _admitted(self, session: Session, one: Planned, id: str, origin: str, now: int) -> Memory:
        """Validate a planned memory and apply the policy on secrets."""
        draft, secrets = hygiene.without_secrets(session, one.draft)
        if secrets.kinds:
            what = f"{'secrets redacted' if secrets.redacted else 'contains secrets'}: {', '.join(secrets.kinds)}"
            self.report.problem(Problem(where=one.where, what=what, rejected=False))
        agent, lifetimes = self._hold.caller.agent, self._hold.lifetimes
        return admit(draft, id=id, agent=agent, origin=origin, now=now, lifetimes=lifetimes)

    def _kept(self, write: Transaction, one: Planned, known: Mined | None, noted: list[Mined]) -> Outcome:
        if known is not None:
            return self._again(write, one, known, noted)
        if (twin := self._twin(write.session, one, noted)) is not None:
            return self._joined(write, one, twin, noted)
        if _id(one) in self._there and (there := write.get(MEMORY, _id(one))) is not None:
            return self._here(write, one, there, noted)
        memory = self._admitted(write.session, one, _id(one), write.origin, write.now)
        holder = title_holder(write, memory.namespace, memory.title)
        if holder is not None and self._says_so(write, holder, memory):
            noted.append(self._note(one, holder))
            return "unchanged"
        memory = write.add(MEMORY, _titled(write, memory, holder), "import")
        if memory.kind == "entity":
            entity.call(write, memory, fold(one.draft.title), one.draft.title)
        noted.append(self._note(one, memory))
        return "stored"

    def _says_so(self, write: Transaction, holder: Memory, memory: Memory) -> bool:
        """Whether the title already belongs to an identical memory visible to the caller."""
        same = (holder.content, holder.kind) == (memory.content, memory.kind)
        return same and bool(memories.by_ids(write.session, self._hold.caller, [holder.id], write.now))

    def _twin(self, session: Session, one: Planned, noted: list[Mined]) -> str | None:
        """Find the memory of the same turn that arrived by the other route and is not paired yet."""
        if one.said is None or self._form not in HOSTS:
            return None
        candidates = [*mined.saying(session, one.said), *(note for note in noted if note.said == one.said)]
        paired_ids = {note.memory for note in candidates if note.route == self._options.route}
        return next((note.memory for note in candidates if note.memory not in paired_ids), None)

    def _joined(self, write: Transaction, one: Planned, twin: str, noted: list[Mined]) -> Outcome:
        """Pair a turn with its twin. The transcript has the better position."""
        memory = write.get(MEMORY, twin)
        if memory is None or memory.state != "live":
            noted.append(Mined(one.key, twin, self._options.route, one.said, one.digest, ""))
            self.report.first = self.report.first or twin
            return "left"
        place = one.draft.place if self._options.route == "mine" else memory.place
        memory = self._put(write, memory, replace(memory, place=place, **self._longer(write, memory)))
        noted.append(self._note(one, memory))
        return "joined"

    def _longer(self, write: Transaction, memory: Memory) -> dict[str, Any]:
        """Tier and expiry: the longer of the stored and the requested lifetime."""
        tier = higher(memory.tier, self._options.tier)
        if tier == memory.tier or memory.expires_at is None:
            return {"tier": tier}
        end = self._hold.lifetimes.expiry(tier, write.now)
        return {"tier": tier, "expires_at": None if end is None else max(end, memory.expires_at)}

    def _put(self, write: Transaction, before: Memory, after: Memory) -> Memory:
        """Change a memory, numbering its title if it is taken."""
        if before == after:
            return before
        must_change(self._hold, write, before)
        holder = title_holder(write, after.namespace, after.title)
        if holder is not None and holder.id != before.id:
            after = _titled(write, after, holder)
        return write.change(MEMORY, before, after, "import")

    def _here(self, write: Transaction, one: Planned, there: Memory, noted: list[Mined]) -> Outcome:
        """Adopt a memory without an import record, from another node or a backup."""
        if there.state == "live" and there.version == 1:
            return self._changed(write, one, there, noted)
        noted.append(self._note(one, there))
        return "unchanged" if there.content == one.draft.content else "left"

    def _again(self, write: Transaction, one: Planned, known: Mined, noted: list[Mined]) -> Outcome:
        """Update a changed record. A memory archived or edited here is not changed."""
        there = write.get(MEMORY, known.memory)
        if there is None or not _is_as_mined(there, known):
            noted.append(known._replace(digest=one.digest, said=one.said))
            return "left"
        if self._stays(write.session, one, there):
            return "unchanged"
        outcome = self._changed(write, one, there, noted)
        if one.beyond is not None:
            self._shed(write, one.beyond, noted)
        return outcome

    def _changed(self, write: Transaction, one: Planned, there: Memory, noted: list[Mined]) -> Outcome:
        """Write the current text of the source to its memory."""
        fresh = self._admitted(write.session, one, there.id, write.origin, write.now)
        fields = ("title", "content", "speaker", "occurred_at", "thread", "place", "source_span", "state", "reason")
        changes = {name: getattr(fresh, name) for name in fields}
        if one.updated is not None:
            changes["metadata"] = {**there.metadata, UPDATED: fresh.metadata[UPDATED]}
        if self._form == "slack":
            others = {name: value for name, value in there.metadata.items() if name != ORIGINAL}
            changes["metadata"] = others | {
                name: fresh.metadata[name] for name in (ORIGINAL,) if name in fresh.metadata
            }
        after = self._put(write, there, replace(there, **changes, **self._longer(write, there)))
        noted.append(self._note(one, after))
        return "unchanged" if after.version == there.version else "updated"

    def _shed(self, write: Transaction, key: str, noted: list[Mined]) -> None:
        """Archive the parts that no longer exist. They return if the text grows again."""
        while (extra := mined.known(write.session, [key]).get(key)) is not None:
            memory = write.get(MEMORY, extra.memory)
            if memory is not None and memory.state == "live":
                must_change(self._hold, write, memory)
                put_away(write, memory, SHORTER, "archive")
                noted.append(extra._replace(digest=""))
            base, _, number = key.rpartition(".")
            key = f"{base}.{int(number) + 1}"

    def _note(self, one: Planned, memory: Memory) -> Mined:
        self.report.first = self.report.first or memory.id
        return Mined(one.key, memory.id, self._options.route, one.said, one.digest, _said_by(memory))


def _id(one: Planned) -> str:
    """Memory id, equal on every node that imports the same source."""
    return ids.derived("mined", one.key)


def _memory(session: Session, id: str) -> Memory | None:
    rows = session.assembled(("memory_select", "memory.one"), {"id": id})
    return MEMORY.load(rows[0]) if rows else None


def _said_by(memory: Memory) -> str:
    return reading.digest(memory.title, memory.content)


def _is_as_mined(memory: Memory | None, known: Mined) -> bool:
    """Whether a memory is unchanged since its import: neither archived nor edited."""
    if memory is None or (memory.state != "live" and (memory.state, memory.reason) != ("archived", SHORTER)):
        return False
    return known.text_digest == _said_by(memory)


def _titled(write: Transaction, memory: Memory, holder: Memory | None) -> Memory:
    """Number the title of a memory if it is taken."""
    title, number = memory.title, 2
    while holder is not None and holder.id != memory.id and number < MOST_NUMBERED:
        title, number = numbered(memory.title, number), number + 1
        holder = title_holder(write, memory.namespace, title)
    return replace(memory, title=title)
