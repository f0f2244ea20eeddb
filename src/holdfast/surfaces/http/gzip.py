"""Compressed bodies, for operations that allow them, with a limit on the decompressed size."""

from starlette.requests import Request

from holdfast.kernel.errors import Invalid, WrongMediaType
from holdfast.kernel.net.compression import compress, decompress
from holdfast.kernel.registry.operation import Operation

MIN_COMPRESSED_BYTES = 512
"""Smaller answers are not compressed."""


def decompress_body(operation: Operation, request: Request, body: bytes) -> bytes:
    """Decompress a request body; reject more than the operation's limit."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding != "gzip" or operation.most_bytes is None:
        raise WrongMediaType("This Content-Encoding is not supported here: send the body uncompressed.")
    try:
        return decompress(body, operation.most_bytes)
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


def compress_answer(operation: Operation, request: Request, content: bytes) -> tuple[bytes, dict[str, str]]:
    """Compress an answer if client and operation allow it; return it with its headers."""
    wanted = "gzip" in request.headers.get("accept-encoding", "")
    if operation.most_bytes is None or not wanted or len(content) < MIN_COMPRESSED_BYTES:
        return content, {}
    return compress(content), {"content-encoding": "gzip"}
