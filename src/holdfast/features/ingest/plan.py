"""Decide what to do with each piece of a document: compare it with the store and judge it.

Nothing is written here. The embedding model is called between read transactions, never inside one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import Literal, NamedTuple

from holdfast.features.embeddings import service as embed
from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.spool import EmbeddingSpool, SpooledPassage
from holdfast.features.graph import store as links
from holdfast.features.ingest import helpers
from holdfast.features.ingest.helpers import MemoryHandle
from holdfast.features.ingest.pipeline import HelperStage, Pipeline
from holdfast.features.ingest.split_document import Piece, hash_text, is_self_contained
from holdfast.features.ingest.store import Outcome
from holdfast.features.memories import store as memories
from holdfast.features.memories.echoes import RecentRecalls, find_cited
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import find_same_text_ids
from holdfast.kernel.context import Context
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import encode_terms, find_matches, text_hashes
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Similarity, compare_titled, jaccard
from holdfast.kernel.text.words import query_words
from holdfast.kernel.vector import Vector, cosines

Decision = Literal["new", "duplicate", "near-duplicate", "update", "conflict", "rejected"]
BATCH_SIZE = 128
"""Pieces looked up per read transaction."""
MAX_CANDIDATES = 8
"""Candidates per piece from each search method."""
MAX_RARE_WORDS = 2
MAX_RARE_ROWS = 20
"""Limits for the lookup by rare words: how many words, and how many memories may contain them in total."""
COSINE_DIGITS = 6
"""Digits kept of a cosine: further ones depend on the order of additions."""
MAX_ROWS = 50
"""Memories read per lookup by rare words."""
MAX_LOOKUP_WORDS = 6
"""The longest words of a piece, among which the rarest are chosen: short words are seldom rare."""
MIN_OVERLAP, MIN_CONTAINMENT, MIN_COSINE = 0.15, 0.5, 0.8
"""Minimum word overlap, containment or cosine for a close comparison."""
REMOTE_SECONDS = 20.0
"""Time limit for computing embeddings while a network client waits."""
MAX_VECTORS = 50_000
"""Embeddings held until they are written. The embedding worker computes those of further pieces later."""
REASON_NEW = "nothing similar is stored"
REASON_KNOWN = "already ingested and stored"
REASON_GONE = "ingested before and deleted since; --again stores it again"


class Judgement(NamedTuple):
    """A piece and the decision about it."""

    piece: Piece
    decision: Decision
    reason: str
    other: str | None = None
    """The similar memory."""
    repeats: int | None = None
    """The place of the piece with the same text in this document."""
    is_replacement: bool = False
    """Whether the other memory is from the same source and is superseded by this piece."""
    revived_id: str | None = None
    """A superseded memory of this source with the same text, to be revived."""


class Candidate(NamedTuple):
    """A memory that a piece was compared with."""

    memory: Memory
    likeness: Similarity
    cosine: float | None
    overlap: float


MAX_HELPER_REPORTS = 20
"""Segments for which full helper results are reported."""


class PlanFindings:
    """Findings about the pieces, for the report and for model stages."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.counts: Counter[str] = Counter()
        self.candidates: dict[int, list[MemoryHandle]] = {}
        self.cosines: dict[int, list[tuple[str, str, float | None]]] = {}


def _passage_vectors(made: Sequence[SpooledPassage]) -> list[Vector]:
    return [vector for begins, _, vector in made if begins >= 0]


def _merge_memories(one: Sequence[Memory], other: Sequence[Memory]) -> list[Memory]:
    return list({memory.id: memory for memory in (*one, *other)}.values())


def _rank_by_overlap(piece: Piece, found: Sequence[Memory]) -> list[Memory]:
    """Return the memories that share most words with a piece. A total order, so that both engines agree."""
    own_words = helpers.tokens(piece.text)
    rank = {one.id: -jaccard(own_words, helpers.tokens(one.content)) for one in found}
    return sorted(found, key=lambda one: (rank[one.id], one.title, one.id))[:MAX_CANDIDATES]


