"""Store a memory: filter secrets, validate, deduplicate, write. Durable, searchable and journalled on return."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import passage_vectors
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import check_scope_change
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, HoldfastError, StoreError, TitleTaken
from holdfast.kernel.journal.kinds import MEMORY, load_memory, search_columns
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, TIERS, Memory, OnConflict, Tier, higher_tier
from holdfast.kernel.records.validate import Draft, check_memory, declared_scope, memory_from_draft
from holdfast.kernel.storage.index_terms import MAX_PER_BAND, HashMatches, find_matches, memory_hashes
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Relation, Similarity, compare_titled, have_distinct_subjects, normalize_text
from holdfast.kernel.vector import Embedding

Suggestion = Literal["restates", "merge", "supersede", "contradicts"]

MAX_COMPARED = 6
"""Candidates that are read and compared; at most MAX_SIMILAR of them are returned."""
MAX_SIMILAR = 3
MIN_WORDS = 8
"""Shorter texts are never duplicates: they may match by chance, and their title carries the meaning."""
READ_BATCH = 32
"""Memories with identical text that are read per query."""

_RELATION_ORDER: dict[Relation, int] = {"same": 0, "near": 1, "update": 2, "conflict": 3, "other": 4}
_SUGGESTIONS: dict[Relation, Suggestion] = {
    "same": "restates",
    "near": "merge",
    "update": "supersede",
    "conflict": "contradicts",
}
MAX_VERSIONS = 1024

GIVEN_FIELDS = {"confidence", *MEMORY_MERGE_SCHEMA.conflict_fields} - {"namespace", "title", "content", "state"}
"""Fields that a merge changes only if they were given."""
Outcome = Literal["created", "merged", "unchanged", "restated", "recalled"]
"""created, merged, unchanged (same title and text), restated (another title), recalled (echo of a recent recall)."""


class Similar(NamedTuple):
    """A memory that repeats, updates or contradicts another text on the same subject."""

    memory: Memory
    likeness: Similarity

    @property
    def suggestion(self) -> Suggestion:
        """The suggested action; a text composed of several memories restates each of them."""
        return _SUGGESTIONS.get(self.likeness.relation, "restates")


class DedupResult(NamedTuple):
    """Whether a new text is a duplicate or an echo, and the memories similar to it."""

    outcome: Literal["restated", "recalled"] | None = None
    similar: tuple[Similar, ...] = ()


class SecretsFound(NamedTuple):
    """The kinds of secrets found in a text, and whether they were redacted."""

    kinds: tuple[str, ...] = ()
    redacted: bool = False


class RememberResult(NamedTuple):
    """The outcome of storing a draft. For a duplicate, `memory` is the existing one."""

    memory: Memory
    outcome: Outcome
    similar: tuple[Similar, ...] = ()
    """Similar memories; for an echo, every memory it repeats."""
    secrets: SecretsFound = SecretsFound()
    """The secrets found in the draft."""


def remember(
    ctx: Context,
    draft: Draft,
    on_conflict: OnConflict = "merge",
    embedding: Embedding | None = None,
    *,
    force: bool = False,
) -> RememberResult:
    """Store one memory. `on_conflict` decides whether a taken title is an error, a merge or a numbered copy."""
    with ctx.transaction() as write:
        return store_draft(ctx, write, draft, on_conflict, embedding, force=force)


def remember_all(
    ctx: Context, drafts: Sequence[Callable[[], tuple[Draft, OnConflict, Embedding | None, bool]]]
) -> list[RememberResult | HoldfastError]:
    """Store many memories in one transaction; each succeeds or fails on its own."""
    outcomes: list[RememberResult | HoldfastError] = []
    with ctx.transaction() as write:
        for number, build_draft in enumerate(drafts):
            ctx.progress(number, len(drafts), "storing")
            try:
                draft, on_conflict, embedding, force = build_draft()
                outcomes.append(store_draft(ctx, write, draft, on_conflict, embedding, force=force))
            except StoreError:
                raise
            except HoldfastError as error:
                outcomes.append(error)
    return outcomes


def store_draft(
    ctx: Context,
    write: Transaction,
    draft: Draft,
    on_conflict: OnConflict,
    embedding: Embedding | None = None,
    *,
    force: bool = False,
    imported: bool = False,
) -> RememberResult:
    """Store one memory inside a transaction. Raises before it writes, so a rejected item leaves no trace.

    A duplicate is counted instead of stored unless forced. The secret policy cannot be overridden; imported drafts
    have passed it already.
    """
    if embedding is not None:
        passage_vectors.check_model_dimension(write.session, embedding)
    draft, secrets = (draft, SecretsFound()) if imported else filter_draft_secrets(write.session, draft)
    memory = _build_memory(ctx, write, draft, imported=imported)
    holder = find_title_holder(write, memory.namespace, memory.title)
    if holder is None:
        result = _store_new(ctx, write, memory, force=force or imported)
    else:
        result = _store_under_taken_title(ctx, write, draft, memory, holder, on_conflict, force=force or imported)
    if embedding is not None and result.outcome not in ("restated", "recalled"):
        passage_vectors.put_embedding(write.session, result.memory, embedding, write.now)
    return result._replace(secrets=secrets) if secrets.kinds else result


def _build_memory(ctx: Context, write: Transaction, draft: Draft, *, imported: bool) -> Memory:
    """Validate a draft and build its memory."""
    memory = memory_from_draft(
        draft,
        id=ctx.new_id(),
        agent=ctx.caller.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=ctx.lifetimes,
        default_tier=ctx.default_tier,
        imported=imported,
    )
    ctx.caller.require_access(memory.namespace)
    return memory


def _store_under_taken_title(
    ctx: Context,
    write: Transaction,
    draft: Draft,
    memory: Memory,
    holder: Memory,
    on_conflict: OnConflict,
    *,
    force: bool,
) -> RememberResult:
    """Merge a memory into the one that has its title, store it under a numbered title, or raise TitleTaken."""
    if on_conflict == "version":
        return RememberResult(write.add(MEMORY, replace(memory, title=_free_title(write, memory)), "store"), "created")
    if not memories.can_write(write.session, ctx.caller, holder.id):
        raise TitleTaken(f"The title {memory.title!r} is taken in {memory.namespace!r}.")
    if on_conflict == "error":
        raise TitleTaken(
            f"The title {memory.title!r} is taken in {memory.namespace!r} by {holder.id}: "
            "update that one, or store with on_conflict merge or version.",
            existing_id=holder.id,
        )
    merged = _merge(ctx, holder, draft, memory)
    check_scope_change(ctx, write, holder, merged)
    if not force and is_same_text(holder, memory):
        increment_duplicate_count(write, holder)
    merged = write.change(MEMORY, holder, merged, "merge")
    return RememberResult(merged, "unchanged" if merged.version == holder.version else "merged")


def _store_new(ctx: Context, write: Transaction, memory: Memory, *, force: bool) -> RememberResult:
    """Store a memory under a free title, unless it duplicates an existing one."""
    seen = DedupResult() if force else find_duplicates(ctx, write, memory)
    if seen.outcome is None:
        return RememberResult(write.add(MEMORY, memory, "store"), "created", seen.similar)
    existing = seen.similar[0].memory
    record_duplicate(write, existing, memory)
    return RememberResult(existing, seen.outcome, seen.similar)


def find_title_holder(write: Transaction, namespace: str, title: str) -> Memory | None:
    """Find the memory with a title. If it has expired, release the title and return None."""
    row = write.session.row("memory_by_title", namespace=namespace, title=title)
    holder = None if row is None else load_memory(row)
    if holder is None or holder.expires_at is None:
        return holder
    expired = write.session.row("memory_has_expired", id=holder.id, now=write.now)
    if expired is None:
        return holder
    write.session.do("memory_collect_one", id=holder.id, now=write.now)
    write.expire([holder.id])
    return None


def require_free_title(ctx: Context, write: Transaction, memory: Memory) -> None:
    """Raise if another memory has this title; the error names it only if the caller may see it."""
    holder = find_title_holder(write, memory.namespace, memory.title)
    if holder is None or holder.id == memory.id:
        return
    message = f"The title {memory.title!r} is taken in {memory.namespace!r}"
    if memories.by_ids(write.session, ctx.caller, [holder.id], write.now):
        raise TitleTaken(f"{message} by {holder.id}.", existing_id=holder.id)
    raise TitleTaken(f"{message}.")


def number_title(title: str, number: int) -> str:
    """Append a number to a title, truncating the title if needed."""
    ending = f" ({number})"
    room = validate.MAX_BYTES["title"] - len(ending)
    return validate.title(title.encode()[:room].decode(errors="ignore") + ending)


def _free_title(write: Transaction, memory: Memory) -> str:
    for number in range(2, MAX_VERSIONS + 1):
        title = number_title(memory.title, number)
        if find_title_holder(write, memory.namespace, title) is None:
            return title
    raise Conflict(f"{memory.title!r} already has {MAX_VERSIONS} versions: choose another title.")


def _merge(ctx: Context, holder: Memory, draft: Draft, admitted: Memory) -> Memory:
    """Merge a new memory into the one that has its title.

    The content is replaced, tags are united, metadata merge by key; tier, priority and expiry only increase; other
    fields change if given. Owner and source stay.
    """
    given = {
        name: getattr(admitted, name)
        for name in GIVEN_FIELDS
        if getattr(draft, name) is not UNSET or (name == "scope" and declared_scope(draft.metadata))
    }
    tier = higher_tier(holder.tier, admitted.tier) if draft.tier is not UNSET else holder.tier
    merged = replace(
        holder,
        content=admitted.content,
        tags=validate.tags((*holder.tags, *admitted.tags)),
        metadata=validate.metadata({**holder.metadata, **admitted.metadata}),
        priority=holder.priority if draft.priority is UNSET else max(holder.priority, admitted.priority),
        tier=tier,
        expires_at=_merged_expiry(ctx, holder, draft, admitted, tier),
        **given,
    )
    return check_memory(merged)


def _merged_expiry(ctx: Context, holder: Memory, draft: Draft, admitted: Memory, tier: Tier) -> int | None:
    """The given expiry, or the tier's, but never earlier than the current one."""
    if holder.expires_at is None:
        return None
    given = draft.ttl_secs is not None or draft.expires_at is not UNSET
    end = admitted.expires_at if given else ctx.lifetimes.expiry(tier, admitted.created_at)
    return None if end is None else max(holder.expires_at, end)


