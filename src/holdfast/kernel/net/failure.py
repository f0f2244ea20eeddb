"""Why a request failed. The text continues a sentence that starts with the provider's name."""


class Failure(Exception):
    """A failed request. Contains neither a key nor provider output, which may repeat the key."""

    def __init__(
        self,
        what: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        undone: bool = False,
        late: bool = False,
        after: float = 0.0,
        answered: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.retryable = retryable
        self.status = status
        self.undone = undone
        """Whether the provider certainly did not process the request: nothing is charged and a retry is safe."""
        self.late = late
        """Whether the request timed out."""
        self.after = after
        """Seconds to wait before a retry, as requested by the provider."""
        self.answered = answered or status is not None
        """Whether the provider responded at all, even incompletely."""
