"""Data migrations: the Python part of migrations."""

from holdfast.kernel.journal.columns import findable, order_columns, texts_of
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.storage.index_terms import parse
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import emoji
from holdfast.kernel.text import minhash as gists

PAGE = 500


def after(migration: int, session: Session) -> None:
    """Run the Python part of a migration, if it has one."""
    if migration == 3:
        _parse(session)
    if migration == 11:
        _find_alike(session)
    if migration == 25:
        _name_emoji(session)


def _parse(session: Session) -> None:
    """Compute the index terms of every memory."""
    last = 0
    while page := session.rows("memory_unparsed", after=last, limit=PAGE):
        for _, id, title, content, tags in page:
            texts = findable(title, content, tags)
            session.do("memory_parse", id=id, spelled=texts.spelled, parsed=parse(title, content, tags))
            if texts.spelled:
                session.index(id, texts)
        last = page[-1][0]


def _find_alike(session: Session) -> None:
    """Compute the MinHash bands of every memory."""
    last = ""
    while page := session.assembled(("memory_parsed", "transfer.page"), {"after": last, "limit": PAGE}):
        for *row, parsed in page:
            memory = memory_of(tuple(row))
            gists.keep(session, memory.id, (), gists.numbers(memory, parsed))
        last = page[-1][0]


def _name_emoji(session: Session) -> None:
    """Index the emoji of every memory."""
    last = 0
    while page := session.rows("memory_unparsed", after=last, limit=PAGE):
        held = [id for _, id, *texts in page if any(map(emoji.names, texts))]
        for *row, before in session.assembled(("memory_parsed", "memory.some"), {"ids": held}) if held else ():
            memory = memory_of(tuple(row))
            made = order_columns(memory)
            session.do("memory_parse", id=memory.id, spelled=made["spelled"], parsed=made["parsed"])
            session.index(memory.id, texts_of(memory))
            gists.keep(session, memory.id, gists.numbers(memory, before), gists.numbers(memory, made["parsed"]))
        last = page[-1][0]
