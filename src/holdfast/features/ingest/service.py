"""Ingest a document: split, deduplicate, and store what is new in one transaction.

Each ingest is recorded by content and pipeline, so that the same document is not ingested twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.graph.depth import check_link
from holdfast.features.graph.read_links import LinkFilter, list_incoming
from holdfast.features.graph.service import add_link, end_link, link_id
from holdfast.features.ingest import ask_model, helpers
from holdfast.features.ingest import store as ingests
from holdfast.features.ingest.ingest_report import (
    MissingSegment,
    Report,
    Source,
    build_stage_reports,
    find_latest_record,
    find_vanished,
    list_memory_ids,
    map_titles,
    report_unchanged,
)
from holdfast.features.ingest.pipeline import HelperStage, Pipeline
from holdfast.features.ingest.plan import MAX_HELPER_REPORTS, Judgement, Planner
from holdfast.features.ingest.split_document import Piece, SplitDocument, fit_title, make_printable, split_document
from holdfast.features.ingest.store import IngestRecord, Outcome
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.store_memory import SecretsFound, filter_secrets, store_draft
from holdfast.features.transfer.importer import DryRunRollback
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, Invalid, StoreError
from holdfast.kernel.journal.kinds import LINK, MEMORY, content_hash
from holdfast.kernel.journal.transaction import CompressedList, Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Citation, Memory, Span
from holdfast.kernel.records.memory import Kind as MemoryKind
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.timestamps import derive_id, format_timestamp

BATCH_SIZE = 100
MAX_HEADINGS = 200
MAX_SECRETS = 20
DOCUMENT_TAG = "document"
SUPERSEDING = LinkFilter(relations=("supersedes",))
_KINDS: dict[str, MemoryKind] = {"episodic": "event"}
"""Memory kind for reliably classified pieces; others are observations."""


def ingest(ctx: Context, source: Source, pipeline: Pipeline, *, dry_run: bool = False, again: bool = False) -> Report:
    """Ingest a document once. A dry run does the same work and rolls it back."""
    source = _validate_source(ctx, source)
    hash = sha256(source.text.encode()).hexdigest()
    id = derive_id("ingest", source.namespace, source.uri, hash, pipeline.version, ctx.caller.agent)
    if not again and (unchanged := report_unchanged(ctx, source, pipeline, id, dry_run)):
        return unchanged
    return _DocumentIngest(ctx, source, pipeline, hash, id, again=again).run(dry_run)


def _validate_source(ctx: Context, source: Source) -> Source:
    """Validate a document as a whole before any work is done."""
    namespace = validate.namespace(source.namespace)
    validate.require_storable(namespace)
    ctx.caller.require_access(namespace)
    validate.uri("source_uri", source.uri)
    if not source.text.strip("\ufeff \t\r\n"):
        raise Invalid("content must not be empty", fields=["content"])
    with ctx.reading() as session:
        values, _ = filter_secrets(session, namespace, {"source_uri": source.uri, "tags": validate.tags(source.tags)})
    return source._replace(
        namespace=namespace, uri=validate.uri("source_uri", values["source_uri"]), tags=values["tags"]
    )


class _DocumentIngest:
    """The ingest of one document."""

    def __init__(self, ctx: Context, source: Source, pipeline: Pipeline, hash: str, id: str, *, again: bool) -> None:
        self._ctx = ctx
        self._source = source
        self._pipeline = pipeline
        self._hash = hash
        self._id = id
        self._again = again
        with ctx.reading() as session:
            before = ingests.list_previous(session, source.uri, source.namespace, ctx.caller.agent, limit=1)
            self._previous: IngestRecord | None = before[0] if before else None
            self._previous_outcomes = ingests.list_outcomes(session, self._previous.id) if self._previous else []
        self._previous_ids = {one.memory for one in self._previous_outcomes}
        self._notes: list[str] = []
        self._titles: dict[int, str] = {}
        self._created: dict[str, int] = {}
        """Created memories, each with the place of its piece."""
        self._as_planned: dict[int, Memory] = {}
        """Memories since the last batch whose text is exactly what was embedded."""
        self._taken_titles: set[bytes] = set()
        """Digests of titles in use."""
        self._memory_ids: dict[int, str] = {}
        """Per piece: the memory that holds its text."""
        self._secrets: list[str] = []
        """Lines that contain secrets, with the kinds found."""

    def run(self, dry_run: bool) -> Report:
        text = split_document(self._source.text, self._pipeline.segment_stage.longest)
        if not text.pieces:
            raise Invalid("content has no text to store", fields=["content"])
        planner = Planner(
            self._ctx,
            self._pipeline,
            self._source.namespace,
            self._source.uri,
            self._previous_outcomes,
            again=self._again,
            private=self._source.scope == "private",
            keep_findings=self._pipeline.asks_model,
        )
        with planner.vectors:
            judgements = CompressedList(Judgement, planner.judge_pieces(text.pieces))
            parts = ask_model.ask_stages(self._ctx, self._pipeline, judgements, planner.findings)
            additions = ask_model.apply_answers(judgements, parts)
            if parts:
                several = (*additions.judgements, *planner.judge_pieces(additions.new_pieces), *additions.repetitions)
                judgements = CompressedList(Judgement, sorted(several, key=lambda one: one.piece.place))
            if planner.without_vectors:
                self._notes.append(f"Some segments were compared without embeddings: {planner.without_vectors}")
            stages = build_stage_reports(self._pipeline, judgements, planner.findings.counts, parts)
            helper_results = self._run_helpers(judgements, planner)
            report = self._write_document(text, judgements, planner, additions, stages, dry_run)
        return report._replace(
            parts=len(parts),
            is_cache_consistent=all(len(part.keys) <= 1 for part in parts),
            helper_results=helper_results,
        )

    def _write_document(
        self,
        text: SplitDocument,
        judged: CompressedList[Judgement],
        planner: Planner,
        added: ask_model.ModelAdditions,
        stages: list[dict[str, Any]],
        dry_run: bool,
    ) -> Report:
        """Write everything in one transaction; a dry run rolls it back."""
        outcomes, count = CompressedList(Outcome), len(judged)
        vanished: list[MissingSegment] = []
        try:
            with self._ctx.transaction() as write:
                if not self._again and find_latest_record(self._ctx, write.session, self._source, self._id):
                    raise _AlreadyIngested
                for number, one in enumerate(judged.drain()):
                    if number % BATCH_SIZE == 0:
                        self._ctx.progress(number, count, "storing")
                        self._store_vectors(write, planner)
                    outcomes.append(self._apply_judgement(write, self._recheck(write, one)))
                self._store_vectors(write, planner)
                document = self._store_document(write, text, added, count) if self._created else None
                if document is not None:
                    self._link_document(write, document, outcomes)
                self._collect_titles(write, outcomes)
                vanished = find_vanished(self._ctx, write, self._source, self._previous_outcomes, outcomes)
                last = self._previous.document if self._previous else None
                ingests.put_record(
                    write.session, self._build_record(document.id if document else last, stages, write.now), outcomes
                )
                if dry_run:
                    raise DryRunRollback
        except DryRunRollback:
            found = (replace(one, memory=None) if one.memory in self._created else one for one in outcomes)
            outcomes = CompressedList(Outcome, found)
        except _AlreadyIngested:
            report = report_unchanged(self._ctx, self._source, self._pipeline, self._id, dry_run)
            assert report is not None
            return report
        self._report_secrets()
        document_id = self._previous.document if self._previous else None
        if document is not None:
            document_id = None if dry_run and document.id != document_id else document.id
        return Report(
            self._source, self._pipeline, self._hash, False, dry_run, document_id, outcomes, self._titles, vanished, [],
            stages, self._notes,
        )  # fmt: skip

    def _report_secrets(self) -> None:
        """Report secrets by line, up to the limit."""
        self._notes += self._secrets[:MAX_SECRETS]
        if len(self._secrets) > MAX_SECRETS:
            self._notes.append(
                f"{len(self._secrets) - MAX_SECRETS} more segments contain secrets. Run `holdfast curate audit`."
            )

    def _collect_titles(self, write: Transaction, outcomes: Iterable[Outcome]) -> None:
        left = iter(outcomes)
        while some := list(islice(left, BATCH_SIZE)):
            statuses = ingests.get_statuses(write.session, self._ctx.caller, list_memory_ids(some), write.now)
            self._titles |= map_titles(statuses, some)

    def _build_record(self, document: str | None, stages: list[dict[str, Any]], now: int) -> IngestRecord:
        return IngestRecord(
            self._id,
            self._source.namespace,
            self._source.uri,
            self._hash,
            self._pipeline.name,
            self._pipeline.version,
            self._ctx.caller.agent,
            document,
            stages,
            now,
        )

    def _recheck(self, write: Transaction, one: Judgement) -> Judgement:
        """Recheck a judgement: a piece whose similar memory was deleted meanwhile is new."""
        if one.other is None or one.decision == "duplicate":
            return one
        if memories.by_ids(write.session, self._ctx.caller, [one.other], write.now):
            return one
        return one._replace(decision="new", reason="the similar memory was deleted", other=None, is_replacement=False)

    def _store_document(
        self, write: Transaction, text: SplitDocument, added: ask_model.ModelAdditions, segments: int
    ) -> Memory:
        """Store the memory that represents the document. Its text is short, so that searches find the pieces."""
        candidates = (added.title, text.title, self._source.name, self._source.uri)
        title = fit_title(helpers.preview(next(filter(None, (make_printable(one or "") for one in candidates))), 200))
        about = f"A document of {segments} segments: {self._source.uri}"
        content = f"{about}\n{added.summary}" if added.summary else about
        metadata = {
            "content_hash": self._hash,
            "headings": text.headings[:MAX_HEADINGS],
            "pipeline": self._describe_pipeline(),
            "segments": segments,
        }
        metadata |= {"method": "llm", "model": added.model} if added.model else {"method": "heuristic"}
        values: dict[str, Any] = {"content": content, "metadata": metadata}
        values, _ = filter_secrets(write.session, self._source.namespace, values)
        content, metadata = values["content"], values["metadata"]
        old = self._previous.document if self._previous else None
        existing = memories.by_ids(write.session, self._ctx.caller, [old], write.now) if old else {}
        if old and old in existing and memories.can_write(write.session, self._ctx.caller, old):
            changed = replace(
                existing[old], content=content, metadata=validate.metadata(existing[old].metadata | metadata)
            )
            return write.change(MEMORY, existing[old], validate.check_memory(changed), "ingest")
        draft = self._build_draft(title, content, metadata, "summary", None, (DOCUMENT_TAG,))
        return store_draft(self._ctx, write, replace(draft, priority=1), "version", force=True).memory

    def _describe_pipeline(self) -> str:
        return f"{self._pipeline.name}@{self._pipeline.version}"

    def _build_draft(
        self,
        title: str,
        content: str,
        metadata: dict[str, Any],
        kind: MemoryKind,
        span: Span | None,
        tags: tuple[str, ...],
    ) -> Draft:
        citation = Citation(self._source.uri, format_timestamp(self._ctx.now()), self._hash, span)
        return Draft(
            title=title,
            content=content,
            namespace=self._source.namespace,
            tier="long",
            kind=kind,
            source=self._ctx.caller.source,
            scope=self._source.scope or UNSET,
            tags=(*self._source.tags, *(tag for tag in tags if tag not in self._source.tags))[: validate.MAX_TAGS],
            metadata=metadata,
            citations=(citation,),
            source_uri=self._source.uri,
            source_span=span,
            speaker=None,
            occurred_at=None,
            thread=None,
            place=None,
        )

    def _apply_judgement(self, write: Transaction, judged: Judgement) -> Outcome:
        """Carry out the decision about a piece. A refused piece does not affect the others."""
        piece, memory = judged.piece, judged.other
        if judged.decision in ask_model.STORED_DECISIONS:
            try:
                stored = self._revive_memory(write, judged.revived_id) or self._store_piece(write, piece)
            except StoreError:
                raise
            except HoldfastError as error:
                return _build_outcome(judged._replace(decision="rejected", reason=error.message), None)
            memory = stored.id
            self._link_piece(write, judged, stored)
        elif judged.repeats is not None:
            memory = self._memory_ids.get(judged.repeats)
        elif judged.other and judged.other not in self._previous_ids:
            write.session.do("duplicate_count_add", memory=judged.other, now=write.now)
        if memory:
            self._memory_ids[piece.place] = memory
        return _build_outcome(judged, memory)

    def _revive_memory(self, write: Transaction, id: str | None) -> Memory | None:
        """Revive a superseded memory whose text is back in the document, if its successors are from this source."""
        found = memories.by_ids(write.session, self._ctx.caller, [id], write.now) if id else {}
        if id is None or id not in found:
            return None
        edges = list_incoming(write.session, self._ctx.caller, [id], SUPERSEDING, write.now, limit=BATCH_SIZE)
        by = memories.by_ids(write.session, self._ctx.caller, [one.link.source for one in edges], write.now)
        if not all(self._is_ours(write, one) for one in (found[id], *by.values())):
            return None
        for edge in edges:
            end_link(write, edge.link)
        return found[id]

    def _is_ours(self, write: Transaction, memory: Memory) -> bool:
        changeable = memories.can_write(write.session, self._ctx.caller, memory.id)
        return changeable and memory.source_uri == self._source.uri

    def _link_document(self, write: Transaction, document: Memory, outcomes: Iterable[Outcome]) -> None:
        """Link new memories to their document (`derives_from`), and the document to near-duplicates."""
        new_ids = iter(self._created)
        while links := [_build_document_link(self._ctx, write, id, document.id) for id in islice(new_ids, BATCH_SIZE)]:
            for link in links if document.reflection_depth else ():
                check_link(write, None, link)
            write.add_all(LINK, links, "link")
        for one in outcomes:
            if one.decision == "near-duplicate" and one.other:
                add_link(self._ctx, write, document.id, one.other, "related_to")

    def _store_piece(self, write: Transaction, piece: Piece) -> Memory:
        title = self._choose_title(piece)
        sure = piece.classified
        metadata: dict[str, Any] = {
            "method": piece.method,
            "pipeline": self._describe_pipeline(),
            "fact_kind": sure.fact_kind,
            "fact_confidence": sure.confidence,
        }
        metadata |= {"weak": True} if sure.weak else {}
        metadata |= {"model": piece.model} if piece.model else {}
        metadata |= {"path": list(piece.path)} if piece.path else {}
        kind: MemoryKind = "claim" if piece.kind == "claim" else "observation"
        if not sure.weak:
            kind = _KINDS.get(sure.fact_kind, kind)
        draft = self._build_draft(title, piece.text, metadata, kind, Span(piece.begins, piece.ends), piece.tags)
        result = store_draft(self._ctx, write, draft, "version", force=True)
        memory = result.memory
        self._created[memory.id] = piece.place
        if result.secrets.kinds:
            self._secrets.append(f"line {piece.line}: {_describe_secrets(result.secrets)}")
        if (memory.title, memory.content) == (piece.title, piece.text):
            self._as_planned[piece.place] = memory
        return memory

    def _choose_title(self, piece: Piece) -> str:
        """Choose a title for a piece that differs from earlier ones."""
        is_taken = sha256(piece.title.encode()).digest()[:8] in self._taken_titles
        title = f"{piece.title} [{piece.digest[:8]}]" if is_taken else piece.title
        self._taken_titles.add(sha256(title.encode()).digest()[:8])
        return title

    def _link_piece(self, write: Transaction, judged: Judgement, kept: Memory) -> None:
        """Link a stored piece to the memory that it supersedes, contradicts or updates."""
        if judged.other is None:
            return
        if judged.decision == "conflict":
            add_link(self._ctx, write, kept.id, judged.other, "contradicts")
        elif judged.decision == "update":
            add_link(self._ctx, write, kept.id, judged.other, "supersedes" if judged.is_replacement else "related_to")

    def _store_vectors(self, write: Transaction, planner: Planner) -> None:
        """Store the embeddings computed for the memories just stored."""
        planned, self._as_planned = self._as_planned, {}
        if (embedder := self._ctx.embedder) is None:
            return
        made = ((memory, planner.vectors.get(place)) for place, memory in planned.items())
        many = [
            vectors.PassageEmbedding(
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
        vectors.put_embeddings(write.session, many)

    def _run_helpers(self, judged: Iterable[Judgement], planner: Planner) -> dict[int, list[helpers.HelperOutput]]:
        """Run each helper on the first pieces. Comparing helpers are skipped where no candidates were looked up."""
        stages = [one for one in self._pipeline.stages if isinstance(one, HelperStage)]
        first = (one.piece for one in islice(judged, MAX_HELPER_REPORTS if stages else 0))
        return {
            piece.place: [
                ask_model.run_helper(one, piece, planner.findings)
                for one in stages
                if one.kind == "fts_classifier" or piece.place in planner.findings.candidates
            ]
            for piece in first
        }


def _describe_secrets(found: SecretsFound) -> str:
    return f"{'secrets redacted' if found.redacted else 'contains secrets'}: {', '.join(found.kinds)}"


class _AlreadyIngested(Exception):
    """The same document was ingested concurrently."""


def _build_document_link(ctx: Context, write: Transaction, memory: str, document: str) -> Link:
    """Build the `derives_from` link of a new memory. Nothing depends on it yet, so no cycle is possible."""
    return Link(
        id=link_id(memory, document, "derives_from"),
        source=memory,
        target=document,
        relation="derives_from",
        valid_from=write.now,
        valid_until=None,
        agent=ctx.caller.agent,
        created_at=write.now,
        updated_at=write.now,
        origin=write.origin,
        version=1,
    )


def _build_outcome(judged: Judgement, memory: str | None) -> Outcome:
    piece = judged.piece
    return Outcome(
        piece.place,
        piece.digest,
        judged.decision,
        memory,
        judged.other,
        int(judged.is_replacement),
        piece.kind,
        piece.line,
        piece.begins,
        piece.ends,
        judged.reason,
        piece.method,
        piece.model,
    )
