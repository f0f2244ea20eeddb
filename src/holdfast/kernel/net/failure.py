"""Why a request failed. The text continues a sentence that starts with the provider's name."""


class RequestFailure(Exception):
    """A failed request. Contains neither a key nor provider output, which may repeat the key."""

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        is_unprocessed: bool = False,
        is_timeout: bool = False,
        retry_after: float = 0.0,
        has_response: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
        self.status = status
        self.is_unprocessed = is_unprocessed
        """Whether the provider certainly did not process the request: nothing is charged and a retry is safe."""
        self.is_timeout = is_timeout
        """Whether the request timed out."""
        self.retry_after = retry_after
        """Seconds to wait before a retry, as requested by the provider."""
        self.has_response = has_response or status is not None
        """Whether the provider responded at all, even incompletely."""
