"""Readers: speaker, text, time and place of every format, word for word."""

import json
import zipfile
from pathlib import Path
from typing import Any

import exports
import pytest
from exports import records
from read_records import problems, turns
from values_of_wrong_types import MISFITS

from holdfast.features.importers import sources
from holdfast.features.importers.model import EnvelopeRows, Note, NoteLink, Omission, Turn
from holdfast.features.importers.readers import formats
from holdfast.kernel.errors import Invalid


def test_chatgpt_yields_the_visible_branch_in_order(tmp_path: Path) -> None:
    conversation = exports.rome()
    conversation["mapping"]["m-1"]["children"].insert(0, "m-0")
    conversation["mapping"]["m-0"] = {
        "id": "m-0",
        "parent": "m-1",
        "children": [],
        "message": exports.chatgpt_message("m-0", "assistant", "An answer that was taken back."),
    }
    found = records(exports.chatgpt(tmp_path / "conversations.json", conversation))
    assert turns(found) == [
        ("user", "How do we get to Rome?"),
        ("assistant", "Take the night train to Rome."),
        ("user", "And back?"),
    ]
    assert [one for one in found if isinstance(one, Omission)] == [Omission(kind="other branches", number=1)]
    first = next(one for one in found if isinstance(one, Turn))
    assert (first.thread, first.name, first.place, first.at, first.uri, first.where) == (
        "c-rome",
        "Trip to Rome",
        1,
        1_700_000_000.5,
        "uri:chatgpt:c-rome#m-1",
        "conversations.json[0].m-1",
    )


def test_chatgpt_attachments_are_named_and_tool_output_is_separated(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f-1", "width": 3}
    spoken = {"content_type": "audio_transcription", "text": "Hello there."}
    code = exports.chatgpt_message("m-3", "assistant", "x", recipient="python")
    code["content"] = {"content_type": "code", "language": "python", "text": "1 + 1"}
    thought = exports.chatgpt_message("m-4", "assistant", "x")
    thought["content"] = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "Hm."}]}
    hidden = exports.chatgpt_message("m-5", "user", "x", metadata={"is_visually_hidden_from_conversation": True})
    conversation = exports.chatgpt_conversation(
        "c-1",
        "Pictures",
        exports.chatgpt_message("m-1", "system", "You are helpful."),
        exports.chatgpt_message("m-2", "user", image, "What is it?", spoken),
        code,
        thought,
        hidden,
    )
    found = records(exports.chatgpt(tmp_path / "x.json", conversation))
    said = [("user", "[image_asset_pointer file-service://f-1]\n\nWhat is it?\n\nHello there.")]
    assert turns(found) == said
    assert turns(found, "tools") == [("assistant", "1 + 1")]
    assert turns(found, "thinking") == [("assistant", "Hm.")]
    assert turns(found, "system") == [("system", "You are helpful."), ("user", "x")]


def test_an_invalid_conversation_is_reported_by_its_position_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text('[{"mapping": {}}, 7, {"mapping": {"a":}, ' + json.dumps(exports.rome()) + "]")
    found = records(path, "chatgpt")
    assert len(turns(found)) == 0  # the broken one swallows the bracket of the next: both are one bad element
    path.write_text('[{"mapping": {}}, 7, {"mapping": nothing}, ' + json.dumps(exports.rome()) + "]")
    found = records(path)
    assert len(turns(found)) == 3
    assert [(where, rejected) for where, _, rejected in problems(found)] == [
        ("conversations.json[0]", True),
        ("conversations.json[1]", True),
        ("conversations.json[2] byte 21", True),
    ]


def test_claude_yields_texts_without_thoughts_or_tools_and_names_attachments(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([exports.claude_conversation()]))
    found = records(path)
    assert turns(found) == [("user", "When do I sow beans?"), ("assistant", "In the middle of May.")]
    assert turns(found, "thinking") == [("assistant", "Frost matters.")]
    assert turns(found, "tools") == [("assistant", 'web_search {"q":"beans"}\n\nMay.')]
    first = next(one for one in found if isinstance(one, Turn))
    assert first.metadata == {"files": ["plan.txt"]}
    assert (first.thread, first.place, first.uri) == ("c-garden", 0, "uri:claude:c-garden#u-1")


