"""A recalled memory with the data that a context block shows of it."""

from typing import NamedTuple


class PackedMemory(NamedTuple):
    """A recalled memory with the data that the block needs."""

    id: str
    text: str
    created_at: int
    occurred_at: int | None = None
    title: str = ""
    speaker: str | None = None
    thread: str | None = None
    place: int | None = None
    score: float = 0.0
    spans: tuple[tuple[int, int], ...] = ()
    """Character ranges of the passages that matched, best first."""
    superseded_by: "PackedMemory | None" = None
    valid_until: int | None = None
    stale: str | None = None
    """What happened to a source of it, if it is stale."""
    untrusted: bool = False
    """It looks like a prompt injection."""
    cite: str = ""
    """A unique prefix of the id; empty: cite the whole id."""

    @property
    def at(self) -> int:
        return self.created_at if self.occurred_at is None else self.occurred_at


class Entry(NamedTuple):
    """A memory with those that it superseded, the current one last."""

    superseded: tuple[PackedMemory, ...]
    memory: PackedMemory
    texts: tuple[str, ...]
    """Their cleaned texts."""
    rivals: tuple[PackedMemory, ...] = ()
    """Memories that supersede each other in a cycle with the last one: unclear which is current."""

    @property
    def hits(self) -> tuple[PackedMemory, ...]:
        return (*self.superseded, self.memory)

    @property
    def without_superseded(self) -> "Entry":
        """The entry without the superseded memories."""
        return self._replace(superseded=(), texts=self.texts[-1:])

    @property
    def at(self) -> int:
        return self.hits[0].at

    @property
    def time_key(self) -> tuple[int, str, int, str]:
        first = self.hits[0]
        return first.at, first.thread or "", first.place or 0, first.id

    @property
    def rank_key(self) -> tuple[float, int, str]:
        return -max(hit.score for hit in self.hits), -self.at, self.memory.id
