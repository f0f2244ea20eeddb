"""Register, find, read, roll back, delete and promote skills."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from holdfast.features.graph import store as links
from holdfast.features.graph.store import Which
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.recall import ranking as rank
from holdfast.features.skills import reflection_store as skill_reflections
from holdfast.features.skills import skill_md as skill_text
from holdfast.features.skills import store as skills
from holdfast.features.skills.files import Draft, admitted
from holdfast.features.skills.model import (
    ORIGIN,
    SKILL,
    SKILL_VERSION,
    Fall,
    File,
    Outcome,
    Skill,
    SkillVersion,
    digest_of,
    file_of,
    is_manifest,
    signed_text,
    skill_id,
    version_id,
)
from holdfast.features.skills.skill_md import Written
from holdfast.features.skills.store import Shown
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound, SecretRefused
from holdfast.kernel.journal import transaction as records
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import canonical
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import asked
from holdfast.kernel.timestamps import to_text

MOST_RANKED = 5000
"""Skills that a query ranks."""
MOST_SOURCES = 100
MOST_CHANGES = 1000
MOST_PURGED = 1_000_000


class Registered(NamedTuple):
    shown: Shown
    outcome: Outcome
    superseded: str | None
    """Id of the version that was current before."""


def register(hold: Hold, draft: Draft, namespace: str | None = None) -> Registered:
    """Store a signed skill version and make it current; a version that is already stored is reused."""
    files = admitted(draft.files.items())
    made = version_of(files, draft.folder, namespace, default=hold.namespace)
    hold.caller.must_reach(made.namespace)
    contents = {file.digest: files[file.path] for file in made.files}
    with hold.writing() as write:
        must_be_without_secrets(write.session, made.namespace, files)
        times = {"created_at": write.now, "updated_at": write.now, "origin": write.origin}
        return _put(write, proved(write, replace(made, agent=hold.caller.agent, **times)), contents)


def version_of(
    files: Mapping[str, bytes], folder: str | None, namespace: str | None, name: str | None = None, default: str = ""
) -> SkillVersion:
    """Build a skill version from files. The caller fills in agent, times and origin."""
    written = written_in(files, folder)
    place = _place(written, namespace, default)
    if name not in (None, written.name):
        raise Invalid(f"name: SKILL.md has {written.name!r}", fields=["name"])
    listed = tuple(file_of(path, files[path]) for path in sorted(files))
    digest = digest_of(place, written.frontmatter, listed)
    return SkillVersion(
        id=version_id(digest),
        skill=skill_id(place, written.name),
        namespace=place,
        name=written.name,
        description=written.description,
        frontmatter=written.frontmatter,
        composes=written.composes,
        files=listed,
        digest=digest,
        signature="",
        agent="",
        created_at=0,
        updated_at=0,
        origin="",
        version=1,
    )


def must_be_without_secrets(session: Session, namespace: str, files: Mapping[str, bytes]) -> None:
    """Raise if the files contain secrets and the namespace rejects or redacts them: signed files cannot be redacted."""
    given = {path: content.decode("utf-8", "replace") for path, content in files.items()}
    if hygiene.permitted(session, namespace, {"files": given})[1].redacted:
        raise SecretRefused("files: they contain keys or passwords, which this namespace does not accept. Remove them.")


def proved(write: Transaction, version: SkillVersion) -> SkillVersion:
    """Sign the version if it is unsigned; raise if its signature is not that of the known node it names."""
    if not version.signature:
        return replace(version, signature=write.sign(signed_text(version.digest)), origin=write.origin)
    if skills.is_forged(write.session, version):
        raise Invalid("signature: does not match the node named in `origin`", fields=["signature"])
    return version


def written_in(files: Mapping[str, bytes], folder: str | None = None) -> Written:
    """Parse the SKILL.md among the files."""
    manifest = next((content for path, content in files.items() if is_manifest(path)), None)
    if manifest is None:
        raise Invalid("files: SKILL.md is missing", fields=["files"])
    return skill_text.read(manifest, folder)


def _place(written: Written, asked_for: str | None, default: str) -> str:
    """Return the namespace of SKILL.md, else the requested one, else the default."""
    wanted = None if asked_for is None else door.namespace(asked_for)
    if wanted is not None and written.namespace not in (None, wanted):
        raise Invalid(f"namespace: SKILL.md has {written.namespace!r}, not {wanted!r}", fields=["namespace"])
    return written.namespace or wanted or door.namespace(default)


def _put(write: Transaction, made: SkillVersion, contents: Mapping[str, bytes]) -> Registered:
    skill, known = write.get(SKILL, made.skill), write.get(SKILL_VERSION, made.id)
    if known is None or known.state == "deleted":
        skills.keep(write.session, contents)
        known = kept(write, known, made)
        outcome: Outcome = "registered" if skill is None or skill.state == "deleted" else "superseded"
    else:
        outcome = "restored"
    if skill is None:
        fresh = Skill(
            id=made.skill,
            namespace=made.namespace,
            name=made.name,
            current=known.id,
            agent=made.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        return Registered(Shown(known, write.add(SKILL, fresh, "register")), outcome, None)
    before = skill.current if skill.state == "live" and skill.current != known.id else None
    after = write.change(SKILL, skill, replace(skill, current=known.id, state="live"), "register")
    return Registered(Shown(known, after), "unchanged" if after is skill else outcome, before)


def kept(write: Transaction, purged: SkillVersion | None, made: SkillVersion, op: str = "register") -> SkillVersion:
    """Store a new version, or restore one that was purged."""
    if purged is None:
        return write.add(SKILL_VERSION, made, op)
    said = replace(
        made, agent=purged.agent, created_at=purged.created_at, origin=purged.origin, signature=purged.signature
    )
    return write.change(SKILL_VERSION, purged, replace(said, version=purged.version, updated_at=0), op)


def get(hold: Hold, session: Session, id: str) -> Shown:
    """Return the version with this id or name."""
    return skills.resolve(session, hold.caller, id)


def body_of(session: Session, version: SkillVersion) -> str:
    """Return the text of SKILL.md below the frontmatter."""
    return _body(skills.content(session, version.manifest))


@lru_cache(8)
def _body(manifest: bytes) -> str:
    """Cached: the same skills are read repeatedly."""
    return skill_text.read(manifest).body


def files_of(session: Session, version: SkillVersion) -> dict[str, bytes]:
    """Return every file, byte for byte as registered."""
    return {file.path: skills.content(session, file) for file in version.files}


def known_files(hold: Hold, session: Session, skill: Skill) -> set[File]:
    """Return every file of every version of a skill."""
    versions = skills.versions(session, hold.caller, skill, limit=MOST_PURGED)
    return {file for version in versions for file in version.files}


def resource(hold: Hold, session: Session, id: str, path: str) -> tuple[Shown, bytes]:
    """Return one file of a skill with its version."""
    shown = get(hold, session, id)
    file = shown.version.file(path)
    if file is None:
        raise NotFound(f"The skill {shown.version.name!r} has no file {path!r}.", id=shown.version.id, path=path)
    return shown, skills.content(session, file)


class Listed(NamedTuple):
    found: list[Shown]
    total: int
    """Number of skills, regardless of the query."""


def listed(hold: Hold, session: Session, under: str | None, query: str | None, *, limit: int) -> Listed:
    """List current skills by name, or those that match a query, best first."""
    under = None if under is None else door.namespace(under)
    total = skills.count(session, hold.caller, under)
    if query is None:
        return Listed(skills.listed(session, hold.caller, under, limit=limit), total)
    among = skills.listed(session, hold.caller, under, limit=MOST_RANKED)
    return Listed(_ranked(among, query, hold.now())[:limit], total)


def _ranked(among: list[Shown], query: str, now: int) -> list[Shown]:
    """Rank by the words of name and description; rare words weigh more, a name counts like a title."""
    stems = tokens.stems(" ".join(asked(query)))
    said = {one.version.id: one for one in among}
    words = {id: _words(one.version, stems, tokens.found_by) for id, one in said.items()}
    held = {stem: sum(stem in found[0] or stem in found[1] for found in words.values()) for stem in stems}
    lengths = [length for _, _, length in words.values()]
    scope = rank.Scope(len(among), sum(lengths) / (len(lengths) or 1), held, {})
    candidates = [
        rank.Candidate(id, [rank.Piece(0, 0, body)], length, labels=name, updated_at=said[id].skill.updated_at)
        for id, (name, body, length) in words.items()
        if name or body
    ]
    return [said[one.id] for one in rank.ranked(candidates, [], stems, scope, now)]


def _words(
    version: SkillVersion, stems: list[str], found_by: Callable[[str], list[str]]
) -> tuple[dict[str, int], dict[str, int], int]:
    """Count each query stem in the name and in the description; also return the description's length."""
    name, body = found_by(version.name.replace("-", " ")), found_by(version.description)
    counts = [{stem: text.count(stem) for stem in stems if stem in text} for text in (name, body)]
    return counts[0], counts[1], len(body)


