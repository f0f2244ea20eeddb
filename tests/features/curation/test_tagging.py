"""Labels come from what a text speaks of, and first of all from those that others have."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.curation.tagging import labels
from holdfast.kernel.text.words import STOP

POOL = (
    "The connection pool of PostgreSQL keeps ten connections. The connection pool is shared by the workers of the "
    "server. PostgreSQL refuses more."
)


def tags(title: str, content: str, **more: object) -> list[str]:
    return [label.tag for label in labels(title, content, **more)]  # type: ignore[arg-type]


def test_what_is_said_again_is_a_label() -> None:
    assert tags("Limits", POOL) == ["connection-pool", "limits", "postgresql"]


def test_labels_of_the_namespace_come_first() -> None:
    assert tags("Limits", POOL, known={"server": 4, "the": 9, "kubernetes": 2})[0] == "server"
    assert "the" not in tags("Limits", POOL, known={"the": 9})


def test_a_label_that_the_text_has_is_not_given_again() -> None:
    assert "postgresql" not in tags("Limits", POOL, without=["PostgreSQL"])


def test_what_stands_everywhere_is_a_poor_label() -> None:
    assert tags("Limits", POOL, rarity=lambda word: 0.1 if word in ("connection", "pool") else 1.0) == [
        "limits",
        "postgresql",
        "connection-pool",
    ]


def test_of_a_text_that_repeats_nothing_the_rarest_words_are_labels() -> None:
    rare = {"kestrel": 5.0, "nests": 3.0}
    found = tags("On it", "A kestrel nests above our door.", rarity=lambda word: rare.get(word, 1.0))
    assert found[:2] == ["kestrel", "nests"]
    assert len(found) == 3


def test_words_without_blanks_are_taken_whole() -> None:
    assert tags("メモ帳", "数据库连接池很重要。我们使用数据库连接池。") == ["メモ帳", "数据库连接池"]


@given(st.lists(st.sampled_from([*sorted(STOP)[:30], "2026", "ab", "12", "--"]), max_size=30).map(" ".join))
def test_a_common_word_or_a_number_is_never_a_label(text: str) -> None:
    assert tags("the of", text) == []
