"""Data migrations: the Python part of migrations.

They run after the scripts of all migrations, because their statements use the newest names of tables and columns.
"""

from collections.abc import Iterable

from holdfast.kernel.journal.kinds import build_texts, load_memory, search_columns, searchable_texts
from holdfast.kernel.storage.index_terms import encode_terms, memory_hashes, update_hashes
from holdfast.kernel.storage.migrations import Migration
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import emoji_words

PAGE_SIZE = 500


def apply_data_migrations(applied: Iterable[Migration], session: Session) -> None:
    """Run the Python parts of migrations whose scripts were just applied."""
    for migration in applied:
        match migration.number:
            case 3:
                _index_terms(session)
            case 11:
                _add_minhashes(session)
            case 25:
                _index_emoji(session)


def _index_terms(session: Session) -> None:
    """Compute the index terms of every memory."""
    last = 0
    while page := session.rows("memory_without_terms", after=last, limit=PAGE_SIZE):
        for _, id, title, content, tags in page:
            texts = build_texts(title, content, tags)
            session.do("memory_set_terms", id=id, bigrams=texts.bigrams, index_terms=encode_terms(title, content, tags))
            if texts.bigrams:
                session.index_memory(id, texts)
        last = page[-1][0]


def _add_minhashes(session: Session) -> None:
    """Compute the MinHash bands of every memory."""
    last = ""
    while page := session.select(("memory_index_terms", "transfer.page"), {"after": last, "limit": PAGE_SIZE}):
        for *row, index_terms in page:
            memory = load_memory(tuple(row))
            update_hashes(session, memory.id, (), memory_hashes(memory, index_terms))
        last = page[-1][0]


def _index_emoji(session: Session) -> None:
    """Index the emoji of every memory."""
    last = 0
    while page := session.rows("memory_without_terms", after=last, limit=PAGE_SIZE):
        held = [id for _, id, *texts in page if any(map(emoji_words, texts))]
        for *row, before in session.select(("memory_index_terms", "memory.some"), {"ids": held}) if held else ():
            memory = load_memory(tuple(row))
            made = search_columns(memory)
            session.do("memory_set_terms", id=memory.id, bigrams=made["bigrams"], index_terms=made["index_terms"])
            session.index_memory(memory.id, searchable_texts(memory))
            update_hashes(session, memory.id, memory_hashes(memory, before), memory_hashes(memory, made["index_terms"]))
        last = page[-1][0]