class Turned(NamedTuple):
    shown: Shown
    before: str
    """Id of the version that was current."""


def rollback(hold: Hold, id: str, to: str | None = None) -> Turned:
    """Make another version current: the given one, or the one before."""
    with hold.writing() as write:
        shown = skills.resolve(write.session, hold.caller, id)
        skill, wanted = shown.skill, _wanted(hold, write.session, shown, id, to)
        if wanted.id == skill.current:
            raise _current_already(skill)
        after = write.change(SKILL, skill, replace(skill, current=wanted.id), "rollback")
        return Turned(Shown(wanted, after), skill.current)


def _wanted(hold: Hold, session: Session, shown: Shown, id: str, to: str | None) -> SkillVersion:
    if to is not None:
        return _named(hold, session, shown.skill, to)
    by_name = id in (shown.skill.name, f"{shown.skill.namespace}/{shown.skill.name}")
    return _version_before(hold, session, shown.skill) if by_name else shown.version


def _current_already(skill: Skill) -> Conflict:
    place = f"{skill.namespace}/{skill.name}"
    return Conflict(
        f"{skill.current} is already the current version of {place}. Run `skill rollback {place}` for the version "
        f"before it, or `skill rollback VERSION_ID` for one that `skill history {place}` lists.",
        id=skill.current,
    )


