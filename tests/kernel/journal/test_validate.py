"""Validation of memories: every rule at its limits, measured in bytes."""

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Citation, Memory, Span
from holdfast.kernel.records.validate import Draft, Lifetimes, memory_from_draft
from holdfast.kernel.timestamps import SECOND, parse_timestamp

NOW = parse_timestamp("2026-01-31T09:00:00Z", "now")


def validate_fields(**fields: Any) -> Memory:
    draft = Draft(**{"title": "Deploy day", "content": "We deploy on Tuesdays."} | fields)
    return memory_from_draft(draft, id="id-1", agent="ai:a@h", origin="n.1", now=NOW, lifetimes=Lifetimes())


def refused_field(**fields: Any) -> str:
    """Return the field named in the error of a rejected draft."""
    with pytest.raises(Invalid) as error:
        validate_fields(**fields)
    [field] = error.value.details["fields"]
    assert error.value.message.startswith(f"{field}: ")
    return str(field)


def nest(depth: int, leaf: Any = 1) -> dict[str, Any]:
    """Nest `depth` objects and arrays."""
    value: Any = leaf
    for level in range(depth - 1):
        value = [value] if level % 2 else {"k": value}
    return {"k": value}


def test_a_draft_becomes_a_complete_memory() -> None:
    assert validate_fields() == Memory(
        id="id-1",
        namespace="global",
        title="Deploy day",
        content="We deploy on Tuesdays.",
        kind="observation",
        category=None,
        tier="long",
        priority=5,
        confidence=1.0,
        source="api",
        scope="collective",
        agent="ai:a@h",
        tags=(),
        metadata={},
        citations=(),
        source_uri=None,
        source_span=None,
        reflection_depth=0,
        valid_from=None,
        valid_until=None,
        speaker=None,
        occurred_at=None,
        thread=None,
        place=None,
        expires_at=None,
        state="live",
        reason=None,
        created_at=NOW,
        updated_at=NOW,
        origin="n.1",
        version=1,
        extra={},
    )


TWO_BYTES, FOUR_BYTES = "é", "\U0001f600"

LARGEST = {
    "title": {"title": TWO_BYTES * 256},
    "content": {"content": FOUR_BYTES * 16_384},
    "namespace": {"namespace": TWO_BYTES * 256},
    "segments": {"namespace": "a/b/c/d/e/f/g/h"},
    "tag": {"tags": (TWO_BYTES * 64,)},
    "tags": {"tags": tuple(str(n) for n in range(50))},
    "metadata": {"metadata": {"k": "x" * (65_536 - len('{"k":""}'))}},
    "depth": {"metadata": nest(32)},
    "number": {"metadata": {"k": [2**64 - 1, -(2**63), 1e308]}},
    "priority-least": {"priority": 1},
    "priority-most": {"priority": 10},
    "confidence-least": {"confidence": 0.0},
    "confidence-most": {"confidence": 1.0},
    "ttl-least": {"ttl_secs": 1},
    "ttl-most": {"ttl_secs": 365 * 86_400},
    "expiry": {"expires_at": NOW + 1},
    "source-uri": {"source_uri": "uri:" + "x" * 4092},
    "source-span": {"source_span": Span(0, 1)},
    "citations": {"citations": (Citation("doc:a", "2026-01-31", "0f" * 32, Span(1, 2)),) * 64},
    "speaker": {"speaker": TWO_BYTES * 256},
    "validity": {"valid_from": 1, "valid_until": 2},
}


@pytest.mark.parametrize("fields", LARGEST.values(), ids=LARGEST.keys())
def test_a_field_at_its_limit_is_accepted_unchanged(fields: dict[str, Any]) -> None:
    memory = validate_fields(**fields)
    assert {name: getattr(memory, name) for name in fields if name != "ttl_secs"} == {
        name: value for name, value in fields.items() if name != "ttl_secs"
    }