@pytest.mark.parametrize("form", ["array", "lines", "alone", "zip"])
def test_claude_exports_are_read_in_all_their_forms(form: str, tmp_path: Path) -> None:
    one, other = exports.claude_conversation(), exports.claude_conversation() | {"uuid": "c-2"}
    path = tmp_path / "export"
    match form:
        case "array":
            path.write_text(json.dumps([one, other], indent=1))
        case "lines":
            exports.write_lines(path, one, other)
        case "alone":
            path.write_text(json.dumps(one))
        case "zip":
            exports.write_zip(path, {"users.json": '[{"uuid": "a"}]', "conversations.json": json.dumps([one, other])})
    assert len(turns(records(path))) == (2 if form == "alone" else 4)


@pytest.mark.parametrize("form", ["arrays", "files"])
def test_a_claude_export_yields_its_memories_and_projects_with_documents(form: str, tmp_path: Path) -> None:
    memory, project = exports.claude_memory(), exports.claude_project()
    starter = exports.claude_project(uuid="p-2", is_starter_project=True)
    files = {"conversations.json": json.dumps([exports.claude_conversation()]), "users.json": '[{"uuid": "acc-1"}]'}
    if form == "arrays":
        files |= {"memories.json": json.dumps([memory]), "projects.json": json.dumps([project, starter], indent=1)}
    else:
        files |= {"memories/acc-1.json": json.dumps(memory, indent=1), "projects/p-1.json": json.dumps(project)}
        files |= {"projects/p-2.json": json.dumps(starter, indent=1)}
    found = records(exports.write_zip(tmp_path / "export.zip", files))
    assert len(turns(found)) == 2
    assert {(one.title, one.kind, one.content) for one in found if isinstance(one, Note)} == {
        ("What Claude remembers", "summary", "**Garden**\nAnna grows beans."),
        ("What Claude remembers of project p-000000", "summary", "The shed needs a roof."),
        ("The shed", "observation", "A shed for tools.\n\nGive measures in metres."),
        ("The shed: roof.md", "observation", "Slate, 30 degrees."),
    }
    assert [(one.source, one.target) for one in found if isinstance(one, NoteLink)] == [
        ("claude/project/p-0000001/d-1", "claude/project/p-0000001")
    ]
    assert [(what, rejected) for _, what, rejected in problems(found)] == [("empty", False)]
    assert Omission(kind="starter projects") in found


def test_claude_code_yields_messages_without_results_of_our_own_tools(tmp_path: Path) -> None:
    found = records(exports.claude_code(tmp_path / "s-1.jsonl"))
    said = [("user", "Mend the tests."), ("assistant", "I look first."), ("assistant", "They are green.")]
    assert turns(found) == said
    assert turns(found, "sidechains") == [("user", "Search for it.")]
    assert turns(found, "thinking") == [("assistant", "Which ones?")]
    assert turns(found, "tools") == [("assistant", 'Read {"file":"a.py"}'), ("tool", "x = 1")]
    assert [speaker for speaker, _ in turns(found, "system")] == ["summary", "user", "user"]
    assert sum(one.number for one in found if isinstance(one, Omission) and one.kind == "recalled") == 2
    last = [one for one in found if isinstance(one, Turn)][-1]
    assert (last.thread, last.name, last.uri) == ("s-1", "Claude Code in shop", "uri:claude-code:s-1#x-9")
    assert last.metadata["line"] == "s-1.jsonl:11"


def test_text_inserted_by_the_host_is_not_part_of_a_message(tmp_path: Path) -> None:
    text = "<system-reminder>Be brief.</system-reminder>\nMend it."
    path = exports.write_lines(tmp_path / "s.jsonl", exports.code_entry("user", "x-1", text))
    assert turns(records(path)) == [("user", "Mend it.")]


def test_an_error_shown_by_the_host_has_no_speaker(tmp_path: Path) -> None:
    error = exports.code_entry("assistant", "x-1", "API Error: 529 overloaded", isApiErrorMessage=True)
    found = records(exports.write_lines(tmp_path / "s.jsonl", error))
    assert (turns(found), turns(found, "system")) == ([], [("assistant", "API Error: 529 overloaded")])


def test_codex_yields_messages_without_setup_text(tmp_path: Path) -> None:
    found = records(exports.codex(tmp_path / "rollout-1.jsonl"))
    assert turns(found) == [("user", "What is two and two?"), ("assistant", "Four.")]
    assert turns(found, "thinking") == [("assistant", "Easy.")]
    assert turns(found, "tools") == [("assistant", 'shell {"command":["bc"]}'), ("tool", "4")]
    last = [one for one in found if isinstance(one, Turn)][-1]
    assert (last.thread, last.name, last.uri, last.place) == ("0199-abc", "Codex in shop", "uri:codex:0199-abc#5", 5)


