"""The vectors that a store keeps, as they lie in their table."""

from holdfast.domain.vector import Vector
from holdfast.storage.port import Session
from holdfast.storage.vectors import Kept


def page(session: Session, after: tuple[str, str] = ("", ""), limit: int = 100) -> list[Kept]:
    """Every one, those of deleted memories too, on from a memory and a model."""
    rows = session.ask(
        f"select {', '.join(Kept._fields)} from embedding where (memory, model) > (:memory, :model)"
        " order by memory, model limit :limit",
        {"memory": after[0], "model": after[1], "limit": limit},
    )
    return [Kept(*row)._replace(vector=Vector(row[5])) for row in rows]
