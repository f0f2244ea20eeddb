"""A skill: a folder of instructions under a name, kept in versions that are named by what they say."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel import ids
from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records.field_versions import Shape
from holdfast.kernel.records.merge import canonical
from holdfast.kernel.records.tombstone import PURGED
from holdfast.kernel.storage.port import Row

FileKind = Literal["manifest", "script", "reference", "asset"]
Outcome = Literal["registered", "superseded", "restored", "unchanged"]
"""New; over an earlier version; an earlier version once more; or what is there already."""
Reason = Literal["superseded", "stale", "expired", "ended", "not_yet", "budget", "rank"]
"""Why a reflection does not come with a skill."""
Fall = Literal["gone", "superseded", "stale", "expired", "ended", "not_yet"]
"""Why a reflection bears no skill; gone: deleted, archived, or nothing that the caller may see."""
ORIGIN = "derived_from_reflection_id"
"""Where the metadata of a skill names the reflection that it was made from."""

MOST_FILES = 256
MOST_BYTES = 10 << 20
"""Of all files of a skill together, as they are written."""
MOST_MANIFEST = 1 << 20
"""Of SKILL.md."""
USUAL_TOKENS = 4000
MOST_TOKENS = 32_000
"""For the reflections that come with a skill."""
MOST_COMPOSED = 16
"""Namespaces whose reflections one skill brings along."""
SIGNED_AS = "holdfast skill "
"""What stands before a digest when it is signed: the key signs other things too."""

_SCRIPTS = (".sh", ".bash", ".py", ".js", ".ts", ".rb", ".pl", ".ps1")


class File(Struct, frozen=True):
    """One file of a skill: where it lies in the folder, and what it says by its hash."""

    path: str
    kind: FileKind
    size: int
    digest: str


class Composes(Struct, frozen=True):
    """A namespace whose reflections of at least some depth belong to a skill."""

    namespace: str
    min_depth: int = 0


class Skill(Struct, frozen=True):
    """A name in a namespace, and which version stands under it."""

    id: str
    namespace: str
    name: str
    current: str
    agent: str
    """Who registered it first."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class SkillVersion(Struct, frozen=True):
    """What a skill said once. Nothing of it ever changes: what says something else is another version."""

    id: str
    skill: str
    namespace: str
    name: str
    description: str
    frontmatter: dict[str, Any]
    composes: tuple[Composes, ...]
    files: tuple[File, ...]
    digest: str
    signature: str
    agent: str
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"

    @property
    def manifest(self) -> File:
        """SKILL.md itself."""
        return next(file for file in self.files if file.kind == "manifest")

    @property
    def reflection(self) -> str | None:
        """The reflection it was made from, if it was."""
        metadata = self.frontmatter.get("metadata")
        return metadata.get(ORIGIN) if isinstance(metadata, dict) else None

    def file(self, path: str) -> File | None:
        return next((file for file in self.files if file.path == path), None)


def skill_version_of(row: Row) -> SkillVersion:
    """A version of a skill from the columns of `skill_version.columns`."""
    values = list(row)
    values[5] = msgspec.json.decode(row[5])
    values[6] = msgspec.json.decode(row[6], type=tuple[Composes, ...])
    values[7] = msgspec.json.decode(row[7], type=tuple[File, ...])
    return SkillVersion(*values)


def erase_version(version: SkillVersion) -> SkillVersion:
    """A version of a skill without its text and files."""
    return replace(version, description=PURGED, frontmatter={}, composes=(), files=(), state="deleted")


SKILL = register(
    Kind(
        "skill",
        Skill,
        Shape(registers=("current", "state"), reviving=("current",)),
        lambda skill: None,
        lambda row: Skill(*row),
        ends=lambda skill: (("skill_version", skill.current),),
    )
)
SKILL_VERSION = register(
    Kind(
        "skill_version",
        SkillVersion,
        Shape(registers=("state",)),
        lambda version: None,
        skill_version_of,
        erase_version,
    )
)


def skill_id(namespace: str, name: str) -> str:
    return ids.derived("skill", namespace, name)


def version_id(digest: str) -> str:
    return ids.derived("skill_version", digest)


def digest_of(namespace: str, frontmatter: dict[str, Any], files: Iterable[File]) -> str:
    """A hash over the whole manifest and over every file by its path: nothing can be changed or swapped unseen."""
    listed = sorted([file.path, file.digest] for file in files)
    return sha256(canonical({"namespace": namespace, "frontmatter": frontmatter, "files": listed})).hexdigest()


def signed_text(digest: str) -> bytes:
    return f"{SIGNED_AS}{digest}".encode()


def kind_of(path: str) -> FileKind:
    """What a file is for, by where it lies and how its name ends."""
    if is_manifest(path):
        return "manifest"
    top = path.partition("/")[0].lower() if "/" in path else ""
    if top == "scripts" or path.lower().endswith(_SCRIPTS):
        return "script"
    return "reference" if top in ("reference", "references") else "asset"


def is_manifest(path: str) -> bool:
    """Whether a path is that of the file which makes a folder a skill."""
    return path in ("SKILL.md", "skill.md")


def file_of(path: str, content: bytes) -> File:
    return File(path, kind_of(path), len(content), sha256(content).hexdigest())
