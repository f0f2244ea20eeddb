"""Register, find, read, roll back, delete and promote skills."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.graph import read_links as links
from holdfast.features.graph.read_links import LinkFilter
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.recall.features import Candidate, Passage, Scope
from holdfast.features.recall.ranking import rank_candidates
from holdfast.features.skills import file_contents, reflection_store, skill_md
from holdfast.features.skills import read_skills as skill_store
from holdfast.features.skills.files import Draft, validate_files
from holdfast.features.skills.model import (
    REFLECTION_ID_KEY,
    SKILL,
    SKILL_VERSION,
    File,
    Outcome,
    Skill,
    SkillVersion,
    StaleReason,
    build_file,
    compute_digest,
    is_manifest,
    signed_text,
    skill_id,
    version_id,
)
from holdfast.features.skills.read_skills import SkillEntry
from holdfast.features.skills.skill_md import SkillManifest
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound, SecretRefused
from holdfast.kernel.journal.kinds import body_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import query_words
from holdfast.kernel.timestamps import Time, format_timestamp

MAX_RANKED = 5000
"""Skills that a query ranks."""
MAX_SOURCES = 100
MAX_CHANGES = 1000
MAX_VERSIONS = 1_000_000


class RegisterResult(NamedTuple):
    entry: SkillEntry
    outcome: Outcome
    superseded_id: str | None
    """Id of the version that was current before."""


def register(ctx: Context, draft: Draft, namespace: str | None = None) -> RegisterResult:
    """Store a signed skill version and make it current; a version that is already stored is reused."""
    files = validate_files(draft.files.items())
    version = build_version(files, draft.folder, namespace, default=ctx.namespace)
    ctx.caller.require_access(version.namespace)
    contents = {file.digest: files[file.path] for file in version.files}
    with ctx.transaction() as write:
        reject_secrets(write.session, version.namespace, files)
        times = {"created_at": write.now, "updated_at": write.now, "origin": write.origin}
        return _save_skill(write, ensure_signed(write, replace(version, agent=ctx.caller.agent, **times)), contents)


def build_version(
    files: Mapping[str, bytes], folder: str | None, namespace: str | None, name: str | None = None, default: str = ""
) -> SkillVersion:
    """Build a skill version from files. The caller fills in agent, times and origin."""
    written = parse_manifest(files, folder)
    place = _resolve_namespace(written, namespace, default)
    if name not in (None, written.name):
        raise Invalid(f"name: SKILL.md has {written.name!r}", fields=["name"])
    file_entries = tuple(build_file(path, files[path]) for path in sorted(files))
    digest = compute_digest(place, written.frontmatter, file_entries)
    return SkillVersion(
        id=version_id(digest),
        skill=skill_id(place, written.name),
        namespace=place,
        name=written.name,
        description=written.description,
        frontmatter=written.frontmatter,
        composes=written.composes,
        files=file_entries,
        digest=digest,
        signature="",
        agent="",
        created_at=0,
        updated_at=0,
        origin="",
        version=1,
    )


def reject_secrets(session: Session, namespace: str, files: Mapping[str, bytes]) -> None:
    """Raise if the files contain secrets and the namespace rejects or redacts them: signed files cannot be redacted."""
    texts = {path: content.decode("utf-8", "replace") for path, content in files.items()}
    if store_memory.filter_secrets(session, namespace, {"files": texts})[1].redacted:
        raise SecretRefused("files: they contain keys or passwords, which this namespace does not accept. Remove them.")


def ensure_signed(write: Transaction, version: SkillVersion) -> SkillVersion:
    """Sign the version if it is unsigned; raise if its signature is not that of the known node it names."""
    if not version.signature:
        return replace(version, signature=write.sign(signed_text(version.digest)), origin=write.origin)
    if file_contents.is_forged(write.session, version):
        raise Invalid("signature: does not match the node named in `origin`", fields=["signature"])
    return version


def parse_manifest(files: Mapping[str, bytes], folder: str | None = None) -> SkillManifest:
    """Parse the SKILL.md among the files."""
    manifest = next((content for path, content in files.items() if is_manifest(path)), None)
    if manifest is None:
        raise Invalid("files: SKILL.md is missing", fields=["files"])
    return skill_md.parse_skill_md(manifest, folder)


def _resolve_namespace(written: SkillManifest, asked_for: str | None, default: str) -> str:
    """Return the namespace of SKILL.md, else the requested one, else the default."""
    requested = None if asked_for is None else validate.namespace(asked_for)
    if requested is not None and written.namespace not in (None, requested):
        raise Invalid(f"namespace: SKILL.md has {written.namespace!r}, not {requested!r}", fields=["namespace"])
    return written.namespace or requested or validate.namespace(default)


def _save_skill(write: Transaction, version: SkillVersion, contents: Mapping[str, bytes]) -> RegisterResult:
    skill, existing = write.get(SKILL, version.skill), write.get(SKILL_VERSION, version.id)
    if existing is None or existing.state == "deleted":
        file_contents.store_contents(write.session, contents)
        existing = save_version(write, existing, version)
        outcome: Outcome = "registered" if skill is None or skill.state == "deleted" else "superseded"
    else:
        outcome = "restored"
    if skill is None:
        fresh = Skill(
            id=version.skill,
            namespace=version.namespace,
            name=version.name,
            current=existing.id,
            agent=version.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        return RegisterResult(SkillEntry(existing, write.add(SKILL, fresh, "register")), outcome, None)
    before = skill.current if skill.state == "live" and skill.current != existing.id else None
    after = write.change(SKILL, skill, replace(skill, current=existing.id, state="live"), "register")
    return RegisterResult(SkillEntry(existing, after), "unchanged" if after is skill else outcome, before)


def save_version(
    write: Transaction, purged: SkillVersion | None, version: SkillVersion, op: str = "register"
) -> SkillVersion:
    """Store a new version, or restore one that was purged."""
    if purged is None:
        return write.add(SKILL_VERSION, version, op)
    restored = replace(
        version, agent=purged.agent, created_at=purged.created_at, origin=purged.origin, signature=purged.signature
    )
    return write.change(SKILL_VERSION, purged, replace(restored, version=purged.version, updated_at=0), op)


def get(ctx: Context, session: Session, id: str) -> SkillEntry:
    """Return the version with this id or name."""
    return skill_store.resolve(session, ctx.caller, id)


def read_body(session: Session, version: SkillVersion) -> str:
    """Return the text of SKILL.md below the frontmatter."""
    return _parse_body(file_contents.read_content(session, version.manifest))


@lru_cache(8)
def _parse_body(manifest: bytes) -> str:
    """Cached: the same skills are read repeatedly."""
    return skill_md.parse_skill_md(manifest).body


def read_files(session: Session, version: SkillVersion) -> dict[str, bytes]:
    """Return every file, byte for byte as registered."""
    return {file.path: file_contents.read_content(session, file) for file in version.files}


def known_files(ctx: Context, session: Session, skill: Skill) -> set[File]:
    """Return every file of every version of a skill."""
    versions = skill_store.list_versions(session, ctx.caller, skill, limit=MAX_VERSIONS)
    return {file for version in versions for file in version.files}


def read_resource(ctx: Context, session: Session, id: str, path: str) -> tuple[SkillEntry, bytes]:
    """Return one file of a skill with its version."""
    entry = get(ctx, session, id)
    file = entry.version.find_file(path)
    if file is None:
        raise NotFound(f"The skill {entry.version.name!r} has no file {path!r}.", id=entry.version.id, path=path)
    return entry, file_contents.read_content(session, file)


def list_skills(
    ctx: Context, session: Session, under: str | None, query: str | None, *, limit: int
) -> tuple[list[SkillEntry], int]:
    """List current skills by name, or those that match a query, best first; also return the number of all skills."""
    under = None if under is None else validate.namespace(under)
    total = skill_store.count_skills(session, ctx.caller, under)
    if query is None:
        return skill_store.list_current(session, ctx.caller, under, limit=limit), total
    among = skill_store.list_current(session, ctx.caller, under, limit=MAX_RANKED)
    return _rank_skills(among, query, ctx.now())[:limit], total


def _rank_skills(among: list[SkillEntry], query: str, now: int) -> list[SkillEntry]:
    """Rank by the words of name and description; rare words weigh more, a name counts like a title."""
    stems = index_terms.stems(" ".join(query_words(query)))
    entries_by_id = {one.version.id: one for one in among}
    words = {id: _count_stems(one.version, stems, index_terms.index_tokens) for id, one in entries_by_id.items()}
    document_counts = {stem: sum(stem in found[0] or stem in found[1] for found in words.values()) for stem in stems}
    lengths = [length for _, _, length in words.values()]
    scope = Scope(len(among), sum(lengths) / (len(lengths) or 1), document_counts, {})
    candidates = [
        Candidate(id, [Passage(0, 0, body)], length, labels=name, updated_at=entries_by_id[id].skill.updated_at)
        for id, (name, body, length) in words.items()
        if name or body
    ]
    return [entries_by_id[one.id] for one in rank_candidates(candidates, [], stems, scope, now)]


def _count_stems(
    version: SkillVersion, stems: list[str], found_by: Callable[[str], list[str]]
) -> tuple[dict[str, int], dict[str, int], int]:
    """Count each query stem in the name and in the description; also return the description's length."""
    name, body = found_by(version.name.replace("-", " ")), found_by(version.description)
    counts = [{stem: text.count(stem) for stem in stems if stem in text} for text in (name, body)]
    return counts[0], counts[1], len(body)