TOO_MUCH = {
    "title": ("title", {"title": TWO_BYTES * 256 + "x"}),
    "content": ("content", {"content": FOUR_BYTES * 16_384 + "x"}),
    "namespace": ("namespace", {"namespace": TWO_BYTES * 256 + "x"}),
    "segments": ("namespace", {"namespace": "a/b/c/d/e/f/g/h/i"}),
    "tag": ("tags", {"tags": (TWO_BYTES * 64 + "x",)}),
    "tags": ("tags", {"tags": tuple(str(n) for n in range(51))}),
    "metadata": ("metadata", {"metadata": {"k": "x" * (65_537 - len('{"k":""}'))}}),
    "depth": ("metadata", {"metadata": nest(33)}),
    "very-deep": ("metadata", {"metadata": nest(5000)}),
    "number": ("metadata", {"metadata": {"k": 2**64}}),
    "long-number": ("metadata", {"metadata": {"k": -(10**5000)}}),
    "priority-least": ("priority", {"priority": 0}),
    "priority-most": ("priority", {"priority": 11}),
    "confidence-least": ("confidence", {"confidence": -0.001}),
    "confidence-most": ("confidence", {"confidence": 1.001}),
    "confidence-nan": ("confidence", {"confidence": float("nan")}),
    "ttl-least": ("ttl_secs", {"ttl_secs": 0}),
    "ttl-negative": ("ttl_secs", {"ttl_secs": -1}),
    "ttl-most": ("ttl_secs", {"ttl_secs": 365 * 86_400 + 1}),
    "expiry": ("expires_at", {"expires_at": NOW}),
    "source-uri": ("source_uri", {"source_uri": "uri:" + "x" * 4093}),
    "source-span": ("source_span", {"source_span": Span(1, 1)}),
    "source-span-negative": ("source_span", {"source_span": Span(-1, 1)}),
    "citations": ("citations", {"citations": (Citation("doc:a", "2026-01-31"),) * 65}),
    "citation-hash": ("citations.hash", {"citations": (Citation("doc:a", "2026-01-31", "0F" * 32),)}),
    "citation-span": ("citations.span", {"citations": (Citation("doc:a", "2026-01-31", None, Span(2, 1)),)}),
    "citation-time": ("citations.accessed_at", {"citations": (Citation("doc:a", "lately"),)}),
    "citation-uri": ("citations", {"citations": (Citation(" ", "2026-01-31"),)}),
    "speaker": ("speaker", {"speaker": TWO_BYTES * 256 + "x"}),
    "validity": ("valid_until", {"valid_from": 2, "valid_until": 2}),
}


@pytest.mark.parametrize(("field", "fields"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_field_beyond_its_limit_is_refused_by_name(field: str, fields: dict[str, Any]) -> None:
    assert refused_field(**fields) == field


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u3000"], ids=ascii)
@pytest.mark.parametrize("field", ["title", "content", "namespace", "speaker", "thread", "source_uri"])
def test_blank_text_is_refused(field: str, blank: str) -> None:
    assert refused_field(**{field: blank}) == field


def test_a_blank_tag_is_refused() -> None:
    assert refused_field(tags=("ok", " ")) == "tags"


@pytest.mark.parametrize("field", ["title", "content", "namespace", "speaker", "thread", "source_uri"])
@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"], ids=["NUL", "lone-surrogate"])
def test_unstorable_characters_are_refused_in_every_text(field: str, text: str) -> None:
    assert refused_field(**{field: "uri:" * (field == "source_uri") + text}) == field


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"], ids=["NUL", "lone-surrogate"])
def test_unstorable_characters_are_refused_in_tags_metadata_and_citations(text: str) -> None:
    assert refused_field(tags=(text,)) == "tags"
    assert refused_field(metadata={"k": [text]}) == "metadata"
    assert refused_field(metadata={text: 1}) == "metadata"
    assert refused_field(citations=(Citation(text, "2026-01-31"),)) == "citations"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), b"bytes", {1, 2}, object()],
    ids=["nan", "inf", "minus-inf", "bytes", "set", "object"],
)
def test_metadata_that_is_not_json_is_refused(value: Any) -> None:
    assert refused_field(metadata={"k": {"deep": [value]}}) == "metadata"


