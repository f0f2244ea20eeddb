"""Reader of mem0 exports: statements and relations."""

from collections.abc import Iterator
from typing import Any

from holdfast.features.importers.model import Note, Problem, Record, line
from holdfast.features.importers.readers.blocks import dict_of, list_of, text_of
from holdfast.features.importers.readers.graph import Graph
from holdfast.features.importers.readers.reader import Told, named
from holdfast.features.importers.sources import Piece, watched

STATEMENTS = (None, "results", "memories", "data")
_WHOSE = ("user_id", "agent_id", "run_id", "app_id", "actor_id")


def is_statement(raw: Any) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("memory"), str) and "title" not in raw


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read statements as facts, and relations as texts and links."""
    graph = Graph("mem0")
    with watched(piece, told) as source:
        for where, name, raw in named(source, piece.name):
            if isinstance(raw, Problem):
                yield raw
            elif name in STATEMENTS:
                yield _statement(dict_of(raw), where)
            elif name == "relations":
                yield from _relation(graph, dict_of(raw), where)
        yield from graph.end()


def _statement(raw: dict[str, Any], where: str) -> Record:
    id, text = text_of(raw.get("id")), text_of(raw.get("memory")) or text_of(raw.get("text"))
    if not id or not text.strip():
        return Problem(where=where, what="not a memory: id and memory are required")
    metadata = dict_of(raw.get("metadata"))
    return Note(
        key=f"mem0/{id}",
        title=f"{line(text, 80)} · {id[:8]}",
        content=text,
        kind="fact",
        tags=tuple(tag for one in list_of(raw.get("categories")) if (tag := line(text_of(one).replace(",", " "), 64))),
        at=raw.get("created_at"),
        uri=f"uri:mem0:{id}",
        where=where,
        metadata={**metadata, **{name: raw[name] for name in _WHOSE if raw.get(name)}},
    )


def _relation(graph: Graph, raw: dict[str, Any], where: str) -> Iterator[Record]:
    source, target = text_of(raw.get("source")), text_of(raw.get("destination")) or text_of(raw.get("target"))
    name = text_of(raw.get("relationship")) or text_of(raw.get("relation"))
    if not (source and target and name):
        yield Problem(where=where, what="not a relation: source, relationship and destination are required")
        return
    for end in (source, target):
        yield from graph.named(end, where)
    yield from graph.relation(source, name, target, where)
