"""Reader of knowledge graphs: entities, observations and relations as JSON lines or arrays."""

from collections.abc import Iterator
from typing import Any

from holdfast.features.importers.model import Note, Problem, Record, Tie, line
from holdfast.features.importers.readers.blocks import dict_of, text_of
from holdfast.features.importers.readers.json_lines import objects
from holdfast.features.importers.readers.reader import LOOKED_AT, Told, first_lines, named
from holdfast.features.importers.sources import Piece, watched

ARRAYS = {"entities": "entity", "relations": "relation"}


def is_entry(raw: dict[str, Any]) -> bool:
    return (raw.get("type") == "entity" and "name" in raw) or (raw.get("type") == "relation" and "from" in raw)


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read entities with their observations, and relations as texts and links."""
    graph = Graph("mcp-memory")
    for one in _entries(piece, told):
        if isinstance(one, Problem):
            yield one
        else:
            yield from _entry(graph, one[1], one[0])
    yield from graph.end()


def _entries(piece: Piece, told: Told) -> Iterator[tuple[str, dict[str, Any]] | Problem]:
    """Entries of the server's JSON lines file, or of the two arrays of `read_graph`."""
    is_lines = any(map(is_entry, first_lines(piece, LOOKED_AT)))
    with watched(piece, told) as source:
        if is_lines:
            yield from objects(source, piece.name)
            return
        for place, name, raw in named(source, piece.name):
            if isinstance(raw, Problem):
                yield raw
            elif name in ARRAYS:
                yield place, {"type": ARRAYS[name], **dict_of(raw)}


def _entry(graph: "Graph", raw: dict[str, Any], where: str) -> Iterator[Record]:
    name, source, target = (text_of(raw.get(field)) for field in ("name", "from", "to"))
    if raw.get("type") == "entity" and name.strip():
        observations, odd = _observed(raw.get("observations"), where)
        yield from odd
        yield graph.entity(name, text_of(raw.get("entityType")), observations, where)
    elif raw.get("type") == "relation" and source and target:
        yield from graph.relation(source, text_of(raw.get("relationType")) or "related to", target, where)
    else:
        yield Problem(where=where, what="neither an entity with a name nor a relation between two")


def _observed(seen: Any, where: str) -> tuple[list[str], list[Problem]]:
    """Parse observations: text or a list of texts. Also returns problems."""
    if seen is None:
        return [], []
    if not isinstance(seen, str | list):
        return [], [Problem(where=f"{where} observations", what="neither text nor a list of texts")]
    each = [seen] if isinstance(seen, str) else seen
    odd = [
        Problem(where=f"{where} observations[{number}]", what="not text")
        for number, one in enumerate(each)
        if not isinstance(one, str)
    ]
    return [one for one in each if isinstance(one, str) and one.strip()], odd


class Graph:
    """Graph while it is read. Links come last, when both ends are known."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._named: set[str] = set()
        self._ties: list[Tie] = []

    def entity(self, name: str, kind: str, observed: list[str], where: str) -> Note:
        self._named.add(name)
        tag = line(kind.replace(",", " "), 64)
        return Note(
            key=self._key(name),
            title=line(name),
            content="\n".join(observed) or name,
            kind="entity",
            tags=(tag,) if tag else (),
            uri=f"uri:{self._form}:{line(name)}",
            where=where,
        )

    def named(self, name: str, where: str) -> Iterator[Note]:
        """Yield an entity known only by name, once."""
        if name not in self._named:
            yield self.entity(name, "", [], where)

    def relation(self, source: str, relation: str, target: str, where: str) -> Iterator[Record]:
        text = f"{source} {relation} {target}"
        key = f"{self._form}/relation/{source}\x00{relation}\x00{target}"
        yield Note(
            key=key, title=line(text), content=text, kind="relation", uri=f"uri:{self._form}:{line(text)}", where=where
        )
        self._ties.append(Tie(source=self._key(source), target=self._key(target), where=where))
        self._ties += [Tie(source=key, target=self._key(end), where=where) for end in dict.fromkeys((source, target))]

    def end(self) -> Iterator[Tie]:
        return (tie for tie in dict.fromkeys(self._ties) if tie.source != tie.target)

    def _key(self, name: str) -> str:
        return f"{self._form}/entity/{name}"
