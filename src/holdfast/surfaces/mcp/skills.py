"""Skills over MCP: entries with digests, and resources under `skill://namespace/name/path`."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote

from msgspec import Meta, Struct

from holdfast.features.skills import store as skills
from holdfast.features.skills.model import File, SkillVersion
from holdfast.features.skills.service import Fallen, fallen
from holdfast.features.skills.store import Shown
from holdfast.kernel.context import Hold
from holdfast.kernel.storage.port import Session

if TYPE_CHECKING:
    from mimetypes import MimeTypes

SCHEME = "skill://"
MANIFEST = "SKILL.md"
DIRECTORY = "inode/directory"
MARKDOWN = "text/markdown"
PAGE = 50
STALE = "holdfast/stale"
"""Our key in `_meta`, beside the extension's fields."""

Place = tuple[Shown, str]
"""A current skill and a path in its folder; empty for the folder itself."""


class Named(Struct, frozen=True):
    uri: Annotated[str, Meta(min_length=1, max_length=4096)]


class Browsed(Named, frozen=True):
    cursor: str | None = None


def entries(hold: Hold, session: Session, many: Sequence[Shown]) -> list[dict[str, Any]]:
    """List skills; one made from a reflection that is stale says so."""
    fell = fallen(hold, session, [shown.version for shown in many])
    return [_entry(shown, fell.get(shown.version.id)) for shown in many]


def _entry(shown: Shown, fell: Fallen | None) -> dict[str, Any]:
    """Describe a skill with the digest of each file, so a client can verify what it reads."""
    version = shown.version
    stale = {} if fell is None else {"_meta": {STALE: _stale(fell)}}
    return {
        "uri": uri_of(version, MANIFEST),
        "frontmatter": version.frontmatter,
        "resources": [
            {"uri": uri_of(version, _shown_path(file)), "digest": f"sha256:{file.digest}", "size": file.size}
            for file in version.files
        ],
        **stale,
    }


def _stale(fell: Fallen) -> dict[str, str]:
    return {"reason": fell.reason} | ({} if fell.reflection is None else {"reflection_id": fell.reflection})


def uri_of(version: SkillVersion, path: str = "") -> str:
    """Return the URI of a skill's file or folder."""
    steps = [*version.namespace.split("/"), version.name, *(path.split("/") if path else ())]
    return SCHEME + "/".join(quote(step, safe="") for step in steps)


def _shown_path(file: File) -> str:
    """Return the public path of a file; the manifest is always SKILL.md."""
    return MANIFEST if file.kind == "manifest" else file.path


def resource(shown: Shown) -> dict[str, Any]:
    """Describe a skill in the list of all resources."""
    version = shown.version
    return {
        "uri": uri_of(version, MANIFEST),
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


def page(hold: Hold, session: Session, after: str, limit: int = PAGE) -> tuple[list[Shown], str | None]:
    """Return a page of current skills after an id, and the cursor of the next page."""
    found = skills.page(session, hold.caller, after, limit=limit + 1)
    return found[:limit], found[limit - 1].version.id if len(found) > limit else None


def placed(hold: Hold, session: Session, uri: str) -> Place | None:
    """Resolve a URI to a skill and a path. Namespace and path look alike, so the longest existing name wins."""
    steps = [unquote(step) for step in uri.removeprefix(SCHEME).removesuffix("/").split("/")]
    if not uri.startswith(SCHEME) or any("/" in step or "\x00" in step or not step for step in steps):
        return None
    for at in range(min(len(steps) - 1, 8), 0, -1):
        shown = skills.placed(session, hold.caller, "/".join(steps[:at]), steps[at])
        path = "/".join(steps[at + 1 :])
        if shown is not None and (not path or file_at(shown, path) or children(shown, path)):
            return shown, path
    return None


def file_at(shown: Shown, path: str) -> File | None:
    return shown.version.manifest if path == MANIFEST else shown.version.file(path)


def children(shown: Shown, path: str) -> list[dict[str, Any]]:
    """List the files and folders directly in a skill's folder; empty if there is no such folder."""
    version, above = shown.version, f"{path}/" if path else ""
    found: dict[str, dict[str, Any]] = {}
    for file in version.files:
        inside = _shown_path(file)
        if inside.startswith(above):
            name, deeper, _ = inside[len(above) :].partition("/")
            uri = uri_of(version, above + name)
            is_file = {"mimeType": _guessed(name), "size": file.size}
            found[name] = {"uri": uri, "name": name, **({"mimeType": DIRECTORY} if deeper else is_file)}
    return [found[name] for name in sorted(found)]


def content(session: Session, place: Place, uri: str) -> dict[str, Any] | None:
    """Read a file unchanged, so its digest matches; None for a folder."""
    shown, path = place
    file = file_at(shown, path)
    if file is None:
        return None
    said = skills.content(session, file)
    kind = MARKDOWN if file.kind == "manifest" else _guessed(file.path)
    try:
        return {"uri": uri, "mimeType": kind, "text": said.decode()}
    except UnicodeDecodeError:
        return {"uri": uri, "mimeType": kind, "blob": b64encode(said).decode()}


def _guessed(name: str) -> str:
    """Guess a file's MIME type by its extension; the same on every machine."""
    return MARKDOWN if name.lower().endswith(".md") else _known().guess_type(name)[0] or "application/octet-stream"


@cache
def _known() -> "MimeTypes":
    from mimetypes import MimeTypes

    return MimeTypes()