def _version_before(hold: Hold, session: Session, skill: Skill) -> SkillVersion:
    """Return the previously current version from the journal; repeated rollbacks go further back."""
    versions = skills.versions(session, hold.caller, skill, limit=MOST_PURGED)
    usable = {version.id: version for version in versions if version.state == "live"}
    entries = reversed(skills.changes(session, skill, limit=MOST_CHANGES))
    before = [id for id in _course((one.op, records.body_of(SKILL, one).current) for one in entries) if id in usable]
    while before and before[-1] == skill.current:
        before.pop()
    if not before:
        raise NotFound(
            f"{skill.name!r} has no earlier version. Choose one from `skill history`: `skill rollback VERSION_ID`.",
            id=skill.current,
        )
    return usable[before[-1]]


def _course(changes: Iterable[tuple[str, str]]) -> list[str]:
    """Return the versions that led to the current one, oldest first; a rollback removes the version it left."""
    course: list[str] = []
    for op, current in changes:
        if op == "rollback" and course[-2:-1] == [current]:
            course.pop()
        elif course[-1:] != [current]:
            course.append(current)
    return course


def _named(hold: Hold, session: Session, skill: Skill, to: str) -> SkillVersion:
    version = skills.resolve(session, hold.caller, to).version
    if version.skill != skill.id:
        raise Invalid(f"version: {to!r} belongs to {version.namespace}/{version.name}", fields=["version"])
    return version


def delete(hold: Hold, id: str, *, purge: bool = False) -> Shown:
    """Delete a skill; its versions and history stay, and registering it again restores it.

    A purge also erases the content of all versions, from the history too; only their digests remain.
    """
    with hold.writing() as write:
        shown = skills.resolve(write.session, hold.caller, id, deleted_too=purge)
        gone = write.change(SKILL, shown.skill, replace(shown.skill, state="deleted"), "delete")
        if purge:
            _purge(hold, write, gone)
        return Shown(shown.version, gone)


def _purge(hold: Hold, write: Transaction, skill: Skill) -> None:
    versions = [one for one in skills.versions(write.session, hold.caller, skill, limit=MOST_PURGED) if one.files]
    for version in versions:
        write.purge(SKILL_VERSION, version)
    skills.purge(write.session, {file.digest for version in versions for file in version.files})


class Change(NamedTuple):
    """One journalled change of a skill: the skill as it was after it."""

    seq: int
    op: str
    actor: str
    at: int
    skill: Skill


class Past(NamedTuple):
    skill: Skill
    versions: list[SkillVersion]
    changes: list[Change]