def test_codex_transcripts_of_the_first_format_are_read(tmp_path: Path) -> None:
    path = exports.write_lines(
        tmp_path / "rollout-x.jsonl",
        {"id": "old-1", "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        {"record_type": "state"},
    )
    assert turns(records(path)) == [("user", "Hello.")]


def test_slack_yields_names_threads_and_bots(tmp_path: Path) -> None:
    found = records(exports.slack(tmp_path / "export"))
    assert turns(found)[1:] == [
        ("Anna", "Lunch at noon & soup?"),
        ("Ben B.", "Yes."),
        ("Builds", "Build 7 is red."),
        ("U9", "Who am I?"),
    ]
    assert turns(found, "system") == [("Ben B.", "@Ben B. has joined")]
    threads = [(one.thread, one.name, one.place) for one in found if isinstance(one, Turn) and one.kind == "message"]
    assert threads[:4] == [
        ("D1", "Anna, Ben B.", 1704100001000100),
        ("C1/1704103200.000200", "#general", 1704103200000200),
        ("C1/1704103200.000200", "#general", 1704103260000300),
        ("C1", "#general", 1704190000000100),
    ]


def test_slack_mentions_become_names_and_links_are_expanded(tmp_path: Path) -> None:
    assert turns(records(exports.slack(tmp_path / "export")))[0] == (
        "Anna",
        "@Ben B. see the menu (https://soup.example/menu) or https://soup.example, @here in #general: "
        "1 < 2 <@U1> a@b.example @U9",
    )


def test_the_original_slack_text_is_stored_beside_the_converted_one(tmp_path: Path) -> None:
    found = [one for one in records(exports.slack(tmp_path / "export")) if isinstance(one, Turn)]
    originals = {one.content: one.metadata.get("original") for one in found}
    assert originals["Lunch at noon & soup?"] == "Lunch at noon &amp; soup?"
    assert originals["@Ben B. has joined"] == "<@U2> has joined"
    assert originals["Yes."] is None
    days = {"users.json": "[]", "ci/2024-01-01.json": json.dumps([{"ts": "1", "user": "U1", "text": "&amp;" * 10_000}])}
    [long] = [one for one in records(exports.write_zip(tmp_path / "s.zip", days)) if isinstance(one, Turn)]
    assert (long.content, long.metadata) == ("&" * 10_000, {})


def test_a_slack_message_made_of_blocks_contains_their_text(tmp_path: Path) -> None:
    line = [
        {"type": "text", "text": "Ask "},
        {"type": "user", "user_id": "U1"},
        {"type": "text", "text": " if 1 < 2: "},
        {"type": "link", "url": "https://soup.example", "text": "soup"},
        {"type": "emoji", "name": "wave"},
    ]
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Build 7"}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "*red* &amp; late"}, 7]},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": line}]},
        {"type": "divider"},
    ]
    days = [{"ts": "1704100001.0", "username": "Builds", "text": "", "blocks": blocks}, {"ts": "2", "blocks": [3]}]
    files = {"users.json": [{"id": "U1", "name": "anna"}], "ci/2024-01-01.json": days}
    found = records(exports.write_zip(tmp_path / "s.zip", {name: json.dumps(one) for name, one in files.items()}))
    said = "Build 7\n*red* & late\nAsk @anna if 1 < 2: soup (https://soup.example):wave:"
    assert (turns(found), found[-1]) == ([("Builds", said)], Omission(kind="empty"))


def test_slack_is_read_from_its_zip(tmp_path: Path) -> None:
    folder = exports.slack(tmp_path / "export")
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.json")}
    assert turns(records(exports.write_zip(tmp_path / "slack.zip", files))) == turns(records(folder))


def test_mem0_yields_statements_and_relations(tmp_path: Path) -> None:
    found = records(exports.mem0(tmp_path / "m.json"))
    statement = next(one for one in found if isinstance(one, Note))
    assert (statement.content, statement.kind, statement.tags) == ("Anna likes morning meetings.", "fact", ("work",))
    assert statement.metadata == {"type": "preference", "user_id": "anna"}
    assert [one.content for one in found if isinstance(one, Note) and one.kind == "relation"] == ["anna works_at acme"]


def test_a_graph_yields_entities_with_observations_and_links_last(tmp_path: Path) -> None:
    found = records(exports.graph(tmp_path / "memory.jsonl"))
    assert [(one.title, one.kind, one.content, one.tags) for one in found if isinstance(one, Note)] == [
        ("Anna", "entity", "Plays the cello.\nLives in Bern.", ("person",)),
        ("Quartet", "entity", "Quartet", ("ensemble",)),
        ("Anna plays in Quartet", "relation", "Anna plays in Quartet", ()),
    ]
    assert [type(one) for one in found[-3:]] == [NoteLink, NoteLink, NoteLink]