@pytest.mark.parametrize("control", ["\x07", "\r", "\x1b[31m", "\x7f"], ids=ascii)
def test_control_characters_are_refused_in_names_but_allowed_in_content(control: str) -> None:
    assert refused_field(title=f"a{control}b") == "title"
    assert refused_field(tags=(f"a{control}b",)) == "tags"
    assert refused_field(speaker=f"a{control}b") == "speaker"
    assert validate_fields(content=f"a{control}b").content == f"a{control}b"


def test_line_ends_and_tabs_are_text() -> None:
    assert validate_fields(title="a\n\tb").title == "a\n\tb"


@pytest.mark.parametrize(
    "namespace",
    [
        "../../etc",
        "a/../b",
        "a/./b",
        "/a",
        "a/",
        "a//b",
        "a b",
        "a\n",
        "a\\b",
        "a\tb",
        "\x7f",
        ".",
        "..",
        "/",
        "*",
        "a/*",
        "a\u200b",
        "\u202ea",
    ],
)
def test_an_ambiguous_namespace_is_refused(namespace: str) -> None:
    assert refused_field(namespace=namespace) == "namespace"


@pytest.mark.parametrize("namespace", ["a", "A", "a/b", "ab", "%2e%2e%2f", "a.b", "...", "日本/東京", "_system"])
def test_a_plain_namespace_is_unchanged(namespace: str) -> None:
    assert validate_fields(namespace=namespace).namespace == namespace


def test_titles_and_namespaces_are_normalised_so_that_lookalikes_are_equal() -> None:
    assert validate_fields(title="  Cafe\u0301 ", namespace="cafe\u0301").title == "Caf\u00e9"
    assert validate_fields(title="x", namespace="cafe\u0301").namespace == "caf\u00e9"


def test_content_is_stored_unchanged() -> None:
    assert validate_fields(content="  [draft]\r\nCafe\u0301  ").content == "  [draft]\r\nCafe\u0301  "


def test_tags_are_trimmed_and_deduplicated_in_order() -> None:
    assert validate_fields(tags=(" b ", "a", "b")).tags == ("b", "a")


def test_a_tag_cannot_contain_a_comma() -> None:
    assert refused_field(tags=("a,b",)) == "tags"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tier", "eternal"),
        ("tier", "LONG"),
        ("kind", "thought"),
        ("category", "misc"),
        ("scope", "public"),
        ("source", "elsewhere"),
        ("source", ""),
    ],
)
def test_a_value_outside_its_enumeration_is_refused(field: str, value: str) -> None:
    assert refused_field(**{field: value}) == field


@pytest.mark.parametrize("uri", ["http://a", "uri:", "URI:a", "file", "doc", " uri:a"])
def test_a_source_uri_has_a_scheme_and_a_name(uri: str) -> None:
    assert refused_field(source_uri=uri) == "source_uri"


@pytest.mark.parametrize("tier", ["short", "mid", "long"])
def test_the_expiry_follows_from_the_tier_unless_given(tier: Any) -> None:
    seconds = {"short": 21_600, "mid": 604_800, "long": None}[tier]
    assert validate_fields(tier=tier).expires_at == (None if seconds is None else NOW + seconds * SECOND)
    assert validate_fields(tier=tier, ttl_secs=60).expires_at == NOW + 60 * SECOND
    assert validate_fields(tier=tier, ttl_secs=60, expires_at=NOW + 5).expires_at == NOW + 5


def test_reserved_metadata_keys_are_ignored() -> None:
    memory = validate_fields(metadata={"agent_id": "ai:somebody-else", "scope": "team", "mine": 1})
    assert (memory.metadata, memory.agent, memory.scope) == ({"mine": 1}, "ai:a@h", "team")


def test_a_scope_declared_in_metadata_is_honoured_so_that_nothing_private_is_revealed() -> None:
    assert validate_fields(metadata={"scope": "private"}).scope == "private"
    assert validate_fields(metadata={"scope": "team"}, scope="private").scope == "private"
    assert validate_fields(metadata={"scope": None}).scope == "collective"


