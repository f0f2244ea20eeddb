"""Measuring recall: files, storage, questions, measures."""

import json
import subprocess
import sys
import tempfile
from math import log2
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from engines import Postgres
from holdfast.features.recall.quality.measure import BATCH, split_batches
from holdfast.features.recall.quality.measures import Figures, Measures, average, find_first_right, measure_ranking
from holdfast.features.recall.quality.question_files import (
    BUNDLED_QUESTIONS,
    MAX_BYTES,
    SETS,
    Dataset,
    Item,
    Question,
    Sample,
    Scope,
    load_dataset,
    parse_time,
    read_json,
)
from holdfast.kernel.errors import Invalid
from holdfast.surfaces.bench.quality import measure_quality

HOLDFAST = (sys.executable, "-c", "from holdfast.__main__ import main; main()")
CONVERSATION = {
    "sample_id": "boat",
    "conversation": {
        "speaker_a": "Ada",
        "session_10_date_time": "9:30 am on 2 June, 2024",
        "session_10": [{"speaker": "Ada", "dia_id": "D10:1", "text": "The mast is up."}],
        "session_2_date_time": "1:56 pm on 8 May, 2024",
        "session_2": [
            {"speaker": "Ada", "dia_id": "D2:1", "text": "I painted the hull green.", "blip_caption": "a boat"},
            {"speaker": "Bo", "dia_id": "D2:2", "text": "With two coats?"},
        ],
        "session_3_date_time": "1:56 pm on 9 May, 2024",
    },
    "qa": [
        {"question": "Which colour has the hull?", "evidence": ["D2:1"], "category": 4, "answer": "green"},
        {"question": "Who sank it?", "evidence": ["D2:2"], "category": 5},
        {"question": "What is missing?", "evidence": [], "category": 1},
    ],
}
NOTES = {
    "sample_id": "notes",
    "notes": [
        {"id": "N1", "title": "Port", "content": "We listen on 8080.", "occurred_at": "2025-03-14"},
        {"id": "N2", "title": "Port, new", "content": "We listen on 9077.", "supersedes": "N1"},
    ],
    "qa": [{"question": "On which port?", "evidence": ["N2"], "category": "correction", "question_date": "2025-04-01"}],
}
SHORT = {
    "question_id": "q1",
    "question_type": "single",
    "question": "Which tea do I like?",
    "question_date": "2023/05/30 (Tue) 23:40",
    "answer_session_ids": ["answer_1"],
    "haystack": [
        {"id": "answer_1", "ts": "2023/05/20 (Sat) 02:21", "text": "I like oolong tea.\nBut not hot."},
        {"id": "other", "ts": "2023/05/21 (Sun) 02:21", "text": "The bus was late."},
    ],
}
PUBLISHED = {name: value for name, value in SHORT.items() if name != "haystack"} | {
    "question_id": "q2_abs",
    "haystack_session_ids": ["answer_1", "third"],
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 02:21"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "I like oolong tea."},
            {"role": "assistant", "content": "Noted.", "has_answer": True},
        ],
        [{"role": "user", "content": "My shoes are wet."}],
    ],
}


def spoilt(session: str, text: Any) -> dict[str, Any]:
    """The conversation with another text as the last turn of a session."""
    said: dict[str, Any] = CONVERSATION["conversation"]  # type: ignore[assignment]
    return CONVERSATION | {"conversation": said | {session: [*said[session][:-1], said[session][-1] | {"text": text}]}}


def file_of(tmp_path: Path, given: Any) -> Path:
    file = tmp_path / "questions.json"
    file.write_text(given if isinstance(given, str) else json.dumps(given))
    return file


def test_a_turn_is_stored_with_speaker_time_and_place_as_fields(tmp_path: Path) -> None:
    found = load_dataset(file_of(tmp_path, [CONVERSATION]))
    may, june = "2024-05-08T13:56:00Z", "2024-06-02T09:30:00Z"

    def item(key: str, content: str, at: str, speaker: str, thread: str, place: int) -> Item:
        said = {"title": key, "content": content, "tier": "long", "occurred_at": at}
        return Item(key, said | {"speaker": speaker, "thread": thread, "place": place})

    items = [
        item("D2:1", "I painted the hull green. [shares a boat]", may, "Ada", "boat 2", 0),
        item("D2:2", "With two coats?", may, "Bo", "boat 2", 1),
        item("D10:1", "The mast is up.", june, "Ada", "boat 10", 0),
    ]
    questions = [Question("Which colour has the hull?", frozenset({"D2:1"}), "single-hop")]
    assert found == Dataset("LoCoMo", "turns", [Scope("asked-1", items, questions, [])], 2)


