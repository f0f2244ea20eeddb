"""The web page: files that come with the package, the same for everybody, and sealed more narrowly than an answer.

They hold nothing of the store and so need no key; what the page shows it asks for by the operations, with the key.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.kernel.net.compression import pack

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
"""Nothing from elsewhere, nothing inline, nothing framed; and no text is ever taken for markup."""


class Asset(NamedTuple):
    """A file of the page, ready to be sent."""

    content: bytes
    packed: bytes
    type: str
    etag: str


def files() -> Iterator[tuple[str, Path]]:
    """The path at which each file is served, and the file."""
    yield "/", FOLDER / ENTRY
    for file in sorted(FOLDER.rglob("*")):
        if file.suffix in TYPES and file.name != ENTRY:
            yield ASSETS + file.relative_to(FOLDER).as_posix(), file


@cache
def assets() -> dict[str, Asset]:
    """Every file by its path, read once."""
    return {path: asset(file) for path, file in files()}


def asset(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(content, pack(content), TYPES[file.suffix], f'"{sha256(content).hexdigest()[:20]}"')


async def shown(request: Request) -> Response:
    """A file of the page; not again to who has it already."""
    one = assets()[request.scope["path"]]
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
