"""Serve the web page: static files of the package under a strict content security policy.

They contain no stored data, so they need no key. The page calls the HTTP API with the key.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.kernel.net.compression import compress

FOLDER = Path(__file__).parent.parent / "web"
ENTRY = "index.html"
ASSETS = "/page/"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""No foreign or inline resources, no framing, and no text interpreted as markup."""


class Asset(NamedTuple):
    """A file of the page with its headers."""

    content: bytes
    packed: bytes
    type: str
    etag: str


def list_files() -> Iterator[tuple[str, Path]]:
    """Yield each file of the page with the path it is served at."""
    yield "/", FOLDER / ENTRY
    for file in sorted(FOLDER.rglob("*")):
        if file.suffix in TYPES and file.name != ENTRY:
            yield ASSETS + file.relative_to(FOLDER).as_posix(), file


@cache
def load_assets() -> dict[str, Asset]:
    """Return every file by its path, read once."""
    return {path: load_asset(file) for path, file in list_files()}


def load_asset(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(content, compress(content), TYPES[file.suffix], f'"{sha256(content).hexdigest()[:20]}"')


async def serve_asset(request: Request) -> Response:
    """Serve a file of the page, or 304 if the client has it."""
    one = load_assets()[request.scope["path"]]
    headers = {
        "etag": one.etag,
        "cache-control": "no-cache",
        "vary": "accept-encoding",
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    if one.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(one.packed, headers=headers | {"content-encoding": "gzip"}, media_type=one.type)
    return Response(one.content, headers=headers, media_type=one.type)
