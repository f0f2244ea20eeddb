"""How an import goes about what is there already, and what becomes of each row."""

from typing import Literal

from msgspec import Struct

from holdfast.kernel.records.memory import OnConflict
from holdfast.kernel.records.namespace_patterns import ALL, Scope

Outcome = Literal["imported", "merged", "unchanged", "older"]
"""New; made one with what was there; there already; or there in a later state, which stays."""


class Options(Struct, frozen=True, kw_only=True):
    preserve_timestamps: bool = True
    trust_source: bool = True
    """Whether a memory stays its owner's, or becomes the importer's."""
    on_conflict: OnConflict = "merge"
    check_rights: bool = False
    """Whether only that is written which the caller may write by hand; else all that lies where it reaches."""
    scope: Scope = ALL
    """What is taken from the peer that sends it."""