def find_duplicates(ctx: Context, write: Transaction, draft: Memory) -> DedupResult:
    """Check a new memory against the visible ones: exact duplicates, near-duplicates, then echoes of recalls."""
    if draft.kind == "conversation":
        return DedupResult()
    numbers = memory_hashes(draft, search_columns(draft)["index_terms"])
    shared = find_matches(write.session, numbers)
    same = find_same_text_ids(ctx, write.session, numbers, shared, write.now)
    if duplicate := _find_exact_duplicate(ctx, write, draft, same):
        return DedupResult("restated", (duplicate,))
    near = _find_near_duplicates(ctx, write, draft, [*same[:MAX_COMPARED], *shared.near])
    for one in near:
        if one.likeness.relation == "same" and _adds_nothing(one.memory, draft):
            return DedupResult("restated", (one,))
    echoed = [one for find in _ECHO_FINDERS for one in find(ctx, write, draft)] if _may_be_echo(draft.content) else []
    if echoed:
        return DedupResult("recalled", tuple(Similar(one, _compare(one, draft)) for one in echoed))
    return DedupResult(None, tuple(near[:MAX_SIMILAR]))


def _may_be_echo(text: str) -> bool:
    """Whether a text could be an echo: a short one without a pasted block never is."""
    return len(text.split()) >= MIN_WORDS or "</" in text or not text.isascii()


