"""Links between memories: who points where, from when, until when."""

from ..domain.link import Link
from ..storage import memories
from ..storage.port import Session
from .hold import Hold


def links_of(hold: Hold, session: Session, id: str) -> list[Link]:
    """Every link at a memory, either way, whose other end the caller may see."""
    found = [Link(*row) for row in session.rows("link_touching", ids=[id])]
    ends = {end for link in found for end in (link.source, link.target)}
    seen = memories.by_ids(session, hold.caller, ends, hold.now(), view="kept")
    return [link for link in found if link.source in seen and link.target in seen]