def test_a_graph_exported_as_a_whole_is_the_same_graph(tmp_path: Path) -> None:
    lined = exports.graph(tmp_path / "memory.jsonl")
    entries = [json.loads(entry) for entry in lined.read_text().splitlines()]
    whole = {
        "entities": [entry for entry in entries if entry["type"] == "entity"],
        "relations": [entry for entry in entries if entry["type"] == "relation"],
    }
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(whole, indent=2))
    assert [one.content for one in records(path) if isinstance(one, Note)] == [
        one.content for one in records(lined) if isinstance(one, Note)
    ]
    assert len([one for one in records(path) if isinstance(one, NoteLink)]) == 3


def test_a_folder_of_notes_yields_whole_texts_with_tags_and_links(tmp_path: Path) -> None:
    found = records(exports.vault(tmp_path / "vault"))
    notes = {one.title: one for one in found if isinstance(one, Note)}
    assert sorted(notes) == ["Bread", "Soup", "plain"]
    assert notes["Bread"].content == (tmp_path / "vault" / "Bread.md").read_text()
    assert notes["Bread"].tags == ("kitchen", "baking", "slow", "technique")
    assert notes["Bread"].at == "2024-02-03"
    assert notes["plain"].tags == ()
    keys = {one.key: one.title for one in notes.values()}
    ties = [(keys[one.source], keys[one.target]) for one in found if isinstance(one, NoteLink)]
    assert ties == [("Bread", "Soup"), ("Soup", "Bread")]
    assert problems(found) == [("Bread.md", "links to 'Nowhere', which does not exist", False)]


def test_an_embedded_picture_is_not_a_link_to_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("![[plan.png|300]] ![[b]] ![[b.md]] [[v1.2]]")
    (tmp_path / "b.md").write_text("B.")
    found = records(tmp_path)
    assert len([one for one in found if isinstance(one, NoteLink)]) == 2
    assert problems(found) == [("a.md", "links to 'v1.2', which does not exist", False)]


def test_mail_is_decoded_with_quotations_and_attachments_are_named(tmp_path: Path) -> None:
    found = records(exports.mbox(tmp_path / "mail"))
    assert turns(found) == [
        ("Anna Example", "Shall we meet at the café?\nFrom now on always there.\n\n"),
        ("ben@example.org", "Yes.\nShall we meet?"),
    ]
    first, second = (one for one in found if isinstance(one, Turn))
    assert (first.name, first.thread, first.at) == ("Café", "one@example.org", 1704099600.0)
    assert (second.name, second.thread, second.metadata["files"]) == ("Café", "one@example.org", ["map.pdf"])


