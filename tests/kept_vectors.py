"""The vectors that a store keeps, as they lie in their table."""

from holdfast.features.embeddings.store import Kept
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Vector


def page(session: Session, limit: int = 100) -> list[Kept]:
    """Every one, those of deleted memories too, in the order of their keys."""
    rows = session.ask(
        f"select {', '.join(Kept._fields)} from embedding order by memory, model, begins limit :limit", {"limit": limit}
    )
    return [Kept(*row)._replace(vector=Vector(row[-1])) for row in rows]
