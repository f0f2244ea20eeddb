"""Why a provider gave no answer, in words that go on after its name."""


class Failure(Exception):
    """No answer. Neither a key nor anything that a provider sent is in it: what it sends may repeat the key."""

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
        """Whether the provider surely did nothing, so that it has nothing to charge and may be asked again."""
        self.late = late
        """Whether the whole time limit went by."""
        self.after = after
        """For how many seconds the provider asks to be left alone."""
        self.answered = answered or status is not None
        """Whether the provider said something, if nothing of use or not to its end."""
