"""What became of everything that was read, as far as it was."""

from collections import Counter
from typing import Literal, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.text import secrets

MOST_PROBLEMS = 200
"""That many are told one by one; of the others, how many there are."""
MOST_SAMPLES = 5
SHOWN = 200
"""Characters of a sample."""

Outcome = Literal["stored", "updated", "unchanged", "joined", "left"]
"""New; changed at the source; here already; here by another way; or put away or rewritten here, and left so."""


class Sample(NamedTuple):
    title: str
    speaker: str | None
    content: str
    source_uri: str | None


class Report:
    """Counts of what was done, and what was wrong."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.kinds: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.threads = 0
        self.short = 0
        """Conversations with fewer messages than were asked for."""
        self.older = 0
        """What came from a newer export before."""
        self.went_back = 0
        """What says again what it said before."""
        self.links = 0
        self.adrift: set[tuple[str, str]] = set()
        """Where something stands that is not linked, and with what."""
        self.rejected = 0
        self.noted = 0
        self.problems: list[Problem] = []
        self.samples: list[Sample] = []
        self.fault: HoldfastError | None = None
        """Why the first thing that was refused was."""
        self.first: str | None = None
        """The memory that the first thing is."""

    @property
    def empty(self) -> bool:
        """Whether there was nothing at all, good or bad."""
        counted = (*self.outcomes.values(), *self.left_out.values())
        return not any((*counted, self.threads, self.short, self.older, self.links, self.rejected, self.noted))

    def problem(self, problem: Problem) -> None:
        self.rejected += problem.rejected
        self.noted += not problem.rejected
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def error(self, where: str, error: HoldfastError) -> None:
        self.fault = self.fault or error
        self.problem(Problem(where=where, what=error.message))

    def done(self, outcome: Outcome, draft: Draft) -> None:
        self.outcomes[outcome] += 1
        if outcome not in ("stored", "updated"):
            return
        self.kinds[str(draft.kind)] += 1
        if len(self.samples) < MOST_SAMPLES:
            speaker, uri = draft.speaker or None, draft.source_uri or None
            self.samples.append(Sample(draft.title, speaker, _shown(draft.content), uri))


def _shown(text: str) -> str:
    """The beginning of a text, without what nobody should read over a shoulder."""
    return secrets.redacted(text[: 10 * SHOWN])[0][:SHOWN]