def record_duplicate(write: Transaction, existing: Memory, repeated: Memory) -> None:
    """Count a duplicate and extend the existing memory to the later of both expiry times."""
    increment_duplicate_count(write, existing)
    if (
        existing.expires_at is not None
        and repeated.expires_at is not None
        and repeated.expires_at > existing.expires_at
    ):
        write.session.do("memory_access_add", memory=existing.id, origin=write.origin, uses=0, used_at=write.now)
        write.session.do("memory_extend", id=existing.id, until=repeated.expires_at)


def is_same_text(old: Memory, new: Memory) -> bool:
    """Whether title and content are identical, whatever the length of the text."""
    return new.kind != "conversation" and (old.title, old.content) == (new.title, new.content)


def increment_duplicate_count(write: Transaction, existing: Memory) -> None:
    """Increment the duplicate count of a memory."""
    write.session.do("duplicate_count_add", memory=existing.id, now=write.now)


def get_duplicate_count(ctx: Context, id: str) -> int:
    """How often a duplicate of a memory was stored."""
    with ctx.reading() as session:
        return next((int(row[1]) for row in session.rows("duplicate_count_of", ids=[id])), 0)


def find_same_text_ids(
    ctx: Context, session: Session, numbers: Sequence[int], shared: HashMatches, now: int
) -> list[str]:
    """Ids of memories with identical text, oldest first; if there are many, all that the caller may see."""
    if len(shared.identical) < MAX_PER_BAND:
        return shared.identical
    return memories.list_same_text(session, ctx.caller, numbers, now)


def _find_exact_duplicate(ctx: Context, write: Transaction, memory: Memory, same: Sequence[str]) -> Similar | None:
    """Find the memory with identical text to which the new one adds nothing."""
    for start in range(0, len(same), READ_BATCH):
        read = memories.by_ids(write.session, ctx.caller, same[start : start + READ_BATCH], write.now)
        for _, old in sorted(read.items()):
            if _adds_nothing(old, memory) and (like := _compare(old, memory)).relation == "same":
                return Similar(old, like)
    return None


def _find_near_duplicates(ctx: Context, write: Transaction, memory: Memory, ids: Sequence[str]) -> list[Similar]:
    """Read the first few visible candidates and compare them, best first."""
    found: dict[str, Memory] = {}
    for start in range(0, len(ids), MAX_COMPARED):
        found |= memories.by_ids(write.session, ctx.caller, ids[start : start + MAX_COMPARED], write.now)
        if len(found) >= MAX_COMPARED:
            break
    return sort_related([Similar(found[id], _compare(found[id], memory)) for id in ids if id in found][:MAX_COMPARED])