def rollback(ctx: Context, id: str, to: str | None = None) -> tuple[SkillEntry, str]:
    """Make another version current, the given one or the one before; also return the id of the one it replaces."""
    with ctx.transaction() as write:
        entry = skill_store.resolve(write.session, ctx.caller, id)
        skill, target = entry.skill, _rollback_target(ctx, write.session, entry, id, to)
        if target.id == skill.current:
            raise _already_current_error(skill)
        after = write.change(SKILL, skill, replace(skill, current=target.id), "rollback")
        return SkillEntry(target, after), skill.current


def _rollback_target(ctx: Context, session: Session, entry: SkillEntry, id: str, to: str | None) -> SkillVersion:
    if to is not None:
        return _resolve_version(ctx, session, entry.skill, to)
    by_name = id in (entry.skill.name, f"{entry.skill.namespace}/{entry.skill.name}")
    return _previous_version(ctx, session, entry.skill) if by_name else entry.version


def _already_current_error(skill: Skill) -> Conflict:
    place = f"{skill.namespace}/{skill.name}"
    return Conflict(
        f"{skill.current} is already the current version of {place}. Run `skill rollback {place}` for the version "
        f"before it, or `skill rollback VERSION_ID` for one that `skill history {place}` lists.",
        id=skill.current,
    )


