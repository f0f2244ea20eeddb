"""Plain FTS5 search: the baseline that recall is compared with."""

from collections.abc import Sequence

import apsw

from holdfast.features.recall.quality.question_files import Item
from holdfast.kernel.text.words import query_words

_TABLE = "create virtual table kept using fts5 (content, tokenize = 'porter unicode61')"
_QUERY = "select rowid from kept where kept match ? order by rank limit ?"


class FullTextBaseline:
    """The texts of a scope in a separate in-memory table."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._keys = [item.key for item in items]
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(_TABLE)
        texts = enumerate(item_text(item) for item in items)
        self._connection.executemany("insert into kept (rowid, content) values (?, ?)", texts)

    def search(self, question: str, limit: int) -> list[str]:
        """Return keys best first: any of the words of a question except common ones, ranked by bm25."""
        words = " OR ".join(f'"{word}"' for word in query_words(question))
        found = self._connection.execute(_QUERY, (words, limit)) if words else ()
        return [self._keys[rowid] for (rowid,) in found]


def item_text(item: Item) -> str:
    """Return the text of a turn after its speaker, of anything else after its title."""
    head = item.fields.get("speaker") or item.fields["title"]
    return f"{head}: {item.fields['content']}"
