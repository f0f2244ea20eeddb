"""Report of an import: row counts for every table, reasons and problems."""

from collections import Counter
from typing import Literal

from holdfast.features.importers.model import Problem

MAX_PROBLEMS = 200
RowResult = Literal["stored", "unchanged", "left", "left_out", "rejected"]
"""New; already imported; changed since and kept as it is here; omitted on purpose; or rejected with a reason."""


class RowSkipped(Exception):
    """Skip a valid row."""

    def __init__(self, why: str, result: RowResult = "left") -> None:
        super().__init__(why)
        self.why = why
        self.result = result


class Report:
    """Row counts for every table."""

    def __init__(self) -> None:
        self.tables: dict[str, Counter[RowResult]] = {}
        self.reasons: dict[str, Counter[str]] = {}
        """Number of rows not imported, or only in part, by table and reason."""
        self.problems: list[Problem] = []
        self.rejected = 0
        self.noted = 0

    def count_rows(self, table: str, result: RowResult, number: int = 1) -> None:
        self.tables.setdefault(table, Counter())[result] += number

    def add_reason(self, table: str, why: str, number: int = 1) -> None:
        self.reasons.setdefault(table, Counter())[why] += number

    def add_problem(self, where: str, what: str, *, rejected: bool) -> None:
        self.rejected += rejected
        self.noted += not rejected
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(where=where, what=what, rejected=rejected))