def _previous_version(ctx: Context, session: Session, skill: Skill) -> SkillVersion:
    """Return the previously current version from the journal; repeated rollbacks go further back."""
    versions = skill_store.list_versions(session, ctx.caller, skill, limit=MAX_VERSIONS)
    usable = {version.id: version for version in versions if version.state == "live"}
    entries = reversed(skill_store.list_changes(session, skill, limit=MAX_CHANGES))
    before = [id for id in _trace_versions((one.op, body_of(SKILL, one).current) for one in entries) if id in usable]
    while before and before[-1] == skill.current:
        before.pop()
    if not before:
        raise NotFound(
            f"{skill.name!r} has no earlier version. Choose one from `skill history`: `skill rollback VERSION_ID`.",
            id=skill.current,
        )
    return usable[before[-1]]


def _trace_versions(changes: Iterable[tuple[str, str]]) -> list[str]:
    """Return the versions that led to the current one, oldest first; a rollback removes the version it left."""
    course: list[str] = []
    for op, current in changes:
        if op == "rollback" and course[-2:-1] == [current]:
            course.pop()
        elif course[-1:] != [current]:
            course.append(current)
    return course


def _resolve_version(ctx: Context, session: Session, skill: Skill, to: str) -> SkillVersion:
    version = skill_store.resolve(session, ctx.caller, to).version
    if version.skill != skill.id:
        raise Invalid(f"version: {to!r} belongs to {version.namespace}/{version.name}", fields=["version"])
    return version


def delete(ctx: Context, id: str, *, purge: bool = False) -> SkillEntry:
    """Delete a skill; its versions and history stay, and registering it again restores it.

    A purge also erases the content of all versions, from the history too; only their digests remain.
    """
    with ctx.transaction() as write:
        entry = skill_store.resolve(write.session, ctx.caller, id, deleted_too=purge)
        deleted = write.change(SKILL, entry.skill, replace(entry.skill, state="deleted"), "delete")
        if purge:
            _purge_versions(ctx, write, deleted)
        return SkillEntry(entry.version, deleted)


def _purge_versions(ctx: Context, write: Transaction, skill: Skill) -> None:
    versions = [
        one for one in skill_store.list_versions(write.session, ctx.caller, skill, limit=MAX_VERSIONS) if one.files
    ]
    for version in versions:
        write.purge(SKILL_VERSION, version)
    file_contents.purge_contents(write.session, {file.digest for version in versions for file in version.files})


class SkillChange(Struct, frozen=True, kw_only=True):
    """A change of the current version, or the deletion of the skill."""

    change: int
    op: str
    id: str
    actor: str
    at: Time
    state: str


def history(
    ctx: Context, session: Session, id: str, *, limit: int
) -> tuple[Skill, list[SkillVersion], list[SkillChange]]:
    """List a skill's versions and when each was current, newest first; works for deleted skills too."""
    skill = skill_store.resolve(session, ctx.caller, id, deleted_too=True).skill
    entries = skill_store.list_changes(session, skill, limit=limit)
    changes = [
        SkillChange(change=one.seq, op=one.op, id=body.current, actor=one.actor, at=one.recorded_at, state=body.state)
        for one in entries
        for body in (body_of(SKILL, one),)
    ]
    return skill, skill_store.list_versions(session, ctx.caller, skill, limit=limit), changes