def test_a_session_is_stored_as_one_transcript(tmp_path: Path) -> None:
    (scope,) = load_dataset(file_of(tmp_path, [CONVERSATION]), "docs").scopes
    assert [(item.key, item.fields["content"]) for item in scope.items] == [
        ("D2", "Ada: I painted the hull green. [shares a boat]\nBo: With two coats?"),
        ("D10", "Ada: The mast is up."),
    ]
    assert [question.right for question in scope.questions] == [{"D2"}]


def test_notes_are_separate_and_can_replace_each_other(tmp_path: Path) -> None:
    (scope,) = load_dataset(file_of(tmp_path, [NOTES])).scopes
    assert scope.items[0] == Item(
        "N1", {"title": "Port", "content": "We listen on 8080.", "tier": "long", "occurred_at": "2025-03-14T00:00:00Z"}
    )
    assert scope.supersedes == [("N2", "N1")]
    assert scope.questions == [Question("On which port?", frozenset({"N2"}), "correction", "2025-04-01T00:00:00Z")]


def test_both_longmemeval_formats_give_one_memory_per_session(tmp_path: Path) -> None:
    short, published = load_dataset(file_of(tmp_path, [SHORT, PUBLISHED])).scopes
    assert [(item.key, item.fields["title"], item.fields["content"]) for item in (*short.items, *published.items)] == [
        ("answer_1", "session 1", "I like oolong tea.\nBut not hot."),
        ("other", "session 2", "The bus was late."),
        ("answer_1", "session 1", "user: I like oolong tea.\nassistant: Noted."),
        ("third", "session 2", "user: My shoes are wet."),
    ]
    asked = Question("Which tea do I like?", frozenset({"answer_1"}), "single", "2023-05-30T23:40:00Z")
    assert short.questions == published.questions == [asked]


def test_a_pool_has_every_session_once_and_no_unanswerable_questions(tmp_path: Path) -> None:
    (scope,) = load_dataset(file_of(tmp_path, [SHORT, PUBLISHED]), "pool").scopes
    assert [item.key for item in scope.items] == ["answer_1", "other", "third"]
    assert len(scope.questions) == 1


@pytest.mark.parametrize("set", SETS["LongMemEval"])
def test_a_question_without_an_answer_session_is_skipped_and_counted(tmp_path: Path, set: str) -> None:
    nothing = SHORT | {"question_id": "q3", "answer_session_ids": []}
    found = load_dataset(file_of(tmp_path, [nothing, SHORT]), set)
    assert ([len(scope.questions) for scope in found.scopes], found.unasked) == ([1], 1)


def test_a_pool_of_turns_has_the_messages_of_the_user(tmp_path: Path) -> None:
    (scope,) = load_dataset(file_of(tmp_path, [PUBLISHED, SHORT]), "pool-turn").scopes
    said = [(item.key, item.fields["content"], item.fields["thread"], item.fields["place"]) for item in scope.items]
    assert said == [
        ("answer_1", "I like oolong tea.", "session 1", 0),
        ("third", "My shoes are wet.", "session 2", 0),
        ("other", "The bus was late.", "session 3", 0),
    ]


