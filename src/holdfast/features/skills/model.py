"""Skills: named folders of instructions, stored as versions that are identified by their digest."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.tombstone import PURGED
from holdfast.kernel.storage.port import Row
from holdfast.kernel.timestamps import derive_id

FileKind = Literal["manifest", "script", "reference", "asset"]
Outcome = Literal["registered", "superseded", "restored", "unchanged"]
"""New skill; new version of an existing one; an earlier version made current again; or already current."""
DropReason = Literal["superseded", "stale", "expired", "ended", "not_yet", "budget", "rank"]
"""Why a composed skill leaves a reflection out."""
StaleReason = Literal["gone", "superseded", "stale", "expired", "ended", "not_yet"]
"""Why the reflection behind a skill is no longer valid. `gone`: deleted, archived, or not visible to the caller."""
REFLECTION_ID_KEY = "derived_from_reflection_id"
"""Metadata key in SKILL.md: id of the reflection that the skill was promoted from."""

MAX_FILES = 256
MAX_BYTES = 10 << 20
"""Total size of all files of a skill, uncompressed."""
MAX_MANIFEST_BYTES = 1 << 20
"""Size of SKILL.md."""
DEFAULT_TOKENS = 4000
MAX_TOKENS = 32_000
"""Budget for the reflections of a composed skill."""
MAX_COMPOSED_NAMESPACES = 16
"""Namespaces that one skill can compose with."""
SIGNATURE_PREFIX = "holdfast skill "
"""Prefix of the signed digest; separates skill signatures from other uses of the key."""

_SCRIPTS = (".sh", ".bash", ".py", ".js", ".ts", ".rb", ".pl", ".ps1")


class File(Struct, frozen=True):
    """One file of a skill: its path in the folder and the hash of its content."""

    path: str
    kind: FileKind
    size: int
    digest: str


class Composition(Struct, frozen=True):
    """A namespace whose reflections, from a minimum depth, a skill is composed with."""

    namespace: str
    min_depth: int = 0


class Skill(Struct, frozen=True):
    """A skill name in a namespace and its current version."""

    id: str
    namespace: str
    name: str
    current: str
    agent: str
    """The agent that first registered it."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class SkillVersion(Struct, frozen=True):
    """One immutable version of a skill. Any other content is another version."""

    id: str
    skill: str
    namespace: str
    name: str
    description: str
    frontmatter: dict[str, Any]
    composes: tuple[Composition, ...]
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
        """The SKILL.md file."""
        return next(file for file in self.files if file.kind == "manifest")

    @property
    def reflection_id(self) -> str | None:
        """Id of the reflection it was promoted from, if any."""
        metadata = self.frontmatter.get("metadata")
        return metadata.get(REFLECTION_ID_KEY) if isinstance(metadata, dict) else None

    def find_file(self, path: str) -> File | None:
        return next((file for file in self.files if file.path == path), None)


def skill_version_of(row: Row) -> SkillVersion:
    """Build a skill version from a row of `skill_version.columns`."""
    values = list(row)
    values[5] = msgspec.json.decode(row[5])
    values[6] = msgspec.json.decode(row[6], type=tuple[Composition, ...])
    values[7] = msgspec.json.decode(row[7], type=tuple[File, ...])
    return SkillVersion(*values)


def erase_version(version: SkillVersion) -> SkillVersion:
    """Return the version without its text and files."""
    return replace(version, description=PURGED, frontmatter={}, composes=(), files=(), state="deleted")


SKILL = register_kind(
    Kind(
        "skill",
        Skill,
        MergeSchema(conflict_fields=("current", "state"), reviving_fields=("current",)),
        lambda skill: None,
        lambda row: Skill(*row),
        references=lambda skill: (("skill_version", skill.current),),
    )
)
SKILL_VERSION = register_kind(
    Kind(
        "skill_version",
        SkillVersion,
        MergeSchema(conflict_fields=("state",)),
        lambda version: None,
        skill_version_of,
        erase_version,
        undo_refusal="A skill version cannot be undone: undo the change that made it current, or delete the skill.",
    )
)


def skill_id(namespace: str, name: str) -> str:
    return derive_id("skill", namespace, name)


def version_id(digest: str) -> str:
    return derive_id("skill_version", digest)


def compute_digest(namespace: str, frontmatter: dict[str, Any], files: Iterable[File]) -> str:
    """Hash the namespace, the frontmatter and every file with its path, so that any change or swap is detected."""
    listed = sorted([file.path, file.digest] for file in files)
    return sha256(canonical_json({"namespace": namespace, "frontmatter": frontmatter, "files": listed})).hexdigest()


def signed_text(digest: str) -> bytes:
    return f"{SIGNATURE_PREFIX}{digest}".encode()


def classify_file(path: str) -> FileKind:
    """Classify a file by its folder and extension."""
    if is_manifest(path):
        return "manifest"
    top = path.partition("/")[0].lower() if "/" in path else ""
    if top == "scripts" or path.lower().endswith(_SCRIPTS):
        return "script"
    return "reference" if top in ("reference", "references") else "asset"


def is_manifest(path: str) -> bool:
    """Return whether the path is that of SKILL.md."""
    return path in ("SKILL.md", "skill.md")


def build_file(path: str, content: bytes) -> File:
    return File(path, classify_file(path), len(content), sha256(content).hexdigest())
