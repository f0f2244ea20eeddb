"""Reader of knowledge graphs: entities, observations and relations as JSON lines or arrays."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from holdfast.features.importers.model import Note, NoteLink, Problem, Record, to_one_line
from holdfast.features.importers.readers.blocks import as_dict, as_text
from holdfast.features.importers.readers.json_elements import read_objects
from holdfast.features.importers.readers.reader import (
    PROBE_COUNT,
    ProgressCallback,
    apply_reader,
    read_first_lines,
    read_members,
)
from holdfast.features.importers.sources import Piece, open_with_progress

ARRAYS = {"entities": "entity", "relations": "relation"}


def is_entry(raw: dict[str, Any]) -> bool:
    return (raw.get("type") == "entity" and "name" in raw) or (raw.get("type") == "relation" and "from" in raw)


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read entities with their observations, and relations as texts and links."""
    graph = Graph("mcp-memory")
    yield from apply_reader(_read_entries(piece, on_read), partial(_read_entry, graph))
    yield from graph.list_links()


def _read_entries(piece: Piece, on_read: ProgressCallback) -> Iterator[tuple[str, dict[str, Any]] | Problem]:
    """Entries of the server's JSON lines file, or of the two arrays of `read_graph`."""
    is_lines = any(map(is_entry, read_first_lines(piece, PROBE_COUNT)))
    with open_with_progress(piece, on_read) as source:
        if is_lines:
            yield from read_objects(source, piece.name)
            return
        for place, name, raw in read_members(source, piece.name):
            if isinstance(raw, Problem):
                yield raw
            elif name in ARRAYS:
                yield place, {"type": ARRAYS[name], **as_dict(raw)}


def _read_entry(graph: "Graph", raw: dict[str, Any], where: str) -> Iterator[Record]:
    name, source, target = (as_text(raw.get(field)) for field in ("name", "from", "to"))
    if raw.get("type") == "entity" and name.strip():
        observations, odd = _parse_observations(raw.get("observations"), where)
        yield from odd
        yield graph.make_entity(name, as_text(raw.get("entityType")), observations, where)
    elif raw.get("type") == "relation" and source and target:
        yield from graph.make_relation(source, as_text(raw.get("relationType")) or "related to", target, where)
    else:
        yield Problem(where=where, what="neither an entity with a name nor a relation between two")


def _parse_observations(raw: Any, where: str) -> tuple[list[str], list[Problem]]:
    """Parse observations: text or a list of texts. Also returns problems."""
    if raw is None:
        return [], []
    if not isinstance(raw, str | list):
        return [], [Problem(where=f"{where} observations", what="neither text nor a list of texts")]
    each = [raw] if isinstance(raw, str) else raw
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
        self._seen_names: set[str] = set()
        self._links: list[NoteLink] = []

    def make_entity(self, name: str, kind: str, observations: list[str], where: str) -> Note:
        self._seen_names.add(name)
        tag = to_one_line(kind.replace(",", " "), 64)
        return Note(
            key=self._key(name),
            title=to_one_line(name),
            content="\n".join(observations) or name,
            kind="entity",
            tags=(tag,) if tag else (),
            uri=f"uri:{self._form}:{to_one_line(name)}",
            where=where,
        )

    def mention_entity(self, name: str, where: str) -> Iterator[Note]:
        """Yield an entity known only by name, once."""
        if name not in self._seen_names:
            yield self.make_entity(name, "", [], where)

    def make_relation(self, source: str, relation: str, target: str, where: str) -> Iterator[Record]:
        text = f"{source} {relation} {target}"
        key = f"{self._form}/relation/{source}\x00{relation}\x00{target}"
        yield Note(
            key=key,
            title=to_one_line(text),
            content=text,
            kind="relation",
            uri=f"uri:{self._form}:{to_one_line(text)}",
            where=where,
        )
        self._links.append(NoteLink(source=self._key(source), target=self._key(target), where=where))
        self._links += [
            NoteLink(source=key, target=self._key(end), where=where) for end in dict.fromkeys((source, target))
        ]

    def list_links(self) -> Iterator[NoteLink]:
        return (tie for tie in dict.fromkeys(self._links) if tie.source != tie.target)

    def _key(self, name: str) -> str:
        return f"{self._form}/entity/{name}"
