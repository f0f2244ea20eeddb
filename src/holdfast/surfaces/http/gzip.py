"""Bodies that come and go compressed: for operations that say so, and never more than they may be unpacked."""

from starlette.requests import Request

from holdfast.kernel.errors import Invalid, WrongMediaType
from holdfast.kernel.net.compression import pack, unpack
from holdfast.kernel.registry.operation import Operation

WORTH_BYTES = 512
"""Below this an answer is sent as it is."""


def unpacked(operation: Operation, request: Request, body: bytes) -> bytes:
    """What a body says, which is bounded before it is unpacked."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding != "gzip" or operation.most_bytes is None:
        raise WrongMediaType("Send the body as it is: this path takes no such Content-Encoding.")
    try:
        return unpack(body, operation.most_bytes)
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


def packed(operation: Operation, request: Request, content: bytes) -> tuple[bytes, dict[str, str]]:
    """An answer as it is sent, and the headers that say how."""
    wanted = "gzip" in request.headers.get("accept-encoding", "")
    if operation.most_bytes is None or not wanted or len(content) < WORTH_BYTES:
        return content, {}
    return pack(content), {"content-encoding": "gzip"}