def _compare(old: Memory, new: Memory) -> Similarity:
    return compare_titled(old.title, old.content, new.title, new.content)


def sort_related(found: list[Similar]) -> list[Similar]:
    near = [one for one in found if one.likeness.relation != "other"]
    return sorted(near, key=lambda one: (_RELATION_ORDER[one.likeness.relation], -one.likeness.score, one.memory.id))


def _adds_nothing(old: Memory, new: Memory) -> bool:
    """Whether a new memory adds nothing to an old one: no text, no metadata, no wider scope, no later expiry."""
    words = normalize_text(new.content)
    return (
        len(words.split()) >= MIN_WORDS
        and words == normalize_text(old.content)
        and not _has_distinct_title(old, new)
        and (old.scope, old.kind, old.category) == (new.scope, new.kind, new.category)
        and (old.scope != "private" or old.agent == new.agent)
        and (old.expires_at is None or (new.expires_at is not None and TIERS.index(new.tier) <= TIERS.index(old.tier)))
        and {*new.tags} <= {*old.tags}
        and {*new.citations} <= {*old.citations}
        and all(old.metadata.get(name, UNSET) == value for name, value in new.metadata.items())
        and all(getattr(new, name) in (None, getattr(old, name)) for name in _COMPARED_FIELDS)
    )


def _has_distinct_title(old: Memory, new: Memory) -> bool:
    """Whether two titles differ in meaning, not only in case and spaces."""
    return normalize_text(old.title) != normalize_text(new.title) and have_distinct_subjects(
        old.title, new.title, old.content, strict=False
    )


_COMPARED_FIELDS = (
    "source_uri",
    "source_span",
    "valid_from",
    "valid_until",
    "speaker",
    "occurred_at",
    "thread",
    "place",
)


# Checks of other features

TEXT_FIELDS = ("title", "content", "tags", "metadata", "citations", "source_uri", "speaker", "thread")

FieldFilter = Callable[[Session, str, dict[str, Any]], tuple[dict[str, Any], SecretsFound]]
"""Returns the fields to write in a namespace, and the secrets in them; raises if they must not be written."""
EchoFinder = Callable[[Context, Transaction, Memory], list[Memory]]
"""Returns the memories that a new one only repeats, because its agent recalled them."""
PlaceCheck = Callable[[Session, Memory], None]
"""Raises if the namespace of a memory does not allow it."""

_FIELD_FILTERS: list[FieldFilter] = []
_ECHO_FINDERS: list[EchoFinder] = []
_PLACE_CHECKS: list[PlaceCheck] = []


def register_field_filter(field_filter: FieldFilter) -> None:
    """Register a filter of the fields of records before they are written."""
    _FIELD_FILTERS.append(field_filter)


def register_echo_finder(echo_finder: EchoFinder) -> None:
    """Register a search for the memories that a new one repeats."""
    _ECHO_FINDERS.append(echo_finder)


def register_place_check(place_check: PlaceCheck) -> None:
    """Register a check of memories that come into another namespace."""
    _PLACE_CHECKS.append(place_check)


def filter_secrets(session: Session, namespace: str, fields: dict[str, Any]) -> tuple[dict[str, Any], SecretsFound]:
    """Run the registered filters on fields before they are written; return them with the secrets found."""
    secrets = SecretsFound()
    for filter_fields in _FIELD_FILTERS:
        fields, found = filter_fields(session, namespace, fields)
        secrets = SecretsFound((*secrets.kinds, *found.kinds), secrets.redacted or found.redacted)
    return fields, secrets


def check_place(session: Session, memory: Memory) -> None:
    """Raise if the namespace of a memory does not allow it."""
    for check in _PLACE_CHECKS:
        check(session, memory)


def filter_draft_secrets(session: Session, draft: Draft) -> tuple[Draft, SecretsFound]:
    """Apply the namespace's secret policy to a draft; return it with the secrets found."""
    given = {name: value for name in TEXT_FIELDS if (value := getattr(draft, name)) is not UNSET and value}
    clean, found = filter_secrets(session, draft.namespace, given)
    return replace(draft, **clean) if found.redacted else draft, found


def filter_memory_secrets(session: Session, memory: Memory) -> Memory:
    """Apply the namespace's secret policy to a memory from another store or namespace."""
    given = {name: value for name in (*TEXT_FIELDS, "reason", "extra") if (value := getattr(memory, name))}
    clean, found = filter_secrets(session, memory.namespace, given)
    if not found.redacted:
        return memory
    return replace(
        memory, **clean | {"title": validate.title(clean["title"]), "content": validate.content(clean["content"])}
    )
