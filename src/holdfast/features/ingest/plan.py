"""Decide what to do with each piece of a document: compare it with the store and judge it.

Nothing is written here. The embedding model is called between read transactions, never inside one.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from time import monotonic
from typing import Literal, NamedTuple

from holdfast.features.admin.backup import LOCAL
from holdfast.features.embeddings import service as embed
from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.spool import Made, Spool
from holdfast.features.graph import store as links
from holdfast.features.importers.model import recalled_in
from holdfast.features.ingest import helpers
from holdfast.features.ingest.helpers import Classified, MemoryHandle
from holdfast.features.ingest.pipeline import Helping, Pipeline
from holdfast.features.ingest.segment import Segment, outline, places
from holdfast.features.ingest.store import Outcome
from holdfast.features.memories import store as memories
from holdfast.features.memories.dedup import Lately, pasted, said_by
from holdfast.features.memories.store import Filter
from holdfast.kernel.compressed_list import Aside
from holdfast.kernel.context import Hold
from holdfast.kernel.cosine import cosines
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed, Invalid
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.index_terms import parse
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import minhash as gists
from holdfast.kernel.text.similarity import Likeness, compare_titled
from holdfast.kernel.text.words import asked
from holdfast.kernel.vector import Vector

Decision = Literal["new", "duplicate", "near-duplicate", "update", "conflict", "rejected"]
Method = Literal["heuristic", "llm"]
MOST_SEGMENTS = 100_000
"""Segments per document: it is planned as a whole and stored in one transaction."""
BATCH = 128
"""Pieces looked up per read transaction."""
LOOKED_AT = 8
"""Candidates per piece from each search method."""
FEW_WORDS = 2
FEW_ROWS = 20
"""Limits for the lookup by rare words: how many words, and how many memories may contain them in total."""
DIGITS = 6
"""Digits kept of a cosine: further ones depend on the order of additions."""
MOST_ROWS = 50
"""Memories read per lookup by rare words."""
LONGEST_WORDS = 6
"""The longest words of a piece, among which the rarest are chosen: short words are seldom rare."""
WORTH_A_LOOK, CONTAINED, NEARLY = 0.15, 0.5, 0.8
"""Minimum word overlap, containment or cosine for a close comparison."""
REMOTE_SECONDS = 20.0
"""Time limit for computing embeddings while a network client waits."""
MOST_VECTORS = 50_000
"""Embeddings held until they are written. The embedding worker computes those of further pieces later."""
FEWEST_WORDS = 8
NOTHING = "nothing similar is stored"
KEPT_BEFORE = "already ingested and stored"
GONE = "ingested before and deleted since; --again stores it again"
LEAD = 80
"""Characters of a text quoted in its title."""
LONGEST_TITLE = 480
"""In bytes; leaves room for a suffix."""


class Piece(NamedTuple):
    """A segment of a document, or a sentence a model wrote about it."""

    place: int
    title: str
    text: str
    digest: str
    kind: str
    path: tuple[str, ...]
    line: int
    begins: int
    """Byte offset in UTF-8, as in a memory's source span."""
    ends: int
    classified: Classified
    method: Method = "heuristic"
    model: str | None = None
    tags: tuple[str, ...] = ()
    pasted: str = ""
    """The pasted block of recalled text that contains it, if any."""


class Judged(NamedTuple):
    """A piece and the decision about it."""

    piece: Piece
    decision: Decision
    reason: str
    other: str | None = None
    """The similar memory."""
    repeats: int | None = None
    """The place of the piece with the same text in this document."""
    replaces: bool = False
    """Whether the other memory is from the same source and is superseded by this piece."""
    back: str | None = None
    """A superseded memory of this source with the same text, to be revived."""


class Parted(NamedTuple):
    """A document split into pieces."""

    title: str | None
    headings: list[str]
    pieces: Aside[Piece]


