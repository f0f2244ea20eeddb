"""What a purge leaves of a record: who, where in time, and that it is deleted."""

from typing import Any

PURGED = "purged"
"""The reason of a record whose content was erased."""


def has_content(record: Any) -> bool:
    """Whether a record was not purged yet."""
    return record.state != "deleted" or (getattr(record, "title", None) is not None and record.reason != PURGED)
