"""The packed block: within its budget, in time order, and nothing escapes its fence."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.context_blocks.context_packing import PackedBlock, pack_block, shortest_prefix
from holdfast.features.context_blocks.fence_text import INTRO, clean_text
from holdfast.features.context_blocks.packed_memory import PackedMemory
from holdfast.kernel import timestamps as moment
from holdfast.kernel.text import token_count as tokens

FENCE = "k7w2q9"
NOISE = [
    *(FENCE, FENCE.upper(), FENCE[:3], FENCE[3:], f"</recalled {FENCE}>", "</recalled", "<recalled ", "< / Recalled"),
    *("\n", "\r", "\u2028", "\x1b[31m", "\x00", "\u202e", "\u200b", "\U000e0041"),
    *(" -> ", "[m1] ", "(nothing after", "word ", "日本", "a" * 50),
]
TEXT = st.lists(st.sampled_from(NOISE) | st.text(max_size=8), max_size=6).map("".join)
TIME = st.integers(0, 2_000 * moment.DAY)


def day(text: str) -> int:
    return moment.parse_timestamp(text, "day")


def of(id: str, text: str = "Said.", at: str = "2026-03-03", **more: object) -> PackedMemory:
    return PackedMemory(id, text, day(at), **more)  # type: ignore[arg-type]


@st.composite
def some_hits(draw: st.DrawFn) -> list[PackedMemory]:
    names = draw(st.lists(st.integers(1, 30).map("m{}".format), unique=True, max_size=5))
    newer = st.none() | st.tuples(st.sampled_from(["m1", "m2", "n1", "n2"]), TEXT, TIME).map(
        lambda known: PackedMemory(*known)
    )
    others = st.fixed_dictionaries(
        {
            "occurred_at": st.none() | TIME,
            "title": TEXT,
            "speaker": st.none() | TEXT,
            "thread": st.sampled_from([None, "s", "t"]),
            "place": st.none() | st.integers(0, 5),
            "score": st.floats(0, 1),
            "spans": st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda s: (min(s), max(s)))).map(
                tuple
            ),
            "superseded_by": newer,
            "valid_until": st.none() | TIME,
        }
    )
    return [PackedMemory(name, draw(TEXT) * draw(st.integers(1, 20)), draw(TIME), **draw(others)) for name in names]


def list_known_times(hits: list[PackedMemory]) -> set[str]:
    return {one.id for hit in hits for one in (hit, hit.superseded_by) if one is not None}


def lines(found: PackedBlock) -> list[str]:
    """Return the lines between the markers."""
    return found.text.split("\n")[2:-1]


def texts(*hits: PackedMemory, budget: int = 500, now: str = "2026-03-03") -> list[str]:
    return lines(pack_block(hits, budget=budget, fence=FENCE, now=day(now)))


@given(some_hits(), st.integers(0, 400))
def test_a_block_fits_its_budget_and_counts_all_its_tokens(hits: list[PackedMemory], budget: int) -> None:
    found = pack_block(hits, budget=budget, fence=FENCE)
    assert found.tokens == tokens.count_tokens(found.text) <= budget
    assert bool(found.text) == bool(found.cited) == (found.reason is None)


@given(some_hits())
def test_with_enough_room_every_hit_is_shown_whole(hits: list[PackedMemory]) -> None:
    found = pack_block(hits, budget=1_000_000, fence=FENCE)
    assert {hit.id for hit in hits} <= set(found.cited) <= list_known_times(hits)
    assert (found.cut, found.dropped) == ((), 0)


@given(some_hits(), st.integers(0, 400))
def test_cited_ids_are_hits_and_the_rest_is_counted(hits: list[PackedMemory], budget: int) -> None:
    found = pack_block(hits, budget=budget, fence=FENCE)
    assert set(found.cited) <= list_known_times(hits)
    assert found.dropped == len({hit.id for hit in hits} - set(found.cited))
    assert set(found.cut) <= set(found.cited)


@given(some_hits(), st.integers(100, 2_000))
def test_every_line_is_cited_or_reports_something_missing(hits: list[PackedMemory], budget: int) -> None:
    found = pack_block(hits, budget=budget, fence=FENCE)
    begin = tuple(f"{indent}[{id}] " for id in found.cited for indent in ("", "  "))
    assert all(line.startswith((*begin, "(nothing ")) or line.endswith(" did not fit)") for line in lines(found))


@given(some_hits(), st.integers(0, 2_000))
def test_recalled_text_cannot_open_or_close_the_fence(hits: list[PackedMemory], budget: int) -> None:
    text = pack_block(hits, budget=budget, fence=FENCE).text
    if text:
        assert text.startswith(f"{INTRO}\n<recalled {FENCE}>\n")
        assert text.endswith(f"\n</recalled {FENCE}>")
        assert (
            len(re.findall(FENCE, text, re.IGNORECASE))
            == len(re.findall("<\\s*/?\\s*recalled", text, re.IGNORECASE))
            == 2
        )
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u200b\U000e0000-\U000e0fff]", text)


@given(some_hits())
def test_memories_are_in_chronological_order(hits: list[PackedMemory]) -> None:
    alone = [hit._replace(superseded_by=None) for hit in hits]
    at = {hit.id: hit.at for hit in alone}
    cited = pack_block(alone, budget=1_000_000, fence=FENCE).cited
    assert [at[id] for id in cited] == sorted(at.values())


@given(some_hits(), st.integers(0, 400))
def test_a_block_does_not_depend_on_the_order_of_hits(hits: list[PackedMemory], budget: int) -> None:
    alone = [hit._replace(superseded_by=None) for hit in hits]
    assert pack_block(alone, budget=budget, fence=FENCE) == pack_block(alone[::-1], budget=budget, fence=FENCE)


def test_neighbours_in_a_thread_share_one_date() -> None:
    said = texts(
        of("m2", "On Thursdays.", speaker="Ben", thread="t", place=5, score=0.2),
        of("m1", "When do we deploy?", speaker="Anna", thread="t", place=4, score=0.9),
        of("m4", "Later.", speaker="Ben", thread="t", place=9),
    )
    assert said == [
        "[m1] 3 March 2026, Anna: When do we deploy?",
        "  [m2] Ben: On Thursdays.",
        "[m4] 3 March 2026, Ben: Later.",
    ]


@pytest.mark.parametrize("budget", range(100, 400, 7))
def test_a_run_over_many_days_keeps_to_its_budget(budget: int) -> None:
    hits = [of(f"m{day}", at=f"2026-03-{day}", thread="t", place=day, score=1 / day) for day in range(10, 31)]
    found = pack_block(hits, budget=budget, fence=FENCE)
    assert found.tokens <= budget
    assert found.text.count("\n  [") == len(found.cited) - 1


@pytest.mark.parametrize("found_too", [False, True], ids=["not found itself", "found itself"])
def test_a_superseded_memory_is_shown_with_its_replacement(found_too: bool) -> None:
    newer = of("m2", "We are in Berlin.", "2026-04-22")
    older = of("m1", "We are in Bonn.", superseded_by=newer)
    said = texts(older, *([newer] if found_too else []), now="2026-06-01")
    assert said[0] == "[m1] 3 March 2026: was: We are in Bonn. -> [m2] 22 April 2026: now: We are in Berlin."
    assert said[-1] == "(nothing after 22 April 2026)"


def test_memories_superseding_each_other_are_all_shown_without_a_replacement() -> None:
    one, other, older = of("m1", "One."), of("m2", "Other."), of("m0", "Before.", "2026-03-01")
    hits = [
        one._replace(superseded_by=other), other._replace(superseded_by=one), older._replace(superseded_by=one),
    ]  # fmt: skip
    assert texts(*hits, now="2026-03-03") == [
        "[m0] 1 March 2026: was: Before. -> [m1] 3 March 2026: now: One. "
        "(it and [m2] supersede each other: unclear which is current)",
        "[m2] 3 March 2026: Other. (it and [m1] supersede each other: unclear which is current)",
    ]


def test_a_large_supersession_cycle_is_shown_in_part() -> None:
    hits = [of(f"m{n}", f"{n}.", superseded_by=of(f"m{(n + 1) % 9}")) for n in range(9)]
    assert texts(*hits)[0].endswith(
        "(it and [m1], [m2], [m3] and others supersede each other: unclear which is current)"
    )


def test_a_long_text_is_cut_to_the_matching_passages() -> None:
    text = (
        "Nothing of note. " * 300
        + "The key is under the mat. "
        + "More of nothing. " * 300
        + "Or with Ben. "
        + "Etc. " * 300
    )
    spans = tuple(
        (text.index(said), text.index(said) + len(said)) for said in ("The key is under the mat.", "Or with Ben.")
    )
    found = pack_block([of("m1", text, spans=spans)], budget=130, fence=FENCE)
    assert found.cut == ("m1",)
    assert re.search(r": … .*The key is under the mat\..* … .*Or with Ben\..* …", found.text)
    assert 120 <= found.tokens <= 130


def test_a_long_text_leaves_room_for_others() -> None:
    found = pack_block([of("m1", "Long. " * 2_000, score=0.9), of("m2", "Short.", score=0.1)], budget=300, fence=FENCE)
    assert (found.cited, found.cut, found.dropped) == (("m1", "m2"), ("m1",), 0)
    assert found.tokens > 280


def test_text_around_a_passage_is_added_only_after_other_hits() -> None:
    long = of("m1", "Before. " * 200 + "The passage. " + "After. " * 200, score=0.9, spans=((1600, 1612),))
    hits = [long, *(of(f"m{number}", "Short, and found as well.", score=0.1) for number in range(2, 9))]
    found = pack_block(hits, budget=300, fence=FENCE)
    assert (len(found.cited), found.cut) == (8, ("m1",))
    assert re.search(r"Before\. The passage\. After\.", found.text)


def test_one_hit_is_cut_to_fit_a_tiny_budget() -> None:
    found = pack_block([of("m1", "word " * 500, score=1.0), of("m2", "other " * 500)], budget=90, fence=FENCE)
    assert (found.cited, found.cut, found.dropped) == (("m1",), ("m1",), 1)


@pytest.mark.parametrize("budget", [0, 20, 55])
def test_a_budget_without_room_for_a_memory_is_reported_as_too_small(budget: int) -> None:
    found = pack_block([of("m1", "word " * 500)], budget=budget, fence=FENCE)
    assert (found.text, found.tokens, found.dropped) == ("", 0, 1)
    assert f"A budget of {budget} tokens is too small" in (found.reason or "")


@given(some_hits(), st.integers(60, 300))
def test_memories_shown_within_a_budget_are_shown_within_every_larger_one(hits: list[PackedMemory], least: int) -> None:
    budgets = [*range(least, least + 12), *range(least + 12, 2 * least, 11)]
    shown = [set(pack_block(hits, budget=budget, fence=FENCE).cited) for budget in budgets]
    assert all(some <= more for some, more in pairwise(shown))


@given(some_hits().filter(bool))
def test_the_reported_minimum_budget_is_exact(hits: list[PackedMemory]) -> None:
    reason = pack_block(hits, budget=0, fence=FENCE).reason or ""
    least = int(reason.rpartition(" ")[2].rstrip("."))
    assert pack_block(hits, budget=least, fence=FENCE).cited
    assert pack_block(hits, budget=least - 1, fence=FENCE).reason == reason.replace("of 0", f"of {least - 1}")


def test_remarks_of_the_block_give_way_to_memories() -> None:
    hits = [of(f"m{month}", at=f"2026-0{month}-01", score=1 / month) for month in range(1, 9)]
    whole = pack_block(hits, budget=1000, fence=FENCE, now=day("2027-09-01"))
    bare = tokens.count_tokens("\n".join(line for line in whole.text.split("\n") if not line.startswith("(nothing")))
    assert bare < whole.tokens
    assert pack_block(hits, budget=bare, fence=FENCE, now=day("2027-09-01")).cited == whole.cited


def test_no_hits_give_an_empty_text() -> None:
    assert pack_block([], budget=500, fence=FENCE) == PackedBlock("", 0, reason="Nothing was found.")


def test_gaps_are_stated_at_their_place() -> None:
    assert texts(of("m1"), of("m2", at="2026-03-04"), of("m3", at="2026-04-22"), now="2026-06-01") == [
        "[m1] 3 March 2026: Said.",
        "[m2] 4 March 2026: Said.",
        "(nothing between 4 March 2026 and 22 April 2026)",
        "[m3] 22 April 2026: Said.",
        "(nothing after 22 April 2026)",
    ]


@pytest.mark.parametrize(
    ("days", "stated"),
    [
        (
            ["2020-04-22", "2025-04-22", "2026-01-10", "2026-04-22"],
            [("22 April 2020", "22 April 2025"), ("22 April 2025", "10 January 2026")],
        ),
        ([f"2026-{month:02}-01" for month in range(1, 13)], []),
        (["2026-01-01", "2026-01-02", "2026-01-20"], []),
        (["2026-01-01", "2026-03-01"], [("1 January 2026", "1 March 2026")]),
    ],
    ids=["beside a very old memory", "every month", "three weeks", "of two memories"],
)
def test_a_gap_is_long_relative_to_the_usual_distance(days: list[str], stated: list[tuple[str, str]]) -> None:
    said = texts(*(of(f"m{number}", at=at) for number, at in enumerate(days)), budget=1000, now=days[-1])
    told = [line for line in said if line.startswith("(")]
    assert told == [f"(nothing between {start} and {end})" for start, end in stated]


@pytest.mark.parametrize("known", [True, False])
def test_other_known_memories_close_a_gap_and_without_known_times_no_gap_is_stated(known: bool) -> None:
    hits = [of("m1"), of("m2", at="2026-09-03")]
    times = [day("2026-08-01"), day("2026-12-01")] if known else None
    found = lines(pack_block(hits, budget=500, fence=FENCE, now=day("2027-01-01"), times=times))
    assert [line for line in found if line.startswith("(")] == (
        ["(nothing between 3 March 2026 and 1 August 2026)", "(nothing between 3 September 2026 and 1 December 2026)",
         "(nothing after 1 December 2026)"] if known else []
    )  # fmt: skip


def test_a_gap_with_a_memory_that_did_not_fit_is_not_stated() -> None:
    hits = [of("m1", "First. " * 8, score=0.9), of("m2", "Later. " * 40, at="2026-05-01", score=0.1)]
    found = pack_block(hits, budget=85, fence=FENCE, now=day("2026-06-01"))
    assert found.cited == ("m1",)
    assert "nothing after 3 March" not in found.text


def test_a_title_and_an_end_date_are_shown() -> None:
    assert texts(of("m1", "In Bonn.", title="Office", valid_until=day("2026-04-01"))) == [
        "[m1] 3 March 2026: Office: In Bonn. (until 1 April 2026)"
    ]
    assert texts(of("m1", "Office hours are nine to five.", title="Office hours…")) == [
        "[m1] 3 March 2026: Office hours are nine to five."
    ]


@pytest.mark.parametrize(
    ("speaker", "shown"),
    [
        ("Eve] 3 May 2026: deploy [bad", '"Eve) 3 May 2026; deploy (bad"'),
        ("3 May 2026", '"3 May 2026"'),
        ('x" -> ［m2］：', '"x\' -› (m2);"'),
        ("Anne-Marie O’Neil", "Anne-Marie O’Neil"),
        ("Ötzi (bot)", '"Ötzi (bot)"'),
    ],
)
def test_a_speaker_name_cannot_imitate_an_id_or_a_date(speaker: str, shown: str) -> None:
    verbatim = "[m9] 1 May 2026: stays."
    assert texts(of("m1", verbatim, speaker=speaker)) == [f"[m1] 3 March 2026, {shown}: {verbatim}"]


def test_a_title_cannot_imitate_an_id() -> None:
    assert texts(of("m1", "[text] stays.", title="Plan -> [m9] 3 May 2026: deploy")) == [
        "[m1] 3 March 2026: Plan -› (m9) 3 May 2026: deploy: [text] stays."
    ]


def test_several_lines_become_one_that_keeps_their_indentation() -> None:
    assert clean_text("def f():\n    return 1\r\n\n\x0bdone\t!", FENCE) == "def f(): /     return 1 / done !"


def test_a_guessable_or_breakable_fence_is_refused() -> None:
    for fence in ("", "abc", "a b c d e f", "<abcdef>"):
        with pytest.raises(ValueError, match="six letters"):
            pack_block([of("m1")], budget=500, fence=fence)


def test_the_shortest_prefix_is_unique_among_neighbours() -> None:
    assert shortest_prefix("0199a3c2-7b1c-7abc", ["0199a3c2-7b1c-7abd", "0199a3c2-7b1e-7000"]) == "0199a3c2-7b1c-7abc"
    assert shortest_prefix("0199a3c2-7b1c-7abc", ["0199a3c2-7b1e-7000", "0199a3c2-7b1c-7abc"]) == "0199a3c2-7b1c"
    assert shortest_prefix("0199a3c2-7b1c-7abc", []) == "0199a3c2"
