"""The HTTP status and exit code of each error, and the JSON encoding of answers."""

from typing import Any

import msgspec

from holdfast.kernel.errors import HoldfastError

STATUS = {
    "ERROR": 500,
    "VALIDATION_FAILED": 400,
    "AMBIGUOUS_ID_PREFIX": 400,
    "FILTER_REQUIRED": 400,
    "CALLER_DEPTH_MISMATCH": 400,
    "SECRET_REFUSED": 400,
    "NOT_FOUND": 404,
    "FOLDED": 404,
    "STORE_NOT_FOUND": 404,
    "CONFLICT": 409,
    "TITLE_TAKEN": 409,
    "VERSION_CONFLICT": 409,
    "CHANGED_SINCE": 409,
    "REFLECTION_DEPTH_EXCEEDED": 409,
    "REFLECTION_CYCLE_DETECTED": 409,
    "ALREADY_ATOMISED": 409,
    "SOURCE_TOO_SMALL": 409,
    "CURATOR_BUSY": 409,
    "LEASE_LOST": 409,
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "CONFIRMATION_REQUIRED": 403,
    "APPROVAL_REQUIRED": 403,
    "HOOK_DENIED": 403,
    "HOOK_ASKS": 403,
    "BUDGET_EXCEEDED": 402,
    "MISADDRESSED": 421,
    "METHOD_NOT_ALLOWED": 405,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "TOO_LARGE": 413,
    "CANCELLED": 499,
    "TIMED_OUT": 504,
    "MISCONFIGURED": 500,
    "EMBEDDER_FAILED": 424,
    "MODEL_FAILED": 424,
    "PEER_FAILED": 424,
    "FILE_REFUSED": 409,
    "FILE_MALFORMED": 409,
    "FILE_UNSAFE": 409,
    "QUORUM_NOT_MET": 503,
    "STORE_ERROR": 503,
    "STORE_BUSY": 503,
    "STORE_FULL": 507,
    "STORE_UNREACHABLE": 503,
    "OUTCOME_UNKNOWN": 503,
    "STORE_CLOSED": 503,
    "NOT_A_STORE": 503,
    "NEWER_STORE": 503,
    "STORE_DAMAGED": 503,
}
"""HTTP status by error code."""

EXIT = {
    "ERROR": 1,
    "VALIDATION_FAILED": 2,
    "AMBIGUOUS_ID_PREFIX": 2,
    "FILTER_REQUIRED": 2,
    "CALLER_DEPTH_MISMATCH": 2,
    "SECRET_REFUSED": 2,
    "NOT_FOUND": 1,
    "FOLDED": 1,
    "STORE_NOT_FOUND": 1,
    "CONFLICT": 3,
    "TITLE_TAKEN": 3,
    "VERSION_CONFLICT": 3,
    "CHANGED_SINCE": 3,
    "REFLECTION_DEPTH_EXCEEDED": 3,
    "REFLECTION_CYCLE_DETECTED": 3,
    "ALREADY_ATOMISED": 3,
    "SOURCE_TOO_SMALL": 3,
    "CURATOR_BUSY": 3,
    "LEASE_LOST": 3,
    "UNAUTHENTICATED": 4,
    "FORBIDDEN": 4,
    "CONFIRMATION_REQUIRED": 4,
    "APPROVAL_REQUIRED": 4,
    "HOOK_DENIED": 4,
    "HOOK_ASKS": 4,
    "BUDGET_EXCEEDED": 4,
    "MISADDRESSED": 4,
    "METHOD_NOT_ALLOWED": 2,
    "UNSUPPORTED_MEDIA_TYPE": 2,
    "TOO_LARGE": 2,
    "CANCELLED": 130,
    "TIMED_OUT": 5,
    "MISCONFIGURED": 78,
    "EMBEDDER_FAILED": 5,
    "MODEL_FAILED": 5,
    "PEER_FAILED": 5,
    "FILE_REFUSED": 3,
    "FILE_MALFORMED": 3,
    "FILE_UNSAFE": 3,
    "QUORUM_NOT_MET": 5,
    "STORE_ERROR": 5,
    "STORE_BUSY": 5,
    "STORE_FULL": 5,
    "STORE_UNREACHABLE": 5,
    "OUTCOME_UNKNOWN": 5,
    "STORE_CLOSED": 5,
    "NOT_A_STORE": 5,
    "NEWER_STORE": 5,
    "STORE_DAMAGED": 5,
}
"""Exit code of the command line by error code."""

PENDING_STATUS = 202
"""HTTP status of a request that waits for approval."""

RETRY_AFTER_SECONDS = 1
"""Retry-After of retryable errors."""

PARTLY_REJECTED_EXIT = 6
"""Exit code of a batch with rejected items."""

_encoder = msgspec.json.Encoder()


def encode(answer: Any) -> bytes:
    """Encode an answer as JSON."""
    return _encoder.encode(answer)


def plain(answer: Any) -> Any:
    """Convert an answer to dictionaries and lists."""
    return msgspec.to_builtins(answer)


def internal_error(error: BaseException) -> HoldfastError:
    """Return the error for an unexpected exception, without its message."""
    return HoldfastError(f"Internal error ({type(error).__name__}); see the log.")