# Promotion from a reflection


class PromoteResult(NamedTuple):
    registration: RegisterResult
    reflection: Memory
    attached: int
    left_out: int
    """Sources that are gone or private."""


def promote(ctx: Context, reflection_id: str, name: str, description: str, schema: Any = None) -> PromoteResult:
    """Create a skill from a reflection that is deep enough, with its sources as reference files."""
    now = ctx.now()
    with ctx.reading() as session:
        reflection = memories.resolve(session, ctx.caller, reflection_id, now)
        _check_promotable(session, reflection)
        _check_still_valid(ctx, session, reflection)
        edges = links.list_outgoing(
            session,
            ctx.caller,
            [reflection.id],
            LinkFilter(relations=("reflects_on",), view=None),
            now,
            limit=MAX_SOURCES,
        )
        visible = memories.by_ids(session, ctx.caller, [edge.id for edge in edges], now)
    sources = sorted((one for one in visible.values() if one.scope != "private"), key=lambda source: source.id)
    files = {f"references/source_{number}.md": _build_source_file(source) for number, source in enumerate(sources, 1)}
    files["SKILL.md"] = _build_manifest(reflection, name, description, schema, sources)
    registered = register(ctx, Draft(files), reflection.namespace)
    return PromoteResult(registered, reflection, len(sources), len(edges) - len(sources))


def _check_promotable(session: Session, reflection: Memory) -> None:
    if reflection.kind != "reflection":
        raise Invalid(f"reflection_id: {reflection.id} is not a reflection", fields=["reflection_id"])
    if reflection.scope == "private":
        raise Forbidden(
            "reflection_id: the reflection is private, but a skill is visible to everyone who reaches its namespace."
        )
    least = resolve_rules(session, reflection.namespace).skill_promotion_min_depth
    if reflection.reflection_depth < least:
        raise Conflict(
            f"The reflection {reflection.id} has depth {reflection.reflection_depth}; in "
            f"{reflection.namespace!r} a skill needs depth {least} or more (policy skill_promotion_min_depth).",
            depth=reflection.reflection_depth,
            min_depth=least,
        )


def _check_still_valid(ctx: Context, session: Session, reflection: Memory) -> None:
    fault = reflection_store.read_faults(session, ctx.caller, [reflection.id], ctx.now())[reflection.id]
    if fault:
        raise Conflict(
            f"The reflection {reflection.id} is not valid now ({fault}). Resolve that first, or promote a valid one.",
            id=reflection.id,
            reason=fault,
        )


class Staleness(Struct, frozen=True):
    """Why the reflection behind a skill is no longer valid."""

    reason: StaleReason
    reflection_id: str | None = None
    """Missing if you may not see it."""


def find_stale(ctx: Context, session: Session, versions: Iterable[SkillVersion]) -> dict[str, Staleness]:
    """Return, by version id, the versions whose reflection is no longer valid."""
    reflection_ids = {version.id: version.reflection_id for version in versions if version.reflection_id is not None}
    reasons = (
        reflection_store.read_faults(session, ctx.caller, sorted(set(reflection_ids.values())), ctx.now())
        if reflection_ids
        else {}
    )
    faults = {id: reasons.get(reflection, "gone") for id, reflection in reflection_ids.items()}
    return {
        id: Staleness(cast(StaleReason, fault), reflection_ids[id] if reflection_ids[id] in reasons else None)
        for id, fault in faults.items()
        if fault
    }


def _build_manifest(reflection: Memory, name: str, description: str, schema: Any, sources: list[Memory]) -> bytes:
    head = {
        "name": name,
        "description": description,
        "metadata": {REFLECTION_ID_KEY: reflection.id, "original_reflection_depth": str(reflection.reflection_depth)},
    }
    parts = [skill_md.format_frontmatter(head), f"# {reflection.title}", description, reflection.content]
    if schema is not None:
        parts += ["## Parameters", f"```json\n{canonical_json(schema).decode()}\n```"]
    if sources:
        named = [f"- [{one.title}](references/source_{number}.md)" for number, one in enumerate(sources, 1)]
        parts += ["## Sources", "\n".join(named)]
    return ("\n\n".join(part.strip() for part in parts) + "\n").encode()


def _build_source_file(source: Memory) -> bytes:
    provenance = (
        f"Memory {source.id} in {source.namespace}, by {source.agent}, changed {format_timestamp(source.updated_at)}."
    )
    return f"# {source.title}\n\n{provenance}\n\n{source.content}\n".encode()
