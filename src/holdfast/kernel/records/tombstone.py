"""Tombstones: what remains of a purged record."""

from typing import Any

PURGED = "purged"
"""The reason of a record whose content was erased."""


def has_content(record: Any) -> bool:
    """Whether a record still has its content, that is, was not purged."""
    return record.state != "deleted" or (getattr(record, "title", None) is not None and record.reason != PURGED)
