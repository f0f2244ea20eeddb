"""Options of an import and outcomes of its rows."""

from typing import Literal

from msgspec import Struct

from holdfast.kernel.records.memory import OnConflict
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope

Outcome = Literal["imported", "merged", "unchanged", "older"]
"""imported: new. merged: changed an existing record. unchanged: identical. older: a later state exists."""


class Options(Struct, frozen=True, kw_only=True):
    preserve_timestamps: bool = True
    trust_source: bool = True
    """Keep the owners from the file; otherwise the importer becomes the owner."""
    on_conflict: OnConflict = "merge"
    check_rights: bool = False
    """Require the caller's write permission for every record, not only reach."""
    scope: PeerScope = FULL_SCOPE
    """Namespaces accepted from the sending peer."""