def test_a_too_long_session_becomes_several_equally_correct_memories(tmp_path: Path) -> None:
    line = "é" * 999
    long = SHORT | {"haystack": [{**SHORT["haystack"][0], "text": "\n".join([line] * 50)}]}  # type: ignore[index]
    (scope,) = load_dataset(file_of(tmp_path, [long])).scopes
    assert [item.key for item in scope.items] == ["answer_1", "answer_1"]
    assert [item.fields["title"] for item in scope.items] == ["session 1", "session 1 part 2"]
    assert all(len(item.fields["content"].encode()) <= MAX_BYTES for item in scope.items)
    assert "".join(item.fields["content"] for item in scope.items) == "\n".join([line] * 50)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "is not valid JSON"),
        ("[]", "neither a LoCoMo file"),
        ([{"question": "Why?"}], "neither a LoCoMo file"),
        (["a", "b"], "neither a LoCoMo file"),
        ([{"conversation": {}, "qa": [{"question": "Why?"}]}], "looks like a LoCoMo file, but"),
        ([{"sample_id": "x", "conversation": {"session_1": [{"text": "Hm."}]}, "qa": []}], "looks like a LoCoMo file"),
        ([{"sample_id": "x", "conversation": {}, "qa": []}], "has no question with an answer"),
        ([SHORT | {"question_date": "yesterday"}], "'yesterday' is not a time"),
        (
            [PUBLISHED | {"haystack_dates": []}],
            "but: question q2_abs: haystack_session_ids has 2, haystack_dates has 0",
        ),
        ([spoilt("session_2", "")], "but: conversation boat: session 2: turn 2: content: must not be empty"),
        ([spoilt("session_2", "a\0b")], "conversation boat: session 2: turn 2: content: must not contain NUL"),
        (
            [spoilt("session_10", "x" * 70_000)],
            "conversation boat: session 10: turn 1: content: must be at most 65536 bytes",
        ),
        ([spoilt("session_2", 7)], "conversation boat: session 2: Expected `str`, got `int`"),
        ([SHORT | {"question": " "}], "question q1: question: must not be empty"),
        (
            [SHORT, PUBLISHED | {"haystack_sessions": [[], [{"role": "user", "content": "\0"}]]}],
            "session third: turn 1",
        ),
        ([NOTES | {"notes": NOTES["notes"][1:]}], "there is no note N1"),  # type: ignore[index]
    ],
)
def test_an_invalid_question_file_is_refused_with_the_reason(given: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=told):
        load_dataset(file_of(tmp_path, given))


def test_a_missing_file_and_an_incompatible_cut_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="Cannot read"):
        load_dataset(tmp_path / "none.json")
    with pytest.raises(Invalid, match="has the sets turns, docs, not pool"):
        load_dataset(file_of(tmp_path, [CONVERSATION]), "pool")
    with pytest.raises(Invalid, match="create it first"):
        measure_quality(plot=tmp_path / "nowhere" / "plot.svg")


def test_a_sample_of_questions_covers_the_whole_file() -> None:
    scopes = [Scope(str(scope), [], [Question(f"{scope}{n}", frozenset(), "") for n in range(5)]) for scope in range(4)]
    fewer = Dataset("LoCoMo", "turns", scopes).take_sample(4).scopes
    assert [(scope.namespace, [one.text for one in scope.questions]) for scope in fewer] == [
        ("0", ["00"]),
        ("1", ["10"]),
        ("2", ["20"]),
        ("3", ["30"]),
    ]
    assert [scope.namespace for scope in Dataset("LoCoMo", "turns", scopes).take_sample(1).scopes] == ["0"]
    assert Dataset("LoCoMo", "turns", scopes).take_sample(99).scopes == scopes


def test_a_ranking_is_scored_by_the_positions_of_correct_memories() -> None:
    ranking = ["D1:1", "D2:1", "D2:1", "D3:1", "D3:2", "D4:1", "D5:1"]
    gain = (1 / log2(3) + 1 / log2(6)) / (1 + 1 / log2(3) + 1 / log2(4))
    found = measure_ranking(ranking, {"D2:1", "D4:1", "D9:9"}, lambda key: key.partition(":")[0])
    assert found == Measures(any_1=0, any_5=1, any_10=1, avg_5=2 / 3, ndcg_10=gain, session_any_10=1)
    assert find_first_right(ranking, {"D3:1"}) == 3
    assert measure_ranking([], {"D1:1"}) == Measures(any_1=0, any_5=0, any_10=0, avg_5=0, ndcg_10=0)


def test_figures_are_means_over_questions() -> None:
    one, none = Measures(1, 1, 1, 1, 1), Measures(0, 1, 1, 0.5, 0)
    assert average([one, none]) == Figures(
        questions=2, any_1=0.5, any_5=1, any_10=1, avg_5=0.75, ndcg_10=0.5, session_any_10=None
    )


def test_a_batch_stays_within_the_request_limit() -> None:
    small, large = Item("a", {"content": "x"}), Item("b", {"content": "x" * 400_000})
    assert [len(batch) for batch in split_batches([small] * (BATCH + 1))] == [BATCH, 1]
    assert [len(batch) for batch in split_batches([large] * 5)] == [2, 2, 1]