@pytest.mark.parametrize("scope", ["public", "", 1, ["private"], {"a": 1}], ids=repr)
def test_an_invalid_scope_in_metadata_is_refused(scope: Any) -> None:
    assert refused_field(metadata={"scope": scope}) == "metadata.scope"


SAID_AT = parse_timestamp("2023-05-08T13:56:00Z", "at")


@pytest.mark.parametrize(
    ("content", "speaker", "occurred_at"),
    [
        ("[2023-05-08 13:56] Caroline: I went hiking.", "Caroline", SAID_AT),
        ("[2023-05-08T15:56:00+02:00] Caroline: I went hiking.", "Caroline", SAID_AT),
        ("[1:56 pm on 8 May, 2023] Caroline: I went hiking.", "Caroline", SAID_AT),
        ("[2023/05/08 (Mon) 13:56] user: I went hiking.", "user", SAID_AT),
        ("Mary Ann: I went hiking.", "Mary Ann", None),
        ("[2023-05-08 13:56] I went hiking.", None, SAID_AT),
        ("[urgent] Caroline: I went hiking.", "Caroline", None),
        ("I went hiking: it was fine.", None, None),
        ("We deploy on Tuesdays.", None, None),
        ("https://example.org", None, None),
        ("[2023-99-99 13:56] nothing", None, None),
    ],
    ids=[
        "time-and-name",
        "offset",
        "spoken",
        "slashes",
        "name",
        "time",
        "other-brackets",
        "colon",
        "plain",
        "url",
        "nonsense",
    ],
)
def test_speaker_and_time_are_read_from_the_start_of_the_content(
    content: str, speaker: str | None, occurred_at: int | None
) -> None:
    memory = validate_fields(content=content)
    assert (memory.speaker, memory.occurred_at, memory.content) == (speaker, occurred_at, content)


def test_metadata_overrides_the_content_header_and_fields_override_metadata() -> None:
    content = "[2023-05-08 13:56] Caroline: I went hiking."
    metadata = {"speaker": "Mel", "occurred_at": "2024-01-01", "thread": "t1", "place": 7}
    told = validate_fields(content=content, metadata=metadata)
    assert (told.speaker, told.occurred_at, told.thread, told.place) == (
        "Mel",
        parse_timestamp("2024-01-01", ""),
        "t1",
        7,
    )
    given = validate_fields(content=content, metadata=metadata, speaker="Jon", occurred_at=5, thread="t2", place=8)
    assert (given.speaker, given.occurred_at, given.thread, given.place) == ("Jon", 5, "t2", 8)


@pytest.mark.parametrize("metadata", [{"speaker": 5, "place": True, "thread": "\x07", "occurred_at": 9}, {"place": -1}])
def test_metadata_with_another_meaning_is_left_alone(metadata: dict[str, Any]) -> None:
    memory = validate_fields(metadata=metadata)
    assert (memory.speaker, memory.place, memory.thread, memory.occurred_at) == (None, None, None, None)
    assert memory.metadata == metadata


def test_a_reason_is_validated_like_other_text() -> None:
    for reason in ("a\x00b", "a\nb", " "):
        with pytest.raises(Invalid, match=re.escape("reason: must ")):
            validate.check_memory(replace(validate_fields(), reason=reason))


def test_foreign_data_is_any_storable_json() -> None:
    assert validate.foreign_json("extra", {"any": [1, None, "text"]}) == {"any": [1, None, "text"]}
    with pytest.raises(Invalid):
        validate.foreign_json("extra", [float("nan")])


@given(st.text(max_size=600))
def test_an_accepted_namespace_is_accepted_unchanged_again(text: str) -> None:
    try:
        clean = validate.namespace(text)
    except Invalid:
        return
    assert validate.namespace(clean) == clean
    assert not clean.startswith("/")
    assert ".." not in clean.split("/")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_any_json_is_stored_unchanged_or_refused(value: Any) -> None:
    with suppress(Invalid):
        assert validate.metadata({"k": value}) == ({} if value is None else {"k": value})


@given(st.text(st.characters()))
def test_any_content_is_stored_unchanged_or_refused(text: str) -> None:
    with suppress(Invalid):
        assert validate_fields(content=text).content == text
