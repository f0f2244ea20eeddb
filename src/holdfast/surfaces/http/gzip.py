"""Compressed bodies, for operations that allow them, with a limit on the decompressed size."""

from starlette.requests import Request

from holdfast.kernel.errors import Invalid, WrongMediaType
from holdfast.kernel.net.compression import pack, unpack
from holdfast.kernel.registry.operation import Operation

WORTH_BYTES = 512
"""Smaller answers are not compressed."""


def unpacked(operation: Operation, request: Request, body: bytes) -> bytes:
    """Decompress a request body; reject more than the operation's limit."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding != "gzip" or operation.most_bytes is None:
        raise WrongMediaType("This Content-Encoding is not supported here: send the body uncompressed.")
    try:
        return unpack(body, operation.most_bytes)
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


def packed(operation: Operation, request: Request, content: bytes) -> tuple[bytes, dict[str, str]]:
    """Compress an answer if client and operation allow it; return it with its headers."""
    wanted = "gzip" in request.headers.get("accept-encoding", "")
    if operation.most_bytes is None or not wanted or len(content) < WORTH_BYTES:
        return content, {}
    return pack(content), {"content-encoding": "gzip"}
