"""Reader of mem0 exports: statements and relations."""

from collections.abc import Iterator
from typing import Any

from holdfast.features.importers.model import Note, Problem, Record, to_one_line
from holdfast.features.importers.readers.blocks import as_dict, as_list, as_text
from holdfast.features.importers.readers.graph import Graph
from holdfast.features.importers.readers.reader import ProgressCallback, read_members
from holdfast.features.importers.sources import Piece, open_with_progress

STATEMENTS = (None, "results", "memories", "data")
_OWNER_FIELDS = ("user_id", "agent_id", "run_id", "app_id", "actor_id")


def is_statement(raw: Any) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("memory"), str) and "title" not in raw


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read statements as facts, and relations as texts and links."""
    graph = Graph("mem0")
    with open_with_progress(piece, on_read) as source:
        for where, name, raw in read_members(source, piece.name):
            if isinstance(raw, Problem):
                yield raw
            elif name in STATEMENTS:
                yield _make_note(as_dict(raw), where)
            elif name == "relations":
                yield from _read_relation(graph, as_dict(raw), where)
        yield from graph.list_links()


def _make_note(raw: dict[str, Any], where: str) -> Record:
    id, text = as_text(raw.get("id")), as_text(raw.get("memory")) or as_text(raw.get("text"))
    if not id or not text.strip():
        return Problem(where=where, what="not a memory: id and memory are required")
    metadata = as_dict(raw.get("metadata"))
    return Note(
        key=f"mem0/{id}",
        title=f"{to_one_line(text, 80)} · {id[:8]}",
        content=text,
        kind="fact",
        tags=tuple(
            tag for one in as_list(raw.get("categories")) if (tag := to_one_line(as_text(one).replace(",", " "), 64))
        ),
        at=raw.get("created_at"),
        uri=f"uri:mem0:{id}",
        where=where,
        metadata={**metadata, **{name: raw[name] for name in _OWNER_FIELDS if raw.get(name)}},
    )


def _read_relation(graph: Graph, raw: dict[str, Any], where: str) -> Iterator[Record]:
    source, target = as_text(raw.get("source")), as_text(raw.get("destination")) or as_text(raw.get("target"))
    name = as_text(raw.get("relationship")) or as_text(raw.get("relation"))
    if not (source and target and name):
        yield Problem(where=where, what="not a relation: source, relationship and destination are required")
        return
    for end in (source, target):
        yield from graph.mention_entity(end, where)
    yield from graph.make_relation(source, name, target, where)
