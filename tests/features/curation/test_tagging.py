"""Tags come from the words of a text, and first from the tags of the namespace."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.curation.suggest_tags import extract_tags
from holdfast.kernel.text.words import STOP

POOL = (
    "The connection pool of PostgreSQL keeps ten connections. The connection pool is shared by the workers of the "
    "server. PostgreSQL refuses more."
)


def tags(title: str, content: str, **more: object) -> list[str]:
    return [label.tag for label in extract_tags(title, content, **more)]  # type: ignore[arg-type]


def test_repeated_words_become_tags() -> None:
    assert tags("Limits", POOL) == ["connection-pool", "limits", "postgresql"]


def test_tags_of_the_namespace_come_first() -> None:
    assert tags("Limits", POOL, known={"server": 4, "the": 9, "kubernetes": 2})[0] == "server"
    assert "the" not in tags("Limits", POOL, known={"the": 9})


def test_existing_tags_are_not_suggested_again() -> None:
    assert "postgresql" not in tags("Limits", POOL, existing=["PostgreSQL"])


def test_words_common_elsewhere_are_poor_tags() -> None:
    assert tags("Limits", POOL, rarity=lambda word: 0.1 if word in ("connection", "pool") else 1.0) == [
        "limits",
        "postgresql",
        "connection-pool",
    ]


def test_without_repetitions_the_rarest_words_become_tags() -> None:
    rare = {"kestrel": 5.0, "nests": 3.0}
    found = tags("On it", "A kestrel nests above our door.", rarity=lambda word: rare.get(word, 1.0))
    assert found[:2] == ["kestrel", "nests"]
    assert len(found) == 3


def test_words_in_scripts_without_spaces_are_kept_whole() -> None:
    assert tags("メモ帳", "数据库连接池很重要。我们使用数据库连接池。") == ["メモ帳", "数据库连接池"]


@given(st.lists(st.sampled_from([*sorted(STOP)[:30], "2026", "ab", "12", "--"]), max_size=30).map(" ".join))
def test_common_words_and_numbers_are_never_tags(text: str) -> None:
    assert tags("the of", text) == []