def test_every_correct_memory_of_the_bundled_questions_exists() -> None:
    for set in SETS["LoCoMo"]:
        for scope in load_dataset(BUNDLED_QUESTIONS, set).scopes:
            keys = [item.key for item in scope.items]
            assert len({*keys}) == len({item.fields["title"] for item in scope.items}) == len(keys)
            assert [one.text for one in scope.questions if not one.right <= {*keys}] == []


def test_the_bundled_questions_cover_every_category_once() -> None:
    asked = [one for sample in msgspec.convert(read_json(BUNDLED_QUESTIONS), list[Sample]) for one in sample.qa]
    assert len({one.question for one in asked}) == len(asked)
    assert {one.category for one in asked if one.question_date} == {"relative-date"}
    assert {one.category for one in asked} == {
        *("assistant", "correction", "multi-hop", "other-language", "paraphrase"),
        *("preference", "relative-date", "single", "temporal"),
    }


@pytest.fixture
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")


@pytest.mark.usefixtures("words_alone")
def test_a_run_reports_and_plots_every_category(tmp_path: Path) -> None:
    seen = list[tuple[int, int, str]]()
    plot = tmp_path / "plot.svg"
    file = file_of(tmp_path, [CONVERSATION, NOTES])
    found = measure_quality(file, progress=lambda done, total, what: seen.append((done, total, what)), plot=plot)
    assert (found.memories, found.modes, found.set) == (5, {"keyword": 2}, "turns")
    assert [one.first_right for one in found.answers] == [1, 1]
    assert list(found.categories) == ["correction", "single-hop"]
    assert "| all | 2 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 |" in found.to_text()
    assert "2 more were not asked: they have no answer." in found.to_text()
    names = {element.text for element in ElementTree.fromstring(plot.read_text()).iter() if element.text}
    assert {"all 100 % in 5", "single-hop 100 % in 5", "questions.json, turns"} <= names
    assert seen[-1][:2] == (5, 5)


@pytest.mark.full
@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("surface", ["http", "cli"])
def test_every_surface_finds_the_same(surface: Any, tmp_path: Path) -> None:
    file = file_of(tmp_path, [CONVERSATION, NOTES])
    assert measure_quality(file, surface=surface).answers == measure_quality(file).answers


@pytest.mark.usefixtures("words_alone")
def test_a_run_leaves_the_database_unchanged(tmp_path: Path, postgres: Postgres) -> None:
    found = measure_quality(file_of(tmp_path, [NOTES]), postgres=postgres.url(postgres.database))
    assert (found.engine, found.overall.any_1) == ("PostgreSQL", 1)
    with postgres.admin(postgres.database) as connection:
        assert connection.execute("select nspname from pg_namespace where nspname like 'bench%'").fetchall() == []


@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("during", ["storing", "embedding", "asking"])
def test_an_interrupted_run_leaves_nothing_behind(during: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def interrupt(done: int, total: int, what: str) -> None:
        if what == during:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_quality(file_of(tmp_path, [NOTES]), progress=interrupt)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("words_alone")
def test_the_command_prints_json_for_pipes_and_does_not_touch_the_users_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DB", str(tmp_path / "own.db"))
    file = str(file_of(tmp_path, [CONVERSATION]))
    command = [*HOLDFAST, "bench", "quality", file, "--set", "docs", "--limit-questions", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout)["overall"]["any_1"], done.stderr) == (1.0, "")
    assert not (tmp_path / "own.db").exists()


def test_the_command_explains_an_invalid_file(tmp_path: Path) -> None:
    command = [*HOLDFAST, "bench", "quality", str(file_of(tmp_path, [spoilt("session_2", "")])), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = json.loads(done.stderr)
    assert (done.returncode, done.stdout, said["code"]) == (2, "", "VALIDATION_FAILED")
    assert "session 2: turn 2" in said["error"]


def test_a_time_is_parsed_in_either_format() -> None:
    assert parse_time("1:56 pm on 8 May, 2023") == "2023-05-08T13:56:00Z"
    assert parse_time("2023/05/20 (Sat) 07:46") == "2023-05-20T07:46:00Z"
    assert parse_time("2025-03-14T09:30") == "2025-03-14T09:30:00Z"