def test_an_ai_memory_store_yields_envelope_rows_and_is_not_written(tmp_path: Path) -> None:
    path = exports.ai_memory(tmp_path / "ai-memory.db")
    before = path.read_bytes()
    path.chmod(0o400)
    found = records(path)
    rows = [one.envelope for one in found if isinstance(one, EnvelopeRows)]
    assert [row["title"] for row in rows[0]["memories"]] == ["Deploy day", "Rollback"]
    assert rows[0]["memories"][0]["tags"] == ["ops"]
    assert [list(one) for one in rows] == [["memories"], ["entities"], ["links"], ["namespaces"]]
    assert rows[2]["links"][0]["target_id"] == "a-2"
    assert problems(found) == [("ai-memory.db memories row 3", "tags: invalid JSON", True)]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ai-memory.db"]


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("envelope", '{"schema_version": "v1", "exported_at": "x", "memories": [{"title": "a", "content": "b"}]}'),
        ("envelope", '{"memories": [{"id": "1", "title": "a", "content": "b"}], "links": []}'),
        ("mem0", '[{"id": "1", "memory": "x"}]'),
        ("mem0", '{"memories": [{"id": "1", "memory": "x"}]}'),
        ("chatgpt", '[{"title": "t", "mapping": {"a'),
        ("claude", '[{"uuid": "t", "chat_messages": [{'),
        ("text", "Just words."),
    ],
)
def test_a_format_is_detected_by_content_whatever_the_file_name(form: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "conversations.slack.md.zip"
    path.write_text(content)
    with sources.open_source(path) as place:
        assert formats.detect_format(place)[0] == form


def test_a_too_deep_folder_and_a_vanished_file_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_DEPTH", 1)
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("1.md", "2.md", "3.md", "a/b/deep.md"):
        (tmp_path / name).write_text(name)
    with sources.open_source(tmp_path) as place:
        form, pieces = formats.detect_format(place)
        (tmp_path / "2.md").unlink()
        found = [*place.problems, *formats.read(form, pieces, lambda number: None)]
    assert [one.content for one in found if isinstance(one, Note)] == ["1.md", "3.md"]
    assert [where for where, _, rejected in problems(found) if rejected] == ["a/b/", "2.md"]


def test_a_zip_entry_outside_the_archive_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([exports.rome()]))
        for name in ("../up.json", "/etc/absolute.json", "inner.zip", "C:\\x.json"):
            archive.writestr(name, "[]")
        link = zipfile.ZipInfo("link.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    found = records(path)
    assert len(turns(found)) == 3
    assert sorted(where for where, _, rejected in problems(found) if rejected) == [
        "../up.json",
        "/etc/absolute.json",
        "C:\\x.json",
        "inner.zip",
        "link.json",
    ]


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGE_FILE_BYTES", 1 << 16)
    path = exports.write_zip(tmp_path / "bomb.zip", {"a.json": b"[" + b" " * (1 << 20), "b.txt": "b"})
    found = records(path)
    assert [one.content for one in found if isinstance(one, Note)] == ["b"]
    assert [where for where, _, _ in problems(found)] == ["a.json"]
    monkeypatch.setattr(sources, "MAX_UNPACKED_BYTES", 0)
    with pytest.raises(Invalid, match="uncompressed bytes"):
        records(path)


def test_a_zip_with_a_broken_file_yields_the_others(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(
            "a.jsonl", "".join(json.dumps(exports.code_entry("user", str(n), "Hi.")) + "\n" for n in range(9))
        )
        archive.writestr("b.jsonl", json.dumps(exports.code_entry("user", "z", "There.")) + "\n")
    data = bytearray(path.read_bytes())
    data[data.index(b"Hi.")] ^= 1
    path.write_bytes(data)
    found = records(path)
    assert ("user", "There.") in turns(found)
    assert [where for where, _, _ in problems(found)] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"caf\xe9", ("x.txt byte 3", "not UTF-8: convert it first", True)),
        ("café".encode("utf-16"), None),
        (b"\xef\xbb\xbfcaf\xc3\xa9", None),
    ],
)
def test_a_declared_encoding_is_decoded_and_an_undeclared_one_is_reported(
    data: bytes, told: Any, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_bytes(data)
    found = records(tmp_path / "x.txt", "text")
    if told:
        assert problems(found) == [told]
    else:
        assert [one.content for one in found if isinstance(one, Note)] == ["café"]


@pytest.mark.parametrize("form", MISFITS)
def test_a_value_of_a_wrong_type_is_reported_by_position_and_the_rest_is_read(form: Any, tmp_path: Path) -> None:
    content, places = MISFITS[form]
    path = tmp_path / "f"
    if form in ("claude-code", "codex"):
        exports.write_lines(path, *content)
    else:
        path.write_text(json.dumps(content))
    found = records(path, form)
    assert [where for where, _, rejected in problems(found) if rejected] == places
    assert any(isinstance(one, Turn | Note) for one in found)


def test_a_bare_list_of_statements_is_read_with_invalid_ones_reported(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('["str", {"id": "1", "memory": "Tea."}, null]')
    first, statement, last = records(tmp_path / "f", "mem0")
    assert isinstance(statement, Note)
    assert [where for where, _, _ in problems([first, last])] == ["f byte 1", "f byte 39"]


def test_a_slack_value_of_a_wrong_type_is_not_an_empty_message(tmp_path: Path) -> None:
    days = [{"user": "U9", "text": 5, "ts": "x"}, {"text": "Hi.", "ts": 7}, {"text": "", "ts": "1704100001.0"}, "odd"]
    files = {"users.json": [3], "channels.json": {"a": 1}, "ci/2024-01-01.json": [*days, {"text": "So.", "ts": "2"}]}
    found = records(exports.write_zip(tmp_path / "s.zip", {name: json.dumps(one) for name, one in files.items()}))
    assert [where for where, _, _ in problems(found)] == [
        "channels.json",
        "users.json[0]",
        "ci/2024-01-01.json[0].text",
        "ci/2024-01-01.json[1].ts",
        "ci/2024-01-01.json[3]",
    ]
    assert ([one for one in found if isinstance(one, Omission)], turns(found)) == (
        [Omission(kind="empty")],
        [("unknown", "So.")],
    )