def parted(text: str, pipeline: Pipeline) -> Parted:
    """Split a document into pieces, each with its position, kind and title."""
    found = outline(text, pipeline.segmenting.longest, MOST_SEGMENTS + 1)
    if len(found.segments) > MOST_SEGMENTS:
        raise Invalid(f"content has more than {MOST_SEGMENTS:,} segments: ingest it in parts", fields=["content"])
    before, line_of = places(text), _LineOf(text)
    block_at = _BlockAt(text)
    pieces = Aside(Piece)
    for place, one in enumerate(found.segments):
        content = text[one.start : one.end]
        begins, ends = before(one.start), before(one.end)
        line = line_of(one.start)
        pieces.append(
            Piece(
                place,
                title_of(one, content, line),
                content,
                digest(content),
                one.kind,
                one.path,
                line,
                begins,
                ends,
                helpers.classified(content),
                pasted=block_at(one.start, one.end),
            )
        )
    headings = [f"{'#' * one.level} {helpers.preview(one.text)}" for one in found.headings if one.text]
    return Parted(found.title, headings, pieces)


class _BlockAt:
    """Find the pasted block of recalled text that contains a span."""

    def __init__(self, text: str) -> None:
        self._places = recalled_in(text)
        self._blocks = [text[start:end] for start, end in self._places]

    def __call__(self, start: int, end: int) -> str:
        place = bisect_right(self._places, start, key=lambda one: one[0]) - 1
        return self._blocks[place] if place >= 0 and end <= self._places[place][1] else ""


class _LineOf:
    """Map character offsets, given in ascending order, to line numbers."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def __call__(self, character: int) -> int:
        text, at = self._text, self._at
        self._line += text.count("\n", at, character) + _lonely_returns(text, at, character)
        self._at = character
        return self._line


def _lonely_returns(text: str, start: int, end: int) -> int:
    """Count line ends that are a bare carriage return (old Macintosh files)."""
    returns = text.count("\r", start, end)
    return returns - text.count("\r\n", start, end) if returns else 0


def digest(text: str, path: Sequence[str] = ()) -> str:
    """Hash a text, ignoring case and whitespace. A very short text is hashed together with its headings."""
    normalized = " ".join(text.casefold().split())
    where = "" if says_enough(text) else "\n".join(path)
    return sha256(f"{where}\x00{normalized}".encode()).hexdigest()


def says_enough(text: str) -> bool:
    """Whether a text has a meaning without its headings; a few words such as "None." do not."""
    return len(text.split()) >= FEWEST_WORDS or len(text.encode()) >= FEWEST_WORDS * 8


def title_of(segment: Segment, said: str, line: int) -> str:
    """Build a title from the headings above a piece and its first words."""
    lead = lead_of(said) or f"{segment.kind}, line {line}"
    above = helpers.preview(printable(" > ".join(segment.path[-3:])), 2 * LEAD)
    return fitted(f"{above}: {lead}" if above else lead)


def printable(text: str) -> str:
    """Return a text in one line without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def fitted(title: str) -> str:
    """Truncate a title to the byte limit, which leaves room for a distinguishing suffix."""
    if len(encoded := title.encode()) <= LONGEST_TITLE:
        return title
    return encoded[:LONGEST_TITLE].decode(errors="ignore").rstrip() + "…"


def lead_of(text: str) -> str:
    """Return the first words of a text without Markdown formatting."""
    for line in text[: 8 * LEAD].splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            continue
        words = _FORMAT.sub("", _LINKED.sub(r"\1", line.strip("`~#>*|+-= \t")))
        clean = printable(words)
        if any(letter.isalnum() for letter in clean):
            return helpers.preview(clean, LEAD)
    return ""


_LINKED = re.compile(r"!?\[([^\]\n]{1,200}+)\]\([^)\s]{1,400}+\)")
_FORMAT = re.compile(r"\*\*|<!--|-->")


class Near(NamedTuple):
    """A memory that a piece was compared with."""

    memory: Memory
    likeness: Likeness
    cosine: float | None
    overlap: float


MOST_HELPED = 20
"""Segments for which full helper results are reported."""


