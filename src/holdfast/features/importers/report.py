"""Counts, problems and samples of an import."""

from collections import Counter
from typing import Literal, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.text import content_scan

MAX_PROBLEMS = 200
"""Listed problems; further ones are only counted."""
MAX_SAMPLES = 5
MAX_SAMPLE_CHARS = 200
"""Characters of a sample."""

Outcome = Literal["stored", "updated", "unchanged", "joined", "left"]
"""stored: new. updated: changed at the source. unchanged: identical. joined: already captured or imported another way.
left: archived or edited here, not changed."""


class Sample(NamedTuple):
    title: str
    speaker: str | None
    content: str
    source_uri: str | None


class Report:
    """Collects outcomes and problems of an import."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.kinds: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.conversations = 0
        self.short_conversations = 0
        """Conversations with fewer messages than `min_messages`."""
        self.older_than_here = 0
        """Memories already imported from a newer export."""
        self.reverts = 0
        """Memories reverted to an earlier text."""
        self.links = 0
        self.missing_links: set[tuple[str, str]] = set()
        """Missing link targets that were reported, by place."""
        self.rejected = 0
        self.noted = 0
        self.problems: list[Problem] = []
        self.samples: list[Sample] = []
        self.first_error: HoldfastError | None = None
        """Error of the first rejected record."""
        self.first_memory: str | None = None
        """Memory id of the first record."""

    @property
    def is_empty(self) -> bool:
        """Whether the source contained nothing, not even problems."""
        counts = (*self.outcomes.values(), *self.left_out.values())
        return not any(
            (
                *counts,
                self.conversations,
                self.short_conversations,
                self.older_than_here,
                self.links,
                self.rejected,
                self.noted,
            )
        )

    def add_problem(self, problem: Problem) -> None:
        self.rejected += problem.rejected
        self.noted += not problem.rejected
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def add_error(self, where: str, error: HoldfastError) -> None:
        self.first_error = self.first_error or error
        self.add_problem(Problem(where=where, what=error.message))

    def add_outcome(self, outcome: Outcome, draft: Draft) -> None:
        self.outcomes[outcome] += 1
        if outcome not in ("stored", "updated"):
            return
        self.kinds[str(draft.kind)] += 1
        if len(self.samples) < MAX_SAMPLES:
            speaker, uri = draft.speaker or None, draft.source_uri or None
            self.samples.append(Sample(draft.title, speaker, _sample_text(draft.content), uri))


def _sample_text(text: str) -> str:
    """Beginning of a text, with secrets redacted."""
    return content_scan.redact_text(text[: 10 * MAX_SAMPLE_CHARS])[0][:MAX_SAMPLE_CHARS]