class Planner:
    """Judge the pieces of one document."""

    def __init__(
        self,
        ctx: Context,
        pipeline: Pipeline,
        namespace: str,
        source_uri: str,
        previous: Sequence[Outcome],
        *,
        again: bool,
        private: bool = False,
        keep_findings: bool = False,
    ) -> None:
        self.vectors = EmbeddingSpool()
        """Embeddings of the pieces that will be stored."""
        self.findings = PlanFindings(namespace)
        self.without_vectors: str | None = None
        """Why embeddings are missing, if they were expected."""
        self._ctx = ctx
        self._pipeline = pipeline
        self._namespace = namespace
        self._source_uri = source_uri
        self._again = again
        self._private = private
        self._keep_findings = keep_findings
        self._known_by_digest = {one.digest: one for one in previous if one.memory is not None and one.digest}
        self._digests: set[str] = set()
        """Digests of all pieces of the document."""
        self._current_ids: set[str] = set()
        """Memories of the document that stay unchanged or were already replaced."""
        self._superseded_ids: set[str] = set()
        """Memories that others supersede."""
        self._first_places: dict[str, int] = {}
        self._cited_by_block: dict[str, str | None] = {"": None}
        """Per pasted block: the first memory it cites."""
        self._recent_recalls: RecentRecalls | None = None
        self._vector_count = 0
        self._embedder = ctx.embedder if pipeline.candidate_stage.vectors else None
        self._deadline = None if ctx.caller.is_local else monotonic() + REMOTE_SECONDS

    def judge_pieces(self, pieces: Collection[Piece]) -> Iterator[Judgement]:
        """Judge each piece, in order."""
        digests = {one.digest for one in pieces}
        self._digests |= digests
        self._current_ids |= {
            self._known_by_digest[digest].memory or "" for digest in digests if digest in self._known_by_digest
        }
        remaining, done = iter(pieces), 0
        while batch := list(islice(remaining, BATCH_SIZE)):
            self._ctx.progress(done, len(pieces), "comparing")
            yield from self._judge_batch(batch)
            done += len(batch)

    def _judge_batch(self, pieces: Sequence[Piece]) -> list[Judgement]:
        judgements: dict[int, Judgement] = {}
        by_words: dict[int, list[Memory]] = {}
        with self._ctx.reading() as session:
            live = self._find_live(
                session,
                [self._known_by_digest[one.digest].memory for one in pieces if one.digest in self._known_by_digest],
            )
            judgements |= {piece.place: judged for piece in pieces if (judged := self._judge_known(piece, live))}
            unknown = [piece for piece in pieces if piece.place not in judgements]
            judgements |= {piece.place: judged for piece in unknown if (judged := self._judge_pasted(session, piece))}
            unknown = [piece for piece in unknown if piece.place not in judgements]
            judgements |= {piece.place: judged for piece in unknown if (judged := self._judge_echo(session, piece))}
            unknown = [piece for piece in unknown if piece.place not in judgements]
            rare = self._find_rare_words(session, unknown) if self._needs_word_lookup(session) else {}
            for piece in unknown:
                by_words[piece.place] = self._find_by_words(session, piece, rare.get(piece.place, ()))
                if judged := self._judge_same(piece, by_words[piece.place]):
                    judgements[piece.place] = judged
        left = [piece for piece in pieces if piece.place not in judgements]
        embeddings = self._embed_pieces(left)
        with self._ctx.reading() as session:
            close = self._find_by_vector(session, embeddings)
            for piece in left:
                both = _merge_memories(by_words[piece.place], close.get(piece.place, ()))
                near = self._compare_memories(session, piece, both, _passage_vectors(embeddings.get(piece.place, ())))
                judgements[piece.place] = self._judge_candidates(piece, near)
        for piece in left:
            self._keep_vectors(piece, judgements[piece.place], embeddings)
        return [judgements[piece.place] for piece in pieces]

    def _find_live(self, session: Session, ids: Iterable[str | None]) -> set[str]:
        return set(memories.by_ids(session, self._ctx.caller, [id for id in ids if id], self._ctx.now()))

    def _judge_known(self, piece: Piece, live: set[str]) -> Judgement | None:
        """Judge a piece that repeats this document or was stored from this source last time."""
        first = self._first_places.setdefault(piece.digest, piece.place)
        if first != piece.place:
            return Judgement(piece, "duplicate", "repeats an earlier segment of the document", repeats=first)
        outcome = self._known_by_digest.get(piece.digest)
        if outcome is None or outcome.memory is None:
            return None
        if outcome.memory in live:
            return Judgement(piece, "duplicate", REASON_KNOWN, outcome.memory)
        if not self._again:
            return Judgement(piece, "duplicate", REASON_GONE, outcome.memory)
        return None

    def _judge_pasted(self, session: Session, piece: Piece) -> Judgement | None:
        """Judge a piece of a pasted block that cites a memory of this store: a duplicate."""
        if piece.pasted_block not in self._cited_by_block:
            cited = find_cited(self._ctx, session, piece.pasted_block, self._ctx.now())
            self._cited_by_block[piece.pasted_block] = cited[0].id if cited else None
        id = self._cited_by_block[piece.pasted_block]
        return Judgement(piece, "duplicate", "pasted from a recall of this store", id) if id else None

    def _judge_echo(self, session: Session, piece: Piece) -> Judgement | None:
        """Judge a piece recalled within the last hour: a duplicate, unless it was recalled from this source."""
        if self._again:
            return None
        if self._recent_recalls is None:
            self._recent_recalls = RecentRecalls(self._ctx, session, self._ctx.now(), but_from=self._source_uri)
        found = self._recent_recalls.find_repeated(piece.title, piece.text)
        return (
            Judgement(piece, "duplicate", "recalled from this store within the last hour", found[0]) if found else None
        )

    def _needs_word_lookup(self, session: Session) -> bool:
        """Whether to search by rare words too. Not needed if every memory has an embedding, which finds more."""
        if self._embedder is None:
            return True
        mark = vectors.get_watermark(session, self._embedder.model)
        return mark is None or not mark.whole

    def _find_rare_words(self, session: Session, pieces: Sequence[Piece]) -> dict[int, list[str]]:
        """Find the rarest stored words of each piece, few enough for a fast lookup."""
        words = {piece.place: sorted(query_words(piece.text), key=len)[-MAX_LOOKUP_WORDS:] for piece in pieces}
        stems = {word: index_terms.stems(word) for many in words.values() for word in many}
        held_by = session.document_frequencies([stem for many in stems.values() for stem in many], session.newest_row())
        counts = {word: min((held_by.get(stem, 0) for stem in many), default=0) for word, many in stems.items()}
        return {
            place: list(
                _pick_rare_words(sorted((word for word in many if counts[word]), key=counts.__getitem__), counts)
            )
            for place, many in words.items()
        }

    def _find_by_words(self, session: Session, piece: Piece, rare: Sequence[str]) -> list[Memory]:
        """Find possible duplicates in the namespace by MinHash bands and by rare words."""
        sought = text_hashes(self._namespace, encode_terms(piece.title, piece.text, "[]"))
        shared = find_matches(session, sought)
        same = find_same_text_ids(self._ctx, session, sought, shared, self._ctx.now())
        found = self._read_memories(session, [*same[:MAX_CANDIDATES], *shared.near[:MAX_CANDIDATES]])
        if not rare:
            return found
        which, now = Filter(namespace=self._namespace), self._ctx.now()
        hits = memories.search_words(session, self._ctx.caller, rare, which, now, limit=MAX_ROWS)
        return _merge_memories(found, _rank_by_overlap(piece, self._read_memories(session, [hit.id for hit in hits])))

    def _read_memories(self, session: Session, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        read = memories.by_ids(session, self._ctx.caller, ids, self._ctx.now())
        self._superseded_ids |= links.find_superseded(session, list(read), self._ctx.now())
        return [read[id] for id in ids if id in read and read[id].namespace == self._namespace]

    def _judge_same(self, piece: Piece, found: Sequence[Memory]) -> Judgement | None:
        for one in found:
            if hash_text(one.content, one.metadata.get("path", ())) == piece.digest and self._is_reusable(one):
                return Judgement(piece, "duplicate", "a memory has the same text", one.id)
        return None

    def _is_reusable(self, memory: Memory) -> bool:
        """Whether a memory can stand in for a new one: not superseded, permanent, and equally visible."""
        return memory.id not in self._superseded_ids and self._is_permanent(memory)

    def _is_permanent(self, memory: Memory) -> bool:
        own = self._private and memory.agent == self._ctx.caller.agent
        return memory.expires_at is None and (memory.scope != "private" or own)

    def _was_superseded(self, piece: Piece, memory: Memory) -> bool:
        """Whether a superseded memory of this source has the same text."""
        ours = (
            memory.id in self._superseded_ids and memory.source_uri == self._source_uri and self._is_permanent(memory)
        )
        return ours and hash_text(memory.content, memory.metadata.get("path", ())) == piece.digest

    def _embed_pieces(self, pieces: Sequence[Piece]) -> dict[int, list[SpooledPassage]]:
        """Compute embeddings of pieces as they will be stored; empty if that is not possible now."""
        if self._embedder is not None and self._deadline is not None and monotonic() > self._deadline:
            self._embedder, self.without_vectors = None, "time ran out. Embeddings follow in the background."
        if self._embedder is None:
            return {}
        texts = [(piece.place, *text) for piece in pieces for text in embed.list_texts(piece.title, piece.text)]
        try:
            embeddings = self._embed_texts(self._embedder, [text for *_, text in texts])
        except EmbedderFailed as error:
            self._embedder, self.without_vectors = None, error.message
            return {}
        found: dict[int, list[SpooledPassage]] = {}
        for (place, begins, ends, _), vector in zip(texts, embeddings, strict=True):
            found.setdefault(place, []).append((begins, ends, vector))
        return found

    def _embed_texts(self, embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
        embeddings: list[Vector] = []
        for start in range(0, len(texts), embed.TEXTS_PER_CHECK):
            self._ctx.progress.check()
            embeddings += embedder.embed(texts[start : start + embed.TEXTS_PER_CHECK])
        return embeddings

    def _find_by_vector(
        self, session: Session, made: Mapping[int, Sequence[SpooledPassage]]
    ) -> dict[int, list[Memory]]:
        """Find memories of the namespace with a passage close to the beginning of a piece."""
        first = {place: said[0] for place, many in made.items() if (said := _passage_vectors(many))}
        if not first or self._embedder is None:
            return {}
        which, now = Filter(namespace=self._namespace), self._ctx.now()
        hits = vectors.find_close(
            session, self._ctx.caller, self._embedder.model, [*first.values()], which, now, limit=MAX_CANDIDATES
        )
        read = {one.id: one for one in self._read_memories(session, sorted({id for ids in hits for id in ids}))}
        return {place: [read[id] for id in ids if id in read] for place, ids in zip(first, hits, strict=True)}

    def _compare_memories(
        self, session: Session, piece: Piece, found: Sequence[Memory], said: Sequence[Vector]
    ) -> list[Candidate]:
        """Compare the candidates with a piece."""
        found = found[: max(self._pipeline.candidate_stage.limit, MAX_CANDIDATES)]
        cosines = self._compute_cosines(session, said, found)
        words = helpers.tokens(piece.text)
        near = [self._compare_memory(piece, words, one, cosines.get(one.id)) for one in found]
        self._record_findings(piece, near)
        return near

    def _compare_memory(self, piece: Piece, words: frozenset[str], one: Memory, cosine: float | None) -> Candidate:
        """Compare a memory with a piece. The close comparison is skipped if they share almost nothing."""
        other = helpers.tokens(one.content)
        overlap = jaccard(words, other)
        if overlap < MIN_OVERLAP and (cosine or 0.0) < MIN_COSINE and helpers.contained(words, other) < MIN_CONTAINMENT:
            return Candidate(one, Similarity("other", overlap, "they share too little"), cosine, overlap)
        return Candidate(one, compare_titled(one.title, one.content, piece.title, piece.text, cosine), cosine, overlap)

    def _compute_cosines(self, session: Session, said: Sequence[Vector], found: Sequence[Memory]) -> dict[str, float]:
        """Compute cosines: the average over the piece's passages of the best match in each memory."""
        if not said or not found or self._embedder is None:
            return {}
        rows = session.vectors([one.id for one in found], self._embedder.model)
        best: dict[str, list[float]] = {}
        for number, vector in enumerate(said):
            for row, cosine in zip(rows, cosines(vector, [row[3] for row in rows]), strict=True):
                mine = best.setdefault(row[0], [-1.0] * len(said))
                mine[number] = max(mine[number], cosine)
        return {id: round(sum(many) / len(many), COSINE_DIGITS) for id, many in best.items()}

    def _record_findings(self, piece: Piece, near: Sequence[Candidate]) -> None:
        """Record helper counts, and the candidates of reported pieces."""
        for stage in self._pipeline.stages:
            match stage:
                case HelperStage(kind="jaccard_overlap", params=params):
                    above = sum(one.overlap >= helpers.MIN_OVERLAP for one in near)
                    self.findings.counts["jaccard_scored"] += len(near)
                    self.findings.counts["jaccard_above"] += min(above, helpers.MAX_SHOWN) if params.compat else above
                case HelperStage(kind="cosine_pre_filter", params=params):
                    cosines = [one.cosine for one in near if one.cosine is not None]
                    self.findings.counts["cosine_scored"] += len(near)
                    self.findings.counts["cosine_kept"] += sum(one >= params.cosine_threshold for one in cosines)
                    self.findings.counts["cosine_without"] += len(near) - len(cosines)
        if self._keep_findings or piece.place < MAX_HELPER_REPORTS:
            near = sorted(near, key=lambda one: (-one.overlap, one.memory.title, one.memory.id))
            self.findings.candidates[piece.place] = [MemoryHandle(one.memory.id, one.memory.content) for one in near]
            self.findings.cosines[piece.place] = [(one.memory.id, one.memory.content, one.cosine) for one in near]

    def _judge_candidates(self, piece: Piece, near: Sequence[Candidate]) -> Judgement:
        """Judge a piece by its candidates: same text first, then an earlier version in the document, then others."""
        like = [one for one in near if one.likeness.relation != "other"]
        close = [one for one in like if one.likeness.relation not in ("same", "near") or self._is_reusable(one.memory)]
        if not is_self_contained(piece.text):
            close = [one for one in close if one.memory.metadata.get("path", []) == list(piece.path)]
        for one in close:
            if one.likeness.relation == "same":
                return Judgement(piece, "duplicate", one.likeness.reason, one.memory.id)
        own = [one for one in close if one.memory.source_uri == self._source_uri and not self._is_current(one.memory)]
        if own:
            best = max(own, key=lambda one: one.likeness.score)
            self._current_ids.add(best.memory.id)
            return Judgement(
                piece,
                "update",
                f"replaces an earlier version in the document: {best.likeness.reason}",
                best.memory.id,
                is_replacement=True,
                revived_id=next((one.memory.id for one in like if self._was_superseded(piece, one.memory)), None),
            )
        others = [one for one in close if one.memory.source_uri != self._source_uri]
        if not others:
            only = any(one.likeness.relation == "same" and not self._is_reusable(one.memory) for one in like)
            return Judgement(
                piece, "new", "existing copies are temporary, private or superseded" if only else REASON_NEW
            )
        best = max(others, key=lambda one: one.likeness.score)
        return Judgement(piece, _DECISION_OF_RELATION[best.likeness.relation], best.likeness.reason, best.memory.id)

    def _is_current(self, memory: Memory) -> bool:
        """Whether the document still contains the text of a memory, or another piece already replaced it."""
        if memory.id in self._current_ids or memory.id in self._superseded_ids:
            return True
        return hash_text(memory.content, memory.metadata.get("path", ())) in self._digests

    def _keep_vectors(self, piece: Piece, judged: Judgement, made: dict[int, list[SpooledPassage]]) -> None:
        """Keep embeddings of a piece that will be stored, up to the limit and while the disk has room."""
        many = made.get(piece.place, [])
        if (
            not many
            or judged.decision not in ("new", "update", "conflict")
            or self._vector_count + len(many) > MAX_VECTORS
        ):
            return
        try:
            self.vectors[piece.place] = many
            self._vector_count += len(many)
        except OSError:
            self._vector_count = MAX_VECTORS


def _pick_rare_words(words: Iterable[str], held: Mapping[str, int]) -> Iterator[str]:
    """Yield words while few memories contain them in total; at least one."""
    rows = 0
    for number, word in enumerate(words):
        rows += held[word]
        if number and (number == MAX_RARE_WORDS or rows > MAX_RARE_ROWS):
            return
        yield word


_DECISION_OF_RELATION: dict[str, Decision] = {"near": "near-duplicate", "update": "update", "conflict": "conflict"}
