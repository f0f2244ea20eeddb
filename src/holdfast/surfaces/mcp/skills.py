"""Skills over MCP: entries with digests, and resources under `skill://namespace/name/path`."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from mimetypes import MimeTypes
from typing import Annotated, Any
from urllib.parse import quote, unquote

from msgspec import Meta, Struct

from holdfast.features.skills import file_contents
from holdfast.features.skills import read_skills as skills
from holdfast.features.skills.model import File, SkillVersion
from holdfast.features.skills.read_skills import SkillEntry
from holdfast.features.skills.service import Staleness, find_stale
from holdfast.kernel.context import Context
from holdfast.kernel.storage.port import Session

SCHEME = "skill://"
MANIFEST = "SKILL.md"
DIRECTORY = "inode/directory"
MARKDOWN = "text/markdown"
PAGE = 50
STALE = "holdfast/stale"
"""Our key in `_meta`, beside the extension's fields."""

SkillPath = tuple[SkillEntry, str]
"""A current skill and a path in its folder; empty for the folder itself."""


class UriParams(Struct, frozen=True):
    uri: Annotated[str, Meta(min_length=1, max_length=4096)]


class DirectoryParams(UriParams, frozen=True):
    cursor: str | None = None


def list_entries(ctx: Context, session: Session, many: Sequence[SkillEntry]) -> list[dict[str, Any]]:
    """List skills; one made from a reflection that is stale says so."""
    fell = find_stale(ctx, session, [shown.version for shown in many])
    return [_entry(shown, fell.get(shown.version.id)) for shown in many]


def _entry(shown: SkillEntry, fell: Staleness | None) -> dict[str, Any]:
    """Describe a skill with the digest of each file, so a client can verify what it reads."""
    version = shown.version
    stale = {} if fell is None else {"_meta": {STALE: _stale_fields(fell)}}
    return {
        "uri": skill_uri(version, MANIFEST),
        "frontmatter": version.frontmatter,
        "resources": [
            {"uri": skill_uri(version, _public_path(file)), "digest": f"sha256:{file.digest}", "size": file.size}
            for file in version.files
        ],
        **stale,
    }


def _stale_fields(fell: Staleness) -> dict[str, str]:
    return {"reason": fell.reason} | ({} if fell.reflection_id is None else {"reflection_id": fell.reflection_id})


def skill_uri(version: SkillVersion, path: str = "") -> str:
    """Return the URI of a skill's file or folder."""
    steps = [*version.namespace.split("/"), version.name, *(path.split("/") if path else ())]
    return SCHEME + "/".join(quote(step, safe="") for step in steps)


def _public_path(file: File) -> str:
    """Return the public path of a file; the manifest is always SKILL.md."""
    return MANIFEST if file.kind == "manifest" else file.path


def skill_resource(shown: SkillEntry) -> dict[str, Any]:
    """Describe a skill in the list of all resources."""
    version = shown.version
    return {
        "uri": skill_uri(version, MANIFEST),
        "name": version.frontmatter["name"],
        "description": version.frontmatter["description"],
        "mimeType": MARKDOWN,
        "size": version.manifest.size,
    }


TEMPLATE = {
    "uriTemplate": SCHEME + "{+path}",
    "name": "skill",
    "description": "A file of a skill, as namespace/name/path.",
}


def page(ctx: Context, session: Session, after: str, limit: int = PAGE) -> tuple[list[SkillEntry], str | None]:
    """Return a page of current skills after an id, and the cursor of the next page."""
    found = skills.list_page(session, ctx.caller, after, limit=limit + 1)
    return found[:limit], found[limit - 1].version.id if len(found) > limit else None


def find_skill(ctx: Context, session: Session, uri: str) -> SkillPath | None:
    """Resolve a URI to a skill and a path. Namespace and path look alike, so the longest existing name wins."""
    steps = [unquote(step) for step in uri.removeprefix(SCHEME).removesuffix("/").split("/")]
    if not uri.startswith(SCHEME) or any("/" in step or "\x00" in step or not step for step in steps):
        return None
    for at in range(min(len(steps) - 1, 8), 0, -1):
        shown = skills.find_current(session, ctx.caller, "/".join(steps[:at]), steps[at])
        path = "/".join(steps[at + 1 :])
        if shown is not None and (not path or file_at(shown, path) or list_children(shown, path)):
            return shown, path
    return None


def file_at(shown: SkillEntry, path: str) -> File | None:
    return shown.version.manifest if path == MANIFEST else shown.version.find_file(path)


def list_children(shown: SkillEntry, path: str) -> list[dict[str, Any]]:
    """List the files and folders directly in a skill's folder; empty if there is no such folder."""
    version, above = shown.version, f"{path}/" if path else ""
    found: dict[str, dict[str, Any]] = {}
    for file in version.files:
        inside = _public_path(file)
        if inside.startswith(above):
            name, deeper, _ = inside[len(above) :].partition("/")
            uri = skill_uri(version, above + name)
            is_file = {"mimeType": _mime_type(name), "size": file.size}
            found[name] = {"uri": uri, "name": name, **({"mimeType": DIRECTORY} if deeper else is_file)}
    return [found[name] for name in sorted(found)]


def read_content(session: Session, place: SkillPath, uri: str) -> dict[str, Any] | None:
    """Read a file unchanged, so its digest matches; None for a folder."""
    shown, path = place
    file = file_at(shown, path)
    if file is None:
        return None
    said = file_contents.read_content(session, file)
    kind = MARKDOWN if file.kind == "manifest" else _mime_type(file.path)
    try:
        return {"uri": uri, "mimeType": kind, "text": said.decode()}
    except UnicodeDecodeError:
        return {"uri": uri, "mimeType": kind, "blob": b64encode(said).decode()}


def _mime_type(name: str) -> str:
    """Guess a file's MIME type by its extension; the same on every machine."""
    return MARKDOWN if name.lower().endswith(".md") else _mime_types().guess_type(name)[0] or "application/octet-stream"


@cache
def _mime_types() -> MimeTypes:
    return MimeTypes()