def history(hold: Hold, session: Session, id: str, *, limit: int) -> Past:
    """List a skill's versions and when each was current, newest first; works for deleted skills too."""
    skill = skills.resolve(session, hold.caller, id, deleted_too=True).skill
    entries = skills.changes(session, skill, limit=limit)
    changes = [Change(one.seq, one.op, one.actor, one.kept_at, records.body_of(SKILL, one)) for one in entries]
    return Past(skill, skills.versions(session, hold.caller, skill, limit=limit), changes)


# Promotion from a reflection


class Promoted(NamedTuple):
    registered: Registered
    reflection: Memory
    attached: int
    left_out: int
    """Sources that are gone or private."""


def promote(hold: Hold, reflection_id: str, name: str, description: str, schema: Any = None) -> Promoted:
    """Create a skill from a reflection that is deep enough, with its sources as reference files."""
    now = hold.now()
    with hold.reading() as session:
        reflection = memories.resolve(session, hold.caller, reflection_id, now)
        _must_be_fit(session, reflection)
        _must_hold(hold, session, reflection)
        edges = links.leaving(
            session, hold.caller, [reflection.id], Which(relations=("reflects_on",), view=None), now, limit=MOST_SOURCES
        )
        seen = memories.by_ids(session, hold.caller, [edge.id for edge in edges], now)
    sources = sorted((one for one in seen.values() if one.scope != "private"), key=lambda source: source.id)
    files = {f"references/source_{number}.md": _source(source) for number, source in enumerate(sources, 1)}
    files["SKILL.md"] = _manifest(reflection, name, description, schema, sources)
    registered = register(hold, Draft(files), reflection.namespace)
    return Promoted(registered, reflection, len(sources), len(edges) - len(sources))


def _must_be_fit(session: Session, reflection: Memory) -> None:
    if reflection.kind != "reflection":
        raise Invalid(f"reflection_id: {reflection.id} is not a reflection", fields=["reflection_id"])
    if reflection.scope == "private":
        raise Forbidden(
            "reflection_id: the reflection is private, but a skill is visible to everyone who reaches its namespace."
        )
    least = policies.resolved(session, reflection.namespace).skill_promotion_min_depth
    if reflection.reflection_depth < least:
        raise Conflict(
            f"The reflection {reflection.id} has depth {reflection.reflection_depth}; in "
            f"{reflection.namespace!r} a skill needs depth {least} or more (policy skill_promotion_min_depth).",
            depth=reflection.reflection_depth,
            min_depth=least,
        )


def _must_hold(hold: Hold, session: Session, reflection: Memory) -> None:
    fault = skill_reflections.origins(session, hold.caller, [reflection.id], hold.now())[reflection.id]
    if fault:
        raise Conflict(
            f"The reflection {reflection.id} is not valid now ({fault}). Resolve that first, or promote a valid one.",
            id=reflection.id,
            reason=fault,
        )


class Fallen(NamedTuple):
    """Why the reflection behind a skill is no longer valid; its id only if the caller may see it."""

    reason: Fall
    reflection: str | None


def fallen(hold: Hold, session: Session, versions: Iterable[SkillVersion]) -> dict[str, Fallen]:
    """Return, by version id, the versions whose reflection is no longer valid."""
    made = {version.id: version.reflection for version in versions if version.reflection is not None}
    seen = skill_reflections.origins(session, hold.caller, sorted(set(made.values())), hold.now()) if made else {}
    faults = {id: seen.get(reflection, "gone") for id, reflection in made.items()}
    return {
        id: Fallen(cast(Fall, fault), made[id] if made[id] in seen else None) for id, fault in faults.items() if fault
    }


def _manifest(reflection: Memory, name: str, description: str, schema: Any, sources: list[Memory]) -> bytes:
    head = {
        "name": name,
        "description": description,
        "metadata": {ORIGIN: reflection.id, "original_reflection_depth": str(reflection.reflection_depth)},
    }
    parts = [skill_text.head(head), f"# {reflection.title}", description, reflection.content]
    if schema is not None:
        parts += ["## Parameters", f"```json\n{canonical(schema).decode()}\n```"]
    if sources:
        named = [f"- [{one.title}](references/source_{number}.md)" for number, one in enumerate(sources, 1)]
        parts += ["## Sources", "\n".join(named)]
    return ("\n\n".join(part.strip() for part in parts) + "\n").encode()


def _source(source: Memory) -> bytes:
    provenance = f"Memory {source.id} in {source.namespace}, by {source.agent}, changed {to_text(source.updated_at)}."
    return f"# {source.title}\n\n{provenance}\n\n{source.content}\n".encode()
