"""Ingest a document: split, deduplicate, and store what is new in one transaction.

Each ingest is recorded by content and pipeline, so that the same document is not ingested twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import store as vectors
from holdfast.features.graph.service import id_of, tie, untie
from holdfast.features.graph.store import Which, entering
from holdfast.features.ingest import ask_model as ingest_model
from holdfast.features.ingest import helpers
from holdfast.features.ingest import store as ingests
from holdfast.features.ingest.pipeline import Asking, Helping, Pipeline, Searching, Segmenting, named
from holdfast.features.ingest.plan import (
    GONE,
    KEPT_BEFORE,
    MOST_HELPED,
    Judged,
    Parted,
    Piece,
    Planner,
    fitted,
    parted,
    printable,
)
from holdfast.features.ingest.store import Outcome, Taken
from holdfast.features.memories import store as memories
from holdfast.features.memories.dedup import Found, permitted
from holdfast.features.memories.store_memory import put
from holdfast.features.reflections.depth import stand
from holdfast.features.transfer.importer import Rehearsed
from holdfast.kernel import ids
from holdfast.kernel.compressed_list import Aside
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, Invalid, StoreError
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Citation, Memory, Scope, Span
from holdfast.kernel.records.memory import Kind as MemoryKind
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text

STEP = 100
MOST_HEADINGS = 200
MOST_SECRETS = 20
DOCUMENT_TAG = "document"
SUPERSEDING = Which(relations=("supersedes",))
_KINDS: dict[str, MemoryKind] = {"episodic": "event"}
"""Memory kind for reliably classified pieces; others are observations."""


class Source(NamedTuple):
    """A document to ingest."""

    text: str
    namespace: str
    uri: str
    name: str | None = None
    """Title, if the document has none."""
    tags: tuple[str, ...] = ()
    scope: Scope | None = None


class Gone(NamedTuple):
    """A memory of this source that is no longer live, or whose text is no longer in the document."""

    memory: str
    title: str | None
    place: int


class Report(NamedTuple):
    """Result of ingesting a document."""

    source: Source
    pipeline: Pipeline
    content_hash: str
    known: bool
    """The document was ingested before; nothing was done."""
    dry_run: bool
    document: str | None
    outcomes: Collection[Outcome]
    titles: Mapping[int, str]
    """Per segment: title of the memory that holds its text, or would."""
    vanished: list[Gone]
    """Memories of this source whose text is no longer in the document."""
    gone: list[Gone]
    """Memories of this document that were deleted or archived since."""
    stages: list[dict[str, Any]]
    notes: list[str]
    parts: int = 0
    """Number of parts a model was asked about."""
    helped: Mapping[int, Sequence[helpers.HelperOutput]] = {}
    """Helper results for the first segments; returned once and not stored."""
    alike: bool = True
    """Whether all prompts about a part share a prefix, so that a provider can cache it."""

    @property
    def told(self) -> Iterable[Outcome]:
        """Decisions to report: for an unchanged document, stored segments are duplicates."""
        missing = {one.memory for one in self.gone}
        return (_once(one, missing) for one in self.outcomes) if self.known else self.outcomes

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.decision for one in self.told)

    @property
    def stored(self) -> list[str]:
        """Ids of the memories made from the document."""
        return [one.memory for one in self.outcomes if one.memory and one.decision in ingest_model.KEPT]


def ingest(hold: Hold, source: Source, pipeline: Pipeline, *, dry_run: bool = False, again: bool = False) -> Report:
    """Ingest a document once. A dry run does the same work and rolls it back."""
    source = _admitted(hold, source)
    hash = sha256(source.text.encode()).hexdigest()
    id = ids.derived("ingest", source.namespace, source.uri, hash, pipeline.version, hold.caller.agent)
    if not again and (unchanged := _known(hold, source, pipeline, id, dry_run)):
        return unchanged
    return _Taking(hold, source, pipeline, hash, id, again=again).take(dry_run)


def _admitted(hold: Hold, source: Source) -> Source:
    """Validate a document as a whole before any work is done."""
    namespace = door.namespace(source.namespace)
    door.must_be_kept(namespace)
    hold.caller.must_reach(namespace)
    door.uri("source_uri", source.uri)
    if not source.text.strip("\ufeff \t\r\n"):
        raise Invalid("content must not be empty", fields=["content"])
    with hold.reading() as session:
        values, _ = permitted(session, namespace, {"source_uri": source.uri, "tags": door.tags(source.tags)})
    return source._replace(namespace=namespace, uri=door.uri("source_uri", values["source_uri"]), tags=values["tags"])


def _known(hold: Hold, source: Source, pipeline: Pipeline, id: str, dry_run: bool) -> Report | None:
    with hold.reading() as session:
        record = _said_last(hold, session, source, id)
        if record is None:
            return None
        outcomes = ingests.outcomes(session, id)
        statuses = ingests.kept(session, hold.caller, _memories(outcomes), hold.now())
    dead = [one for one in outcomes if one.memory and not (one.memory in statuses and statuses[one.memory].live)]
    missing = {one.memory: Gone(one.memory, _title(statuses, one.memory), one.place) for one in dead if one.memory}
    notes = ["Unchanged since it was last ingested: nothing was done."]
    if missing:
        notes.append(f"{len(missing)} of its memories were deleted or archived since; --again stores them again.")
    return Report(
        source, pipeline, record.content_hash, True, dry_run, record.document, outcomes,
        _titles(statuses, outcomes), [], [*missing.values()], record.stages, notes,
    )  # fmt: skip


def _once(one: Outcome, gone: Container[str]) -> Outcome:
    """Report a stored segment as a duplicate, because its document was ingested again."""
    if one.decision not in ingest_model.KEPT:
        return one
    return one._replace(decision="duplicate", reason=GONE if one.memory in gone else KEPT_BEFORE)


def _said_last(hold: Hold, session: Session, source: Source, id: str) -> Taken | None:
    """Find the record of a document, unless its source changed since."""
    record = ingests.get(session, id)
    last = ingests.before(session, source.uri, source.namespace, hold.caller.agent, limit=1)
    return record if record and last[0].content_hash == record.content_hash else None


def _memories(outcomes: Iterable[Outcome]) -> list[str]:
    return list(dict.fromkeys(one.memory for one in outcomes if one.memory))


def _titles(kept: dict[str, ingests.Kept], outcomes: Iterable[Outcome]) -> dict[int, str]:
    """Map each segment to the title of the memory that holds its text."""
    return {one.place: kept[one.memory].title for one in outcomes if one.memory in kept}


def _title(kept: dict[str, ingests.Kept], memory: str) -> str | None:
    return kept[memory].title if memory in kept else None


class _Taking:
    """The ingest of one document."""

    def __init__(self, hold: Hold, source: Source, pipeline: Pipeline, hash: str, id: str, *, again: bool) -> None:
        self._hold = hold
        self._source = source
        self._pipeline = pipeline
        self._hash = hash
        self._id = id
        self._again = again
        with hold.reading() as session:
            before = ingests.before(session, source.uri, source.namespace, hold.caller.agent, limit=1)
            self._last: Taken | None = before[0] if before else None
            self._before = ingests.outcomes(session, self._last.id) if self._last else []
        self._ours = {one.memory for one in self._before}
        self._notes: list[str] = []
        self._titles: dict[int, str] = {}
        self._made: dict[str, int] = {}
        """Created memories, each with the place of its piece."""
        self._as_planned: dict[int, Memory] = {}
        """Memories since the last batch whose text is exactly what was embedded."""
        self._taken_titles: set[bytes] = set()
        """Digests of titles in use."""
        self._kept: dict[int, str] = {}
        """Per piece: the memory that holds its text."""
        self._secrets: list[str] = []
        """Lines that contain secrets, with the kinds found."""

    def take(self, dry_run: bool) -> Report:
        text = parted(self._source.text, self._pipeline)
        if not text.pieces:
            raise Invalid("content has no text to store", fields=["content"])
        planner = Planner(
            self._hold,
            self._pipeline,
            self._source.namespace,
            self._source.uri,
            self._before,
            again=self._again,
            private=self._source.scope == "private",
            keep_seen=self._pipeline.asking,
        )
        with planner.vectors:
            judgements = Aside(Judged, planner.judged(text.pieces))
            parts = ingest_model.asked(self._hold, self._pipeline, judgements, planner.seen)
            additions = ingest_model.added(judgements, parts)
            if parts:
                several = (*additions.judged, *planner.judged(additions.further), *additions.repeated)
                judgements = Aside(Judged, sorted(several, key=lambda one: one.piece.place))
            if planner.without_vectors:
                self._notes.append(f"Some segments were compared without embeddings: {planner.without_vectors}")
            stages = self._stages(judgements, planner, parts)
            helper_results = self._helped(judgements, planner)
            report = self._written(text, judgements, planner, additions, stages, dry_run)
        return report._replace(
            parts=len(parts), alike=all(len(part.keys) <= 1 for part in parts), helped=helper_results
        )

    def _written(
        self,
        text: Parted,
        judged: Aside[Judged],
        planner: Planner,
        added: ingest_model.Added,
        stages: list[dict[str, Any]],
        dry_run: bool,
    ) -> Report:
        """Write everything in one transaction; a dry run rolls it back."""
        outcomes, count = Aside(Outcome), len(judged)
        vanished: list[Gone] = []
        try:
            with self._hold.writing() as write:
                if not self._again and _said_last(self._hold, write.session, self._source, self._id):
                    raise _Overtaken
                for number, one in enumerate(judged.drained()):
                    if number % STEP == 0:
                        self._hold.progress(number, count, "storing")
                        self._keep_vectors(write, planner)
                    outcomes.append(self._one(write, self._still_so(write, one)))
                self._keep_vectors(write, planner)
                document = self._document(write, text, added, count) if self._made else None
                if document is not None:
                    self._tied(write, document, outcomes)
                self._note_titles(write, outcomes)
                vanished = self._vanished(write, outcomes)
                last = self._last.document if self._last else None
                ingests.put(write.session, self._taken(document.id if document else last, stages, write.now), outcomes)
                if dry_run:
                    raise Rehearsed
        except Rehearsed:
            found = (one._replace(memory=None) if one.memory in self._made else one for one in outcomes)
            outcomes = Aside(Outcome, found)
        except _Overtaken:
            report = _known(self._hold, self._source, self._pipeline, self._id, dry_run)
            assert report is not None
            return report
        self._note_secrets()
        document_id = self._last.document if self._last else None
        if document is not None:
            document_id = None if dry_run and document.id != document_id else document.id
        return Report(
            self._source, self._pipeline, self._hash, False, dry_run, document_id, outcomes, self._titles, vanished, [],
            stages, self._notes,
        )  # fmt: skip

    def _note_secrets(self) -> None:
        """Report secrets by line, up to the limit."""
        self._notes += self._secrets[:MOST_SECRETS]
        if len(self._secrets) > MOST_SECRETS:
            self._notes.append(
                f"{len(self._secrets) - MOST_SECRETS} more segments contain secrets. Run `holdfast audit`."
            )

    def _note_titles(self, write: Transaction, outcomes: Iterable[Outcome]) -> None:
        left = iter(outcomes)
        while some := list(islice(left, STEP)):
            statuses = ingests.kept(write.session, self._hold.caller, _memories(some), write.now)
            self._titles |= _titles(statuses, some)

    def _taken(self, document: str | None, stages: list[dict[str, Any]], now: int) -> Taken:
        return Taken(
            self._id,
            self._source.namespace,
            self._source.uri,
            self._hash,
            self._pipeline.name,
            self._pipeline.version,
            self._hold.caller.agent,
            document,
            stages,
            now,
        )

    def _still_so(self, write: Transaction, one: Judged) -> Judged:
        """Recheck a judgement: a piece whose similar memory was deleted meanwhile is new."""
        if one.other is None or one.decision == "duplicate":
            return one
        if memories.by_ids(write.session, self._hold.caller, [one.other], write.now):
            return one
        return one._replace(decision="new", reason="the similar memory was deleted", other=None, replaces=False)

    def _document(self, write: Transaction, text: Parted, added: ingest_model.Added, segments: int) -> Memory:
        """Store the memory that represents the document. Its text is short, so that searches find the pieces."""
        candidates = (added.title, text.title, self._source.name, self._source.uri)
        title = fitted(helpers.preview(next(filter(None, (printable(one or "") for one in candidates))), 200))
        about = f"A document of {segments} segments: {self._source.uri}"
        content = f"{about}\n{added.summary}" if added.summary else about
        metadata = {
            "content_hash": self._hash,
            "headings": text.headings[:MOST_HEADINGS],
            "pipeline": self._named(),
            "segments": segments,
        }
        metadata |= {"method": "llm", "model": added.model} if added.model else {"method": "heuristic"}
        values: dict[str, Any] = {"content": content, "metadata": metadata}
        values, _ = permitted(write.session, self._source.namespace, values)
        content, metadata = values["content"], values["metadata"]
        old = self._last.document if self._last else None
        existing = memories.by_ids(write.session, self._hold.caller, [old], write.now) if old else {}
        if old and old in existing and memories.may_change(write.session, self._hold.caller, old):
            changed = replace(existing[old], content=content, metadata=door.metadata(existing[old].metadata | metadata))
            return write.change(MEMORY, existing[old], door.check(changed), "ingest")
        draft = self._draft(title, content, metadata, "summary", None, (DOCUMENT_TAG,))
        return put(self._hold, write, replace(draft, priority=1), "version", force=True).memory

    def _named(self) -> str:
        return f"{self._pipeline.name}@{self._pipeline.version}"

    def _draft(
        self,
        title: str,
        content: str,
        metadata: dict[str, Any],
        kind: MemoryKind,
        span: Span | None,
        tags: tuple[str, ...],
    ) -> Draft:
        citation = Citation(self._source.uri, to_text(self._hold.now()), self._hash, span)
        return Draft(
            title=title,
            content=content,
            namespace=self._source.namespace,
            tier="long",
            kind=kind,
            source=self._hold.caller.source,
            scope=self._source.scope or UNSET,
            tags=(*self._source.tags, *(tag for tag in tags if tag not in self._source.tags))[: door.MOST_TAGS],
            metadata=metadata,
            citations=(citation,),
            source_uri=self._source.uri,
            source_span=span,
            speaker=None,
            occurred_at=None,
            thread=None,
            place=None,
        )

    def _one(self, write: Transaction, judged: Judged) -> Outcome:
        """Carry out the decision about a piece. A refused piece does not affect the others."""
        piece, memory = judged.piece, judged.other
        if judged.decision in ingest_model.KEPT:
            try:
                stored = self._brought_back(write, judged.back) or self._stored(write, piece)
            except StoreError:
                raise
            except HoldfastError as error:
                return _outcome(judged._replace(decision="rejected", reason=error.message), None)
            memory = stored.id
            self._link(write, judged, stored)
        elif judged.repeats is not None:
            memory = self._kept.get(judged.repeats)
        elif judged.other and judged.other not in self._ours:
            write.session.do("restated_add", memory=judged.other, now=write.now)
        if memory:
            self._kept[piece.place] = memory
        return _outcome(judged, memory)

    def _brought_back(self, write: Transaction, id: str | None) -> Memory | None:
        """Revive a superseded memory whose text is back in the document, if its successors are from this source."""
        found = memories.by_ids(write.session, self._hold.caller, [id], write.now) if id else {}
        if id is None or id not in found:
            return None
        edges = entering(write.session, self._hold.caller, [id], SUPERSEDING, write.now, limit=STEP)
        by = memories.by_ids(write.session, self._hold.caller, [one.link.source for one in edges], write.now)
        if not all(self._is_ours(write, one) for one in (found[id], *by.values())):
            return None
        for edge in edges:
            untie(write, edge.link)
        return found[id]

    def _is_ours(self, write: Transaction, memory: Memory) -> bool:
        changeable = memories.may_change(write.session, self._hold.caller, memory.id)
        return changeable and memory.source_uri == self._source.uri

    def _tied(self, write: Transaction, document: Memory, outcomes: Iterable[Outcome]) -> None:
        """Link new memories to their document (`derives_from`), and the document to near-duplicates."""
        new_ids = iter(self._made)
        while links := [_derived(self._hold, write, id, document.id) for id in islice(new_ids, STEP)]:
            for link in links if document.reflection_depth else ():
                stand(write, None, link)
            write.add_all(LINK, links, "link")
        for one in outcomes:
            if one.decision == "near-duplicate" and one.other:
                tie(self._hold, write, document.id, one.other, "related_to")

    def _stored(self, write: Transaction, piece: Piece) -> Memory:
        title = self._free(piece)
        sure = piece.classified
        metadata: dict[str, Any] = {
            "method": piece.method,
            "pipeline": self._named(),
            "fact_kind": sure.fact_kind,
            "fact_confidence": sure.confidence,
        }
        metadata |= {"weak": True} if sure.weak else {}
        metadata |= {"model": piece.model} if piece.model else {}
        metadata |= {"path": list(piece.path)} if piece.path else {}
        kind: MemoryKind = "claim" if piece.kind == "claim" else "observation"
        if not sure.weak:
            kind = _KINDS.get(sure.fact_kind, kind)
        draft = self._draft(title, piece.text, metadata, kind, Span(piece.begins, piece.ends), piece.tags)
        result = put(self._hold, write, draft, "version", force=True)
        memory = result.memory
        self._made[memory.id] = piece.place
        if result.secrets.kinds:
            self._secrets.append(f"line {piece.line}: {_told_of(result.secrets)}")
        if (memory.title, memory.content) == (piece.title, piece.text):
            self._as_planned[piece.place] = memory
        return memory

    def _free(self, piece: Piece) -> str:
        """Choose a title for a piece that differs from earlier ones."""
        is_taken = sha256(piece.title.encode()).digest()[:8] in self._taken_titles
        title = f"{piece.title} [{piece.digest[:8]}]" if is_taken else piece.title
        self._taken_titles.add(sha256(title.encode()).digest()[:8])
        return title

    def _link(self, write: Transaction, judged: Judged, kept: Memory) -> None:
        """Link a stored piece to the memory that it supersedes, contradicts or updates."""
        if judged.other is None:
            return
        if judged.decision == "conflict":
            tie(self._hold, write, kept.id, judged.other, "contradicts")
        elif judged.decision == "update":
            tie(self._hold, write, kept.id, judged.other, "supersedes" if judged.replaces else "related_to")

    def _keep_vectors(self, write: Transaction, planner: Planner) -> None:
        """Store the embeddings computed for the memories just stored."""
        planned, self._as_planned = self._as_planned, {}
        if (embedder := self._hold.embedder) is None:
            return
        made = ((memory, planner.vectors.get(place)) for place, memory in planned.items())
        many = [
            vectors.Kept(
                memory.id,
                embedder.model,
                begins,
                ends,
                vector.dim,
                content_hash(memory.title, memory.content),
                write.now,
                vector,
            )
            for memory, found in made
            for begins, ends, vector in found
        ]
        vectors.put_all(write.session, many)

    def _vanished(self, write: Transaction, outcomes: Iterable[Outcome]) -> list[Gone]:
        """Find memories from the last ingest whose text is neither in the document nor replaced."""
        mentioned = {id for one in outcomes for id in (one.memory, one.other) if id}
        previous = [one for one in self._before if one.memory and one.decision in (*ingest_model.KEPT, "duplicate")]
        stays = _Unchanged(self._before, {one.digest for one in outcomes})
        candidates = [one for one in previous if one.kind != "claim" or not stays(one.begins, one.ends)]
        found = {one.memory: one for one in candidates if one.memory not in mentioned}
        there = memories.by_ids(write.session, self._hold.caller, [id for id in found if id], write.now)
        own = {id: one for id, one in there.items() if one.source_uri == self._source.uri}
        return [Gone(id, own[id].title, one.place) for id, one in found.items() if id in own]

    def _helped(self, judged: Iterable[Judged], planner: Planner) -> dict[int, list[helpers.HelperOutput]]:
        """Run each helper on the first pieces. Comparing helpers are skipped where no candidates were looked up."""
        stages = [one for one in self._pipeline.stages if isinstance(one, Helping)]
        first = (one.piece for one in islice(judged, MOST_HELPED if stages else 0))
        return {
            piece.place: [
                ingest_model.helped(one, piece, planner.seen)
                for one in stages
                if one.kind == "fts_classifier" or piece.place in planner.seen.near
            ]
            for piece in first
        }

    def _stages(
        self, judged: Collection[Judged], planner: Planner, parts: Sequence[ingest_model.Part]
    ) -> list[dict[str, Any]]:
        """Build the report row of each stage."""
        found = []
        for index, stage in enumerate(self._pipeline.stages):
            if isinstance(stage, Asking):
                found.append(ingest_model.stage_of(index, stage, parts))
                continue
            summary, payload = _summed(stage, judged, planner.seen.counts)
            found.append(
                {
                    "index": index,
                    "type": "helper" if isinstance(stage, Helping) else named(stage),
                    "name": named(stage),
                    "summary": summary,
                    "method": "heuristic",
                    "payload": payload,
                }
            )
        return found


def _told_of(found: Found) -> str:
    return f"{'secrets redacted' if found.redacted else 'contains secrets'}: {', '.join(found.kinds)}"


class _Unchanged:
    """Tell whether a document still contains every paragraph of a span of its earlier version.

    If so, the model's sentences about that span remain valid: it is not asked again about unchanged parts.
    """

    def __init__(self, before: Sequence[Outcome], digests: Container[str]) -> None:
        changed = [one.begins for one in before if one.kind != "claim" and one.digest not in digests]
        self._changed = sorted(changed)

    def __call__(self, begins: int, ends: int) -> bool:
        return bisect_left(self._changed, begins) == bisect_left(self._changed, ends)


class _Overtaken(Exception):
    """The same document was ingested concurrently."""


def _derived(hold: Hold, write: Transaction, memory: str, document: str) -> Link:
    """Build the `derives_from` link of a new memory. Nothing depends on it yet, so no cycle is possible."""
    return Link(
        id=id_of(memory, document, "derives_from"),
        source=memory,
        target=document,
        relation="derives_from",
        valid_from=write.now,
        valid_until=None,
        agent=hold.caller.agent,
        created_at=write.now,
        updated_at=write.now,
        origin=write.origin,
        version=1,
    )


def _outcome(judged: Judged, memory: str | None) -> Outcome:
    piece = judged.piece
    return Outcome(
        piece.place,
        piece.digest,
        judged.decision,
        memory,
        judged.other,
        int(judged.replaces),
        piece.kind,
        piece.line,
        piece.begins,
        piece.ends,
        judged.reason,
        piece.method,
        piece.model,
    )


def _summed(
    stage: Segmenting | Searching | Helping, judged: Collection[Judged], counts: Counter[str]
) -> tuple[str, dict[str, Any]]:
    """Summarise a deterministic stage over all pieces."""
    match stage:
        case Segmenting():
            return f"{len(judged)} segment{'s' * (len(judged) != 1)}", {"segments": len(judged)}
        case Searching():
            like = sum(one.other is not None for one in judged)
            return f"{like} of {len(judged)} segments resemble a memory", {"segments": len(judged), "like": like}
        case Helping(kind="fts_classifier", params=params) if params.compat:
            kinds = Counter(helpers.literal_kind(one.piece.text) for one in judged)
            summary = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
            return summary, {"helper": stage.kind, "fact_kind": kinds.most_common(1)[0][0], "fact_kinds": kinds}
        case Helping(kind="fts_classifier"):
            kinds = Counter(one.piece.classified.fact_kind for one in judged)
            weak = sum(one.piece.classified.weak for one in judged)
            summary = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
            payload: dict[str, Any] = {
                "helper": stage.kind,
                "fact_kind": kinds.most_common(1)[0][0],
                "fact_kinds": kinds,
            }
            return f"{summary}; {weak} of them weak", payload | {"weak": weak}
        case Helping(kind="jaccard_overlap"):
            scored, above = counts["jaccard_scored"], counts["jaccard_above"]
            payload = {"helper": stage.kind, "candidates_scored": scored, "candidates_above": above}
            return f"{above} of {scored} candidates overlap by {helpers.OVERLAPS:.2f}", payload
        case _:
            scored, passed = counts["cosine_scored"], counts["cosine_kept"]
            payload = {
                "helper": stage.kind,
                "threshold": stage.params.cosine_threshold,
                "candidates_scored": scored,
                "candidates_kept": passed,
                "candidates_without_score": counts["cosine_without"],
            }
            return f"{passed}/{scored} candidates kept at {stage.params.cosine_threshold:.2f}", payload
