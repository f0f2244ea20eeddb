"""What remains of a record that was erased for good: who, where in time, and that it is deleted."""

from typing import Any

from msgspec.structs import replace

from .interaction import Interaction, erased
from .invalidation import Invalidation
from .link import Alias
from .memory import Memory
from .principal import Principal
from .skill import SkillVersion

WHY = "purged"
PURGEABLE = (Memory, Alias, Invalidation, Interaction, Principal, SkillVersion)
"""Kinds of records of which a stub can be left."""


def stub(record: Any) -> Any:
    """A record without anything that it said."""
    match record:
        case Memory():
            return replace(
                record,
                title=f"purged {record.id}",
                content="",
                state="deleted",
                reason=WHY,
                tags=(),
                metadata={},
                citations=(),
                source_uri=None,
                source_span=None,
                speaker=None,
                thread=None,
                extra={},
            )
        case Alias():
            return replace(record, name=WHY, folded="", state="deleted")
        case Invalidation():
            return replace(record, reason=WHY, state="deleted")
        case Interaction():
            return erased(record)
        case Principal():
            return replace(record, name="", stands_for=None, display="", state="deleted")
        case SkillVersion():
            return replace(record, description=WHY, frontmatter={}, composes=(), files=(), state="deleted")
        case _:
            raise TypeError(type(record).__name__)


def says(record: Memory | Interaction | Principal) -> bool:
    """Whether a record was not erased yet."""
    return record.state != "deleted" or (isinstance(record, Memory) and record.reason != WHY)
