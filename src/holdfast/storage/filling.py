"""What a migration cannot say in SQL."""

from .port import Session
from .records import findable

PAGE = 500


def after(migration: int, session: Session) -> None:
    """Fill what a migration has added."""
    if migration == 3:
        _spell(session)


def _spell(session: Session) -> None:
    """What is written without blanks is found by its parts from now on."""
    last = 0
    while page := session.rows("memory_unspelled", after=last, limit=PAGE):
        for _, id, title, content, tags in page:
            texts = findable(title, content, tags)
            if texts.spelled:
                session.do("memory_spell", id=id, spelled=texts.spelled)
                session.index(id, texts)
        last = page[-1][0]