class Seen:
    """Findings about the pieces, for the report and for model stages."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.counts: Counter[str] = Counter()
        self.near: dict[int, list[MemoryHandle]] = {}
        self.cosines: dict[int, list[tuple[str, str, float | None]]] = {}


def _said(made: Sequence[Made]) -> list[Vector]:
    return [vector for begins, _, vector in made if begins >= 0]


def _united(one: Sequence[Memory], other: Sequence[Memory]) -> list[Memory]:
    return list({memory.id: memory for memory in (*one, *other)}.values())


def _closest(piece: Piece, found: Sequence[Memory]) -> list[Memory]:
    """Return the memories that share most words with a piece. A total order, so that both engines agree."""
    own_words = helpers.tokens(piece.text)
    rank = {one.id: -helpers.jaccard(own_words, helpers.tokens(one.content)) for one in found}
    return sorted(found, key=lambda one: (rank[one.id], one.title, one.id))[:LOOKED_AT]


class Planner:
    """Judge the pieces of one document."""

    def __init__(
        self,
        hold: Hold,
        pipeline: Pipeline,
        namespace: str,
        source_uri: str,
        before: Sequence[Outcome],
        *,
        again: bool,
        private: bool = False,
        keep_seen: bool = False,
    ) -> None:
        self.vectors = Spool()
        """Embeddings of the pieces that will be stored."""
        self.seen = Seen(namespace)
        self.without_vectors: str | None = None
        """Why embeddings are missing, if they were expected."""
        self._hold = hold
        self._pipeline = pipeline
        self._namespace = namespace
        self._source_uri = source_uri
        self._again = again
        self._private = private
        self._keep_seen = keep_seen
        self._known = {one.digest: one for one in before if one.memory is not None and one.digest}
        self._said: set[str] = set()
        """Digests of all pieces of the document."""
        self._still: set[str] = set()
        """Memories of the document that stay unchanged or were already replaced."""
        self._fallen: set[str] = set()
        """Memories that others supersede."""
        self._repeated: dict[str, int] = {}
        self._cited: dict[str, str | None] = {"": None}
        """Per pasted block: the first memory it cites."""
        self._lately: Lately | None = None
        self._held = 0
        self._embedder = hold.embedder if pipeline.searching.vectors else None
        self._until = None if hold.caller.source in LOCAL else monotonic() + REMOTE_SECONDS

    def judged(self, pieces: Collection[Piece]) -> Iterator[Judged]:
        """Judge each piece, in order."""
        digests = {one.digest for one in pieces}
        self._said |= digests
        self._still |= {self._known[digest].memory or "" for digest in digests if digest in self._known}
        remaining, done = iter(pieces), 0
        while batch := list(islice(remaining, BATCH)):
            self._hold.progress(done, len(pieces), "comparing")
            yield from self._batch(batch)
            done += len(batch)

    def _batch(self, pieces: Sequence[Piece]) -> list[Judged]:
        judgements: dict[int, Judged] = {}
        by_words: dict[int, list[Memory]] = {}
        with self._hold.reading() as session:
            live = self._live(session, [self._known[one.digest].memory for one in pieces if one.digest in self._known])
            judgements |= {piece.place: judged for piece in pieces if (judged := self._known_already(piece, live))}
            unknown = [piece for piece in pieces if piece.place not in judgements]
            judgements |= {piece.place: judged for piece in unknown if (judged := self._pasted(session, piece))}
            unknown = [piece for piece in unknown if piece.place not in judgements]
            judgements |= {piece.place: judged for piece in unknown if (judged := self._recalled(session, piece))}
            unknown = [piece for piece in unknown if piece.place not in judgements]
            rare = self._rare(session, unknown) if self._asks_for_words(session) else {}
            for piece in unknown:
                by_words[piece.place] = self._by_words(session, piece, rare.get(piece.place, ()))
                if judged := self._same(piece, by_words[piece.place]):
                    judgements[piece.place] = judged
        left = [piece for piece in pieces if piece.place not in judgements]
        embeddings = self._embedded(left)
        with self._hold.reading() as session:
            close = self._by_vector(session, embeddings)
            for piece in left:
                both = _united(by_words[piece.place], close.get(piece.place, ()))
                near = self._measured(session, piece, both, _said(embeddings.get(piece.place, ())))
                judgements[piece.place] = self._decided(piece, near)
        for piece in left:
            self._keep(piece, judgements[piece.place], embeddings)
        return [judgements[piece.place] for piece in pieces]

    def _live(self, session: Session, ids: Iterable[str | None]) -> set[str]:
        return set(memories.by_ids(session, self._hold.caller, [id for id in ids if id], self._hold.now()))

    def _known_already(self, piece: Piece, live: set[str]) -> Judged | None:
        """Judge a piece that repeats this document or was stored from this source last time."""
        first = self._repeated.setdefault(piece.digest, piece.place)
        if first != piece.place:
            return Judged(piece, "duplicate", "repeats an earlier segment of the document", repeats=first)
        outcome = self._known.get(piece.digest)
        if outcome is None or outcome.memory is None:
            return None
        if outcome.memory in live:
            return Judged(piece, "duplicate", KEPT_BEFORE, outcome.memory)
        if not self._again:
            return Judged(piece, "duplicate", GONE, outcome.memory)
        return None

    def _pasted(self, session: Session, piece: Piece) -> Judged | None:
        """Judge a piece of a pasted block that cites a memory of this store: a duplicate."""
        if piece.pasted not in self._cited:
            cited = pasted(self._hold, session, piece.pasted, self._hold.now())
            self._cited[piece.pasted] = cited[0].id if cited else None
        id = self._cited[piece.pasted]
        return Judged(piece, "duplicate", "pasted from a recall of this store", id) if id else None

    def _recalled(self, session: Session, piece: Piece) -> Judged | None:
        """Judge a piece recalled within the last hour: a duplicate, unless it was recalled from this source."""
        if self._again:
            return None
        if self._lately is None:
            self._lately = Lately(self._hold, session, self._hold.now(), but_from=self._source_uri)
        found = self._lately.repeated(piece.title, piece.text)
        return Judged(piece, "duplicate", "recalled from this store within the last hour", found[0]) if found else None

    def _asks_for_words(self, session: Session) -> bool:
        """Whether to search by rare words too. Not needed if every memory has an embedding, which finds more."""
        if self._embedder is None:
            return True
        mark = vectors.mark(session, self._embedder.model)
        return mark is None or not mark.whole

    def _rare(self, session: Session, pieces: Sequence[Piece]) -> dict[int, list[str]]:
        """Find the rarest stored words of each piece, few enough for a fast lookup."""
        words = {piece.place: sorted(asked(piece.text), key=len)[-LONGEST_WORDS:] for piece in pieces}
        stems = {word: tokens.stems(word) for many in words.values() for word in many}
        held_by = session.holding([stem for many in stems.values() for stem in many], session.newest_row())
        counts = {word: min((held_by.get(stem, 0) for stem in many), default=0) for word, many in stems.items()}
        return {
            place: list(_fitting(sorted((word for word in many if counts[word]), key=counts.__getitem__), counts))
            for place, many in words.items()
        }

    def _by_words(self, session: Session, piece: Piece, rare: Sequence[str]) -> list[Memory]:
        """Find possible duplicates in the namespace by MinHash bands and by rare words."""
        sought = gists.of_text(self._namespace, parse(piece.title, piece.text, "[]"))
        shared = gists.sharing(session, sought)
        same = said_by(self._hold, session, sought, shared, self._hold.now())
        found = self._read(session, [*same[:LOOKED_AT], *shared.near[:LOOKED_AT]])
        if not rare:
            return found
        which, now = Filter(namespace=self._namespace), self._hold.now()
        hits = memories.matching(session, self._hold.caller, rare, which, now, limit=MOST_ROWS)
        return _united(found, _closest(piece, self._read(session, [hit.id for hit in hits])))

    def _read(self, session: Session, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        read = memories.by_ids(session, self._hold.caller, ids, self._hold.now())
        self._fallen |= links.superseded(session, list(read), self._hold.now())
        return [read[id] for id in ids if id in read and read[id].namespace == self._namespace]

    def _same(self, piece: Piece, found: Sequence[Memory]) -> Judged | None:
        for one in found:
            if digest(one.content, one.metadata.get("path", ())) == piece.digest and self._serves(one):
                return Judged(piece, "duplicate", "a memory has the same text", one.id)
        return None

    def _serves(self, memory: Memory) -> bool:
        """Whether a memory can stand in for a new one: not superseded, permanent, and equally visible."""
        return memory.id not in self._fallen and self._lasts(memory)

    def _lasts(self, memory: Memory) -> bool:
        own = self._private and memory.agent == self._hold.caller.agent
        return memory.expires_at is None and (memory.scope != "private" or own)

    def _said_once(self, piece: Piece, memory: Memory) -> bool:
        """Whether a superseded memory of this source has the same text."""
        ours = memory.id in self._fallen and memory.source_uri == self._source_uri and self._lasts(memory)
        return ours and digest(memory.content, memory.metadata.get("path", ())) == piece.digest

    def _embedded(self, pieces: Sequence[Piece]) -> dict[int, list[Made]]:
        """Compute embeddings of pieces as they will be stored; empty if that is not possible now."""
        if self._embedder is not None and self._until is not None and monotonic() > self._until:
            self._embedder, self.without_vectors = None, "time ran out. Embeddings follow in the background."
        if self._embedder is None:
            return {}
        texts = [(piece.place, *text) for piece in pieces for text in embed.texts(piece.title, piece.text)]
        try:
            embeddings = self._made(self._embedder, [text for *_, text in texts])
        except EmbedderFailed as error:
            self._embedder, self.without_vectors = None, error.message
            return {}
        found: dict[int, list[Made]] = {}
        for (place, begins, ends, _), vector in zip(texts, embeddings, strict=True):
            found.setdefault(place, []).append((begins, ends, vector))
        return found

    def _made(self, embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
        embeddings: list[Vector] = []
        for start in range(0, len(texts), embed.TEXTS):
            self._hold.progress.check()
            embeddings += embedder.embed(texts[start : start + embed.TEXTS])
        return embeddings

    def _by_vector(self, session: Session, made: Mapping[int, Sequence[Made]]) -> dict[int, list[Memory]]:
        """Find memories of the namespace with a passage close to the beginning of a piece."""
        first = {place: said[0] for place, many in made.items() if (said := _said(many))}
        if not first or self._embedder is None:
            return {}
        which, now = Filter(namespace=self._namespace), self._hold.now()
        hits = vectors.close(
            session, self._hold.caller, self._embedder.model, [*first.values()], which, now, limit=LOOKED_AT
        )
        read = {one.id: one for one in self._read(session, sorted({id for ids in hits for id in ids}))}
        return {place: [read[id] for id in ids if id in read] for place, ids in zip(first, hits, strict=True)}

    def _measured(self, session: Session, piece: Piece, found: Sequence[Memory], said: Sequence[Vector]) -> list[Near]:
        """Compare the candidates with a piece."""
        found = found[: max(self._pipeline.searching.limit, LOOKED_AT)]
        cosines = self._cosines(session, said, found)
        words = helpers.tokens(piece.text)
        near = [self._near(piece, words, one, cosines.get(one.id)) for one in found]
        self._note(piece, near)
        return near

    def _near(self, piece: Piece, words: frozenset[str], one: Memory, cosine: float | None) -> Near:
        """Compare a memory with a piece. The close comparison is skipped if they share almost nothing."""
        other = helpers.tokens(one.content)
        overlap = helpers.jaccard(words, other)
        if overlap < WORTH_A_LOOK and (cosine or 0.0) < NEARLY and helpers.contained(words, other) < CONTAINED:
            return Near(one, Likeness("other", overlap, "they share too little"), cosine, overlap)
        return Near(one, compare_titled(one.title, one.content, piece.title, piece.text, cosine), cosine, overlap)

    def _cosines(self, session: Session, said: Sequence[Vector], found: Sequence[Memory]) -> dict[str, float]:
        """Compute cosines: the average over the piece's passages of the best match in each memory."""
        if not said or not found or self._embedder is None:
            return {}
        rows = session.vectors([one.id for one in found], self._embedder.model)
        best: dict[str, list[float]] = {}
        for number, vector in enumerate(said):
            for row, cosine in zip(rows, cosines(vector, [row[3] for row in rows]), strict=True):
                mine = best.setdefault(row[0], [-1.0] * len(said))
                mine[number] = max(mine[number], cosine)
        return {id: round(sum(many) / len(many), DIGITS) for id, many in best.items()}

    def _note(self, piece: Piece, near: Sequence[Near]) -> None:
        """Record helper counts, and the candidates of reported pieces."""
        for stage in self._pipeline.stages:
            match stage:
                case Helping(kind="jaccard_overlap", params=params):
                    above = sum(one.overlap >= helpers.OVERLAPS for one in near)
                    self.seen.counts["jaccard_scored"] += len(near)
                    self.seen.counts["jaccard_above"] += min(above, helpers.TOP) if params.compat else above
                case Helping(kind="cosine_pre_filter", params=params):
                    cosines = [one.cosine for one in near if one.cosine is not None]
                    self.seen.counts["cosine_scored"] += len(near)
                    self.seen.counts["cosine_kept"] += sum(one >= params.cosine_threshold for one in cosines)
                    self.seen.counts["cosine_without"] += len(near) - len(cosines)
        if self._keep_seen or piece.place < MOST_HELPED:
            near = sorted(near, key=lambda one: (-one.overlap, one.memory.title, one.memory.id))
            self.seen.near[piece.place] = [MemoryHandle(one.memory.id, one.memory.content) for one in near]
            self.seen.cosines[piece.place] = [(one.memory.id, one.memory.content, one.cosine) for one in near]

    def _decided(self, piece: Piece, near: Sequence[Near]) -> Judged:
        """Judge a piece by its candidates: same text first, then an earlier version in the document, then others."""
        like = [one for one in near if one.likeness.relation != "other"]
        close = [one for one in like if one.likeness.relation not in ("same", "near") or self._serves(one.memory)]
        if not says_enough(piece.text):
            close = [one for one in close if one.memory.metadata.get("path", []) == list(piece.path)]
        for one in close:
            if one.likeness.relation == "same":
                return Judged(piece, "duplicate", one.likeness.reason, one.memory.id)
        own = [one for one in close if one.memory.source_uri == self._source_uri and not self._stays(one.memory)]
        if own:
            best = max(own, key=lambda one: one.likeness.score)
            self._still.add(best.memory.id)
            return Judged(
                piece,
                "update",
                f"replaces an earlier version in the document: {best.likeness.reason}",
                best.memory.id,
                replaces=True,
                back=next((one.memory.id for one in like if self._said_once(piece, one.memory)), None),
            )
        others = [one for one in close if one.memory.source_uri != self._source_uri]
        if not others:
            only = any(one.likeness.relation == "same" and not self._serves(one.memory) for one in like)
            return Judged(piece, "new", "existing copies are temporary, private or superseded" if only else NOTHING)
        best = max(others, key=lambda one: one.likeness.score)
        return Judged(piece, _DECISIONS[best.likeness.relation], best.likeness.reason, best.memory.id)

    def _stays(self, memory: Memory) -> bool:
        """Whether the document still contains the text of a memory, or another piece already replaced it."""
        if memory.id in self._still or memory.id in self._fallen:
            return True
        return digest(memory.content, memory.metadata.get("path", ())) in self._said

    def _keep(self, piece: Piece, judged: Judged, made: dict[int, list[Made]]) -> None:
        """Keep embeddings of a piece that will be stored, up to the limit and while the disk has room."""
        many = made.get(piece.place, [])
        if not many or judged.decision not in ("new", "update", "conflict") or self._held + len(many) > MOST_VECTORS:
            return
        try:
            self.vectors[piece.place] = many
            self._held += len(many)
        except OSError:
            self._held = MOST_VECTORS


def _fitting(words: Iterable[str], held: Mapping[str, int]) -> Iterator[str]:
    """Yield words while few memories contain them in total; at least one."""
    rows = 0
    for number, word in enumerate(words):
        rows += held[word]
        if number and (number == FEW_WORDS or rows > FEW_ROWS):
            return
        yield word


_DECISIONS: dict[str, Decision] = {"near": "near-duplicate", "update": "update", "conflict": "conflict"}
