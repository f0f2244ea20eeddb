"""Imports: every record once, in order, in complete transactions."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import exports
import pytest

import holdfast
from holdfast.features.importers import writer
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def list_turns(ctx: Any, **filters: Any) -> list[tuple[str | None, str]]:
    """Speakers and texts of the stored turns, in order."""
    found = [one for one in ctx.list(limit=1000, **filters).memories if one.memory_kind == "conversation"]
    return [(one.speaker, one.content) for one in sorted(found, key=lambda one: (one.thread, one.place))]


def count_outcomes(answer: Any) -> dict[str, int]:
    names = ("imported", "updated", "unchanged", "joined", "left", "rejected")
    return {name: number for name in names if (number := getattr(answer, name))}


def test_a_conversation_is_stored_turn_by_turn_with_speaker_time_and_source(hold: Any, tmp_path: Path) -> None:
    answer = hold.mine(str(exports.chatgpt(tmp_path / "conversations.json")), namespace="chats")
    assert count_outcomes(answer) == {"imported": 3}
    assert (answer.format, answer.total_conversations, answer.kinds) == ("chatgpt", 1, {"conversation": 3})
    turns = sorted(hold.list(namespace="chats").memories, key=lambda one: one.place)
    assert [(one.speaker, one.content, one.place) for one in turns] == [
        ("user", "How do we get to Rome?", 1),
        ("assistant", "Take the night train to Rome.", 2),
        ("user", "And back?", 3),
    ]
    first = turns[0]
    assert first.title.startswith("Trip to Rome 1 · ")
    assert (first.thread, first.occurred_at, first.source_uri, first.tier, first.source) == (
        "c-rome",
        datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC),
        "uri:chatgpt:c-rome#m-1",
        "long",
        "import",
    )
    assert hold.recall("night train").memories[0].id == turns[1].id


def test_a_second_import_stores_nothing_and_a_grown_export_only_its_new_turns(hold: Any, tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path / "conversations.json")
    hold.mine(str(path))
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 3}
    grown = exports.rome()
    later = exports.chatgpt_message("m-4", "assistant", "By bus.")
    grown["mapping"]["m-4"] = {"id": "m-4", "message": later, "parent": "m-3", "children": []}
    grown["current_node"] = "m-4"
    assert count_outcomes(hold.mine(str(exports.chatgpt(path, grown)))) == {"imported": 1, "unchanged": 3}
    changes = hold.events(limit=1000).count
    hold.mine(str(path))
    assert hold.events(limit=1000).count == changes


def test_a_change_at_the_source_is_imported_and_history_has_the_former_text(hold: Any, tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path / "conversations.json")
    hold.mine(str(path))
    assert count_outcomes(hold.mine(str(exports.chatgpt(path, exports.rome("Fly."))))) == {"updated": 1, "unchanged": 2}
    changed = hold.recall("fly").memories[0]
    assert changed.content == "Fly."
    assert [one.memory["content"] for one in hold.history(changed.id).changes] == [
        "Take the night train to Rome.",
        "Fly.",
    ]


@pytest.mark.parametrize("how", ["deleted", "archived", "purged", "rewritten", "renamed"])
def test_local_changes_to_a_memory_survive_another_import(how: str, hold: Any, tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path / "conversations.json")
    hold.mine(str(path))
    id = hold.recall("night train").memories[0].id
    if how == "deleted":
        hold.delete(id)
    elif how == "renamed":
        hold.update(id, title="The way to Rome")
    elif how == "rewritten":
        hold.update(id, content="We took the plane, I know.")
    else:
        hold.archive(ids=[id])
        if how == "purged":
            hold.archive_purge(ids=[id])
    kept = list_turns(hold)
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 3}
    assert count_outcomes(hold.mine(str(exports.chatgpt(path, exports.rome("Fly."))))) == {"unchanged": 2, "left": 1}
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 3}
    path = exports.chatgpt(path, exports.rome("Walk."))
    assert count_outcomes(hold.mine(str(path), dry_run=True)) == {"unchanged": 2, "left": 1}
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 2, "left": 1}
    assert list_turns(hold) == kept


def test_a_dry_run_reports_the_same_and_writes_nothing(hold: Any, tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path / "conversations.json")
    before = hold.events(limit=1000).count
    planned = hold.mine(str(path), dry_run=True)
    assert hold.events(limit=1000).count == before
    assert hold.list().count == 0
    kept = hold.mine(str(path))
    assert count_outcomes(planned) == count_outcomes(kept) == {"imported": 3}
    assert planned.samples == kept.samples
    assert planned.samples[0].content == "How do we get to Rome?"
    assert count_outcomes(hold.mine(str(exports.chatgpt(path, exports.rome("Fly."))), dry_run=True)) == {
        "updated": 1,
        "unchanged": 2,
    }


def test_every_format_is_imported_once(hold: Any, tmp_path: Path) -> None:
    claude = tmp_path / "claude.json"
    claude.write_text(json.dumps([exports.claude_conversation(), exports.claude_memory(), exports.claude_project()]))
    made = {
        "claude": claude,
        "claude-code": exports.claude_code(tmp_path / "code" / "s-1.jsonl"),
        "codex": exports.codex(tmp_path / "rollout.jsonl"),
        "slack": exports.slack(tmp_path / "slack"),
        "mem0": exports.mem0(tmp_path / "mem0.json"),
        "mcp-memory": exports.graph(tmp_path / "memory.jsonl"),
        "markdown": exports.vault(tmp_path / "vault"),
        "mbox": exports.mbox(tmp_path / "mail"),
        "ai-memory": exports.ai_memory(tmp_path / "ai.db"),
    }
    counts = {}
    for form, path in made.items():
        first, again = hold.mine(str(path), namespace=f"mined/{form}"), hold.mine(str(path), namespace=f"mined/{form}")
        assert (first.format, again.imported, again.updated, again.links) == (form, 0, 0, 0)
        assert first.imported == again.unchanged
        counts[form] = (first.imported, first.links)
    assert counts == {
        "claude": (6, 1),
        "claude-code": (3, 0),
        "codex": (2, 0),
        "slack": (5, 0),
        "mem0": (4, 3),
        "mcp-memory": (3, 3),
        "markdown": (3, 2),
        "mbox": (2, 0),
        "ai-memory": (2, 1),
    }
    assert hold.verify().intact


def test_edits_in_a_slack_export_are_imported(hold: Any, tmp_path: Path) -> None:
    path = exports.slack(tmp_path / "slack")
    day = path / "general" / "2024-01-01.json"
    for text, content, original in (
        ("&lt;b&gt;", "<b>", "&lt;b&gt;"),
        ("<@U1>, soup", "@Anna, soup", "<@U1>, soup"),
        ("Soup.", "Soup.", None),
    ):
        said = json.loads(day.read_text())
        said[2]["text"] = text
        day.write_text(json.dumps(said))
        hold.mine(str(path), namespace="mined")
        [memory] = [one for one in hold.list(namespace="mined").memories if one.source_uri.endswith("260.000300")]
        assert (memory.content, memory.metadata.get("original")) == (content, original)


def test_an_ai_memory_store_is_imported_with_names_and_standards(hold: Any, tmp_path: Path) -> None:
    answer = hold.mine(str(exports.ai_memory(tmp_path / "ai.db")))
    assert [(one.where, one.what) for one in answer.problems] == [("ai.db memories row 3", "tags: invalid JSON")]
    assert hold.namespace_get_standard("shop").standard_id == "a-1"
    assert list(hold.get("a-1").tags) == ["ops"]
    assert hold.get("a-1").access_count == 2


def test_a_dry_run_of_a_store_reports_its_links(hold: Any, tmp_path: Path) -> None:
    planned = hold.mine(str(exports.ai_memory(tmp_path / "ai.db")), dry_run=True)
    assert (planned.imported, planned.links, planned.rejected, hold.list().count) == (2, 1, 1, 0)


def test_an_older_export_reverts_nothing(hold: Any, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    first, second = (
        exports.rome() | {"update_time": 1_700_000_200},
        exports.rome("Fly.") | {"update_time": 1_700_000_900},
    )
    for conversation in (first, second):
        hold.mine(str(exports.chatgpt(path, conversation)))
    exports.chatgpt(path, first)
    for answer in (hold.mine(str(path), dry_run=True), hold.mine(str(path)), hold.mine(str(path))):
        assert count_outcomes(answer) == {"unchanged": 3}
        assert [one.what for one in answer.problems] == ["1 unchanged: already imported from a newer export"]
    assert hold.recall("fly").memories[0].content == "Fly."


def test_a_reversion_to_an_earlier_text_is_reported(hold: Any, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    for conversation in (exports.rome(), exports.rome("Fly.")):
        assert not hold.mine(str(exports.chatgpt(path, conversation))).problems
    exports.chatgpt(path, exports.rome())
    for answer in (hold.mine(str(path), dry_run=True), hold.mine(str(path))):
        assert (count_outcomes(answer), answer.rejected) == ({"updated": 1, "unchanged": 2}, 0)
        assert answer.problems[0].what.startswith("1 reverted to an earlier text")


def test_an_entity_of_a_graph_is_found_by_name_and_linked_to_others(hold: Any, tmp_path: Path) -> None:
    hold.mine(str(exports.graph(tmp_path / "memory.jsonl")), namespace="people")
    anna = hold.entity_get_by_alias("anna")
    assert anna.canonical_name == "Anna"
    linked = {one.target_id for one in hold.get_links(anna.entity_id).links if one.source_id == anna.entity_id}
    assert hold.entity_get_by_alias("quartet").entity_id in linked


def test_a_dangling_relation_is_reported_and_the_rest_is_stored(hold: Any, tmp_path: Path) -> None:
    path = exports.write_lines(
        tmp_path / "g.jsonl",
        {"type": "entity", "name": "Anna", "entityType": "person", "observations": ["x"]},
        {"type": "relation", "from": "Anna", "to": "Nobody", "relationType": "knows"},
        {"type": "relation", "from": "Anna"},
    )
    planned, answer = hold.mine(str(path), dry_run=True), hold.mine(str(path))
    assert (answer.imported, answer.links, answer.rejected) == (2, 1, 2)
    assert (planned.imported, planned.links, planned.problems) == (2, 1, answer.problems)
    assert [(one.where, one.rejected) for one in answer.problems] == [("g.jsonl:3", True), ("g.jsonl:2", True)]
    assert answer.problems[1].what == "no link to 'Nobody': not found"


def test_an_observation_without_text_is_reported_by_position(hold: Any, tmp_path: Path) -> None:
    path = exports.write_lines(
        tmp_path / "g.jsonl",
        {"type": "entity", "name": "Anna", "entityType": "person", "observations": "Plays the viola."},
        {"type": "entity", "name": "Ben", "entityType": "person", "observations": ["Sings.", 5, {"text": "x"}]},
        {"type": "entity", "name": "Cleo", "entityType": "person", "observations": 5},
    )
    answer = hold.mine(str(path))
    assert [one.where for one in answer.problems] == [
        "g.jsonl:2 observations[1]",
        "g.jsonl:2 observations[2]",
        "g.jsonl:3 observations",
    ]
    kept = {one.title: one.content for one in hold.list().memories}
    assert kept == {"Anna": "Plays the viola.", "Ben": "Sings.", "Cleo": "Cleo"}


def test_tool_output_is_stored_on_request_but_never_recalled_text(hold: Any, tmp_path: Path) -> None:
    path = exports.claude_code(tmp_path / "s-1.jsonl")
    plain = hold.mine(str(path))
    assert plain.left_out == {"recalled": 2, "sidechains": 1, "system": 4, "thinking": 1, "tools": 2}
    more = hold.mine(str(path), include=["tools", "thinking", "system", "sidechains"])
    assert count_outcomes(more) == {"imported": 7, "unchanged": 3}
    assert more.left_out == {"recalled": 2, "system": 1}
    assert not hold.search("Recalled words").results


def test_text_pasted_from_this_store_is_not_stored_as_new(hold: Any, tmp_path: Path) -> None:
    hold.store(title="Deploy day", content="We deploy on Tuesdays.")
    block = hold.context("when do we deploy?").text
    assert "Tuesdays" in block
    path = exports.write_lines(
        tmp_path / "s.jsonl",
        exports.code_entry("user", "x-1", f"{block}\nSo, when?"),
        exports.code_entry("user", "x-2", block),
    )
    answer = hold.mine(str(path))
    assert (count_outcomes(answer), answer.left_out) == ({"imported": 1}, {"recalled": 2})
    assert list_turns(hold) == [("user", "So, when?")]


def test_a_refused_item_is_named_and_the_others_are_stored(hold: Any, tmp_path: Path) -> None:
    conversation = exports.chatgpt_conversation(
        "c-1",
        "Bad words",
        exports.chatgpt_message("m-1", "user", "Good."),
        exports.chatgpt_message("m-2", "user", "nul \x00 inside"),
        exports.chatgpt_message("m-3", "user", "lone \ud800 surrogate"),
        exports.chatgpt_message("m-4", "user", "When?", at="2999-01-01T00:00:00Z"),
        exports.chatgpt_message("m-5", "user", "Then.", at=None),
    )
    answer = hold.mine(str(exports.chatgpt(tmp_path / "c.json", conversation)))
    assert count_outcomes(answer) == {"imported": 3, "rejected": 2}
    assert [(one.where, one.what, one.rejected) for one in answer.problems] == [
        ("c.json[0].m-4", "time '2999-01-01T00:00:00Z' is in the future; stored without a time", False),
        ("c.json[0].m-2", "content: must not contain NUL", True),
        ("c.json[0].m-3", "content: must be valid Unicode text (contains a lone surrogate)", True),
    ]
    times = {one.content: one.occurred_at for one in hold.list().memories}
    assert [content for content, at in times.items() if at is not None] == ["Good."]


def test_a_too_long_turn_is_stored_in_parts_that_shrink_with_it(hold: Any, tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {number} " + "word " * 200 for number in range(150))
    path = exports.chatgpt(tmp_path / "c.json", exports.rome(long))
    assert count_outcomes(hold.mine(str(path))) == {"imported": 5}
    parts = sorted((one for one in hold.list(limit=10).memories if one.place == 2), key=lambda one: one.title)
    assert "".join(one.content for one in parts) == long
    assert [one.title.rpartition(" ")[2] for one in parts] == ["1", "2", "3"]
    assert parts[1].source_span["start"] == parts[0].source_span["end"]
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 5}
    assert count_outcomes(hold.mine(str(exports.chatgpt(path)))) == {"updated": 1, "unchanged": 2}
    assert len(list_turns(hold)) == 3
    assert count_outcomes(hold.mine(str(exports.chatgpt(path, exports.rome(long))))) == {"updated": 3, "unchanged": 2}
    parts = sorted((one for one in hold.list(limit=10).memories if one.place == 2), key=lambda one: one.title)
    assert "".join(one.content for one in parts) == long


@pytest.mark.parametrize("rule", ["flag", "redact", "refuse"])
def test_secrets_in_imported_text_follow_the_namespace_policy(rule: str, hold: Any, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    hold.policy_set(namespace="chats", secrets=rule)
    path = exports.chatgpt(tmp_path / "c.json", exports.rome(f"Use {secret} for it."))
    answer = hold.mine(str(path), namespace="chats", dry_run=True)
    assert count_outcomes(answer) == count_outcomes(hold.mine(str(path), namespace="chats"))
    assert (answer.imported, answer.rejected) == ((2, 1) if rule == "refuse" else (3, 0))
    assert secret not in str(answer)
    assert (secret in str(hold.list(namespace="chats"))) == (rule == "flag")
    assert answer.problems[0].where == "c.json[0].m-2"
    assert hold.mine(str(path), namespace="chats").imported == 0


def test_conversations_with_too_few_messages_are_skipped_and_counted(hold: Any, tmp_path: Path) -> None:
    short = exports.chatgpt_conversation("c-2", "Short", exports.chatgpt_message("m-9", "user", "Hello?"))
    answer = hold.mine(str(exports.chatgpt(tmp_path / "c.json", short, exports.rome())), min_messages=2)
    assert (answer.imported, answer.skipped, answer.total_conversations) == (3, 1, 2)


def test_one_export_imported_into_two_namespaces_is_stored_in_both(hold: Any, tmp_path: Path) -> None:
    path = str(exports.chatgpt(tmp_path / "c.json"))
    assert hold.mine(path, namespace="a").imported == hold.mine(path, namespace="b").imported == 3


def test_moved_notes_are_not_stored_twice(hold: Any, tmp_path: Path) -> None:
    hold.mine(str(exports.vault(tmp_path / "vault")))
    (tmp_path / "vault").rename(tmp_path / "moved")
    assert count_outcomes(hold.mine(str(tmp_path / "moved"))) == {"unchanged": 3}


def test_two_notes_with_the_same_name_are_both_stored(hold: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Index.md").write_text(f"Index of {name}.")
    assert hold.mine(str(tmp_path)).imported == 2
    assert sorted(one.title for one in hold.list().memories) == ["Index", "Index (2)"]
    (tmp_path / "b" / "Index.md").write_text("Another index of b.")
    assert count_outcomes(hold.mine(str(tmp_path))) == {"updated": 1, "unchanged": 1}
    assert sorted(one.title for one in hold.list().memories) == ["Index", "Index (2)"]


def test_a_note_matching_a_private_memory_of_another_agent_is_stored(seen_by: Callable[..., Any]) -> None:
    anna, ben = seen_by("ai:anna@a"), seen_by("ai:ben@b")
    anna.mine(content="The key is under the mat.", namespace="home", scope="private")
    assert ben.mine(content="The key is under the mat.", namespace="home").imported == 1
    assert [one.title for one in ben.list(namespace="home").memories] == ["The key is under the mat. (2)"]


def test_a_resumed_session_does_not_duplicate_its_turns(hold: Any, tmp_path: Path) -> None:
    exports.claude_code(tmp_path / "s-1.jsonl", "s-1")
    exports.claude_code(tmp_path / "s-2.jsonl", "s-2")
    assert hold.mine(str(tmp_path)).imported == 3
    assert count_outcomes(hold.mine(str(tmp_path))) == {"unchanged": 6}


def test_a_file_truncated_anywhere_yields_its_complete_items_and_reports_the_cut(hold: Any, tmp_path: Path) -> None:
    conversations = [
        exports.chatgpt_conversation(
            f"c-{number}", f"Talk {number}", exports.chatgpt_message(f"m-{number}", "user", f"Words {number} " * 40)
        )
        for number in range(12)
    ]
    data = json.dumps(conversations).encode()
    ends = [len(json.dumps(conversations[: number + 1]).encode()) - 1 for number in range(12)]
    for cut in range(1024, len(data), 1024):
        path = tmp_path / f"{cut}.json"
        path.write_bytes(data[:cut])
        answer = hold.mine(str(path), namespace=f"cut/{cut}", dry_run=cut % 3072 != 0)
        assert answer.imported == sum(end <= cut for end in ends)
        assert [one.rejected for one in answer.problems] == [True]
        assert "the file ends within" in answer.problems[0].what
    whole = tmp_path / "whole.json"
    whole.write_bytes(data)
    assert count_outcomes(hold.mine(str(whole), namespace="cut/3072")) == {
        "imported": sum(end > 3072 for end in ends),
        "unchanged": sum(end <= 3072 for end in ends),
    }


def test_a_transcript_truncated_anywhere_yields_every_complete_line(hold: Any, tmp_path: Path) -> None:
    lines = [json.dumps(exports.code_entry("user", f"x-{n}", f"Words {n} " * 30)).encode() + b"\n" for n in range(8)]
    data = b"".join(lines)
    for cut in range(700, len(data), 1024):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(data[:cut])
        answer = hold.mine(str(path), namespace=f"cut/{cut}", dry_run=True)
        whole = data[:cut].count(b"\n")
        assert (answer.imported, answer.rejected) == (whole, int(not data[:cut].endswith(b"\n")))
        assert answer.problems[0].where == f"{cut}.jsonl:{whole + 1}"


def test_an_interrupted_import_stores_whole_batches_and_the_next_one_completes_it(
    hold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_SIZE", 2)
    path = exports.write_lines(
        tmp_path / "s.jsonl", *(exports.code_entry("user", f"x-{n}", f"Words {n}") for n in range(9))
    )
    seen = 0

    class Impatient(Progress):
        def check(self) -> None:
            nonlocal seen
            seen += 1
            if seen == 12:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hold.call("mine", {"path": str(path)}, progress=Impatient())
    kept = len(list_turns(hold))
    assert 0 < kept < 9
    assert count_outcomes(hold.mine(str(path))) == {"imported": 9 - kept, "unchanged": kept}
    assert [content for _, content in list_turns(hold)] == [f"Words {n}" for n in range(9)]


def test_progress_is_reported_in_bytes(hold: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = exports.chatgpt(tmp_path / "c.json")
    hold.call("mine", {"path": str(path)}, progress=Progress(lambda done, total, what: told.append((done, total))))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_imported_chats_survive_an_export_and_import_and_are_recognised_again(hold: Any, tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path / "c.json")
    hold.mine(str(path))
    hold.delete(hold.recall("night train").memories[0].id)
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:tester@here", now=hold.ctx.now) as other:
        other.call("import", {"envelope": json.loads(json.dumps(hold.export(), default=str))})
        assert count_outcomes(other.mine(str(path))) == {"unchanged": 3}, "what was deleted there stays so here"
        exports.chatgpt(path, exports.rome("Fly."))
        assert (
            count_outcomes(other.mine(str(path))) == count_outcomes(hold.mine(str(path))) == {"left": 1, "unchanged": 2}
        )


def test_an_envelope_is_read_like_by_the_import_operation(hold: Any, tmp_path: Path) -> None:
    hold.store(title="Deploy day", content="We deploy on Tuesdays.")
    path = tmp_path / "export.json"
    path.write_bytes(json.dumps(hold.export(), default=str).encode())
    assert count_outcomes(hold.mine(str(path))) == {"unchanged": 1}
    assert count_outcomes(hold.mine(content=json.dumps({"memories": [{"id": "n", "title": "N", "content": ""}]}))) == {
        "rejected": 1
    }


def test_paths_are_accepted_only_from_local_callers(hold: Any, seen_by: Callable[..., Any], tmp_path: Path) -> None:
    path = str(exports.chatgpt(tmp_path / "c.json"))
    remote = Caller("ai:far@away", source="api")
    with pytest.raises(Invalid, match="only available in the command line and the library"):
        hold.call("mine", {"path": path}, caller=remote)
    text = (tmp_path / "c.json").read_text()
    assert hold.call("mine", {"content": text}, caller=remote).imported == 3
    with pytest.raises(Invalid, match="path, content: set exactly one"):
        hold.mine(path, content="x")


def test_an_import_respects_the_namespaces_of_the_key_and_memories_of_others(
    hold: Any, seen_by: Callable[..., Any], tmp_path: Path
) -> None:
    text = json.dumps([exports.rome()])
    confined = seen_by("ai:ben@b", namespaces=("ben",))
    with pytest.raises(HoldfastError) as refused:
        confined.mine(content=text)
    assert isinstance(refused.value, Forbidden)
    assert confined.mine(content=text, namespace="ben").imported == 3
    private = seen_by("ai:anna@a")
    assert private.mine(content=text, namespace="x", scope="private").imported == 3
    assert seen_by("ai:ben@b").mine(content=text, namespace="x", scope="private").imported == 3
    assert len(list_turns(private, namespace="x")) == 3


@pytest.mark.parametrize("bare", [False, True])
def test_non_object_statements_are_rejected_by_position_and_the_others_stored(
    bare: bool, hold: Any, tmp_path: Path
) -> None:
    given: list[Any] = [{"id": "1", "memory": "Ann likes tea."}, "str", 7, None, [1], {"id": "9", "memory": "Rain."}]
    (tmp_path / "m.json").write_text(json.dumps(given if bare else {"results": given, "relations": None}))
    answer = hold.mine(str(tmp_path / "m.json"), format="mem0")
    assert count_outcomes(answer) == {"imported": 2, "rejected": 4}
    assert all(problem.where.startswith("m.json byte ") for problem in answer.problems)
