"""Small fictional exports of every format."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

from holdfast.features.importers import sources
from holdfast.features.importers.model import Record
from holdfast.features.importers.readers import formats


def records(path: Path, form: formats.Format | None = None) -> list[Record]:
    """Read all records at a path, as `mine` does."""
    with sources.open_source(path) as place:
        found, pieces = formats.detect_format(place) if form is None else (form, formats.select_files(place, form))
        return [*place.problems, *formats.read(found, pieces, lambda number: None)]


def chatgpt_message(id: str, role: str, *parts: Any, at: Any = 1_700_000_000.5, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text" if all(isinstance(part, str) for part in parts) else "multimodal_text"}
    return {
        "id": id,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": {**content, "parts": list(parts)},
        "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
        "recipient": "all",
        **more,
    }


def chatgpt_conversation(id: str, title: str, *messages: dict[str, Any]) -> dict[str, Any]:
    """A conversation without branches: an empty root, and one message below another."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    above = "root"
    for message in messages:
        mapping[above]["children"].append(message["id"])
        mapping[message["id"]] = {"id": message["id"], "message": message, "parent": above, "children": []}
        above = message["id"]
    return {
        "title": title,
        "create_time": 1_700_000_000.0,
        "conversation_id": id,
        "mapping": mapping,
        "current_node": above,
    }


def rome(answer: str = "Take the night train to Rome.") -> dict[str, Any]:
    return chatgpt_conversation(
        "c-rome",
        "Trip to Rome",
        chatgpt_message("m-1", "user", "How do we get to Rome?"),
        chatgpt_message("m-2", "assistant", answer, at=1_700_000_060),
        chatgpt_message("m-3", "user", "And back?", at=1_700_000_120),
    )


def chatgpt(path: Path, *conversations: dict[str, Any]) -> Path:
    path.write_text(json.dumps(list(conversations) or [rome()]))
    return path


def claude_conversation() -> dict[str, Any]:
    return {
        "uuid": "c-garden",
        "name": "The garden",
        "created_at": "2024-05-01T10:00:00.000000Z",
        "chat_messages": [
            {
                "uuid": "u-1",
                "sender": "human",
                "text": "When do I sow beans?",
                "content": [{"type": "text", "text": "When do I sow beans?"}],
                "created_at": "2024-05-01T10:00:00.000000Z",
                "attachments": [{"file_name": "plan.txt", "file_size": 3, "extracted_content": "abc"}],
                "files": [],
            },
            {
                "uuid": "u-2",
                "sender": "assistant",
                "text": "",
                "content": [
                    {"type": "thinking", "thinking": "Frost matters."},
                    {"type": "tool_use", "id": "t-1", "name": "web_search", "input": {"q": "beans"}},
                    {"type": "tool_result", "tool_use_id": "t-1", "content": [{"type": "text", "text": "May."}]},
                    {"type": "text", "text": "In the middle of May."},
                ],
                "created_at": "2024-05-01T10:00:05Z",
            },
        ],
    }


def claude_memory() -> dict[str, Any]:
    return {
        "conversations_memory": "**Garden**\nAnna grows beans.",
        "project_memories": {"p-0000001": "The shed needs a roof."},
        "account_uuid": "acc-1",
    }


def claude_project(**more: Any) -> dict[str, Any]:
    return {
        "uuid": "p-0000001",
        "name": "The shed",
        "description": "A shed for tools.",
        "prompt_template": "Give measures in metres.",
        "created_at": "2025-03-01T10:00:00Z",
        "docs": [
            {
                "uuid": "d-1",
                "filename": "roof.md",
                "content": "Slate, 30 degrees.",
                "created_at": "2025-03-02T10:00:00Z",
            },
            {"uuid": "d-2", "filename": "empty.md", "content": ""},
        ],
        **more,
    }


def write_lines(path: Path, *entries: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def code_entry(kind: str, id: str, content: Any, *, session: str = "s-1", **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": id,
        "parentUuid": None,
        "sessionId": session,
        "isSidechain": False,
        "cwd": "/home/anna/shop",
        "timestamp": "2025-06-01T08:00:00.000Z",
        "message": {"role": kind, "content": content},
        **more,
    }


def claude_code(path: Path, session: str = "s-1") -> Path:
    """A session with every kind of entry that is not a message."""
    used = {"type": "tool_use", "id": "t-1", "name": "Read", "input": {"file": "a.py"}}
    asked = {"type": "tool_use", "id": "t-2", "name": "mcp__holdfast__memory_recall", "input": {"query": "tests"}}
    entries = [
        {"type": "summary", "summary": "Mending the tests", "leafUuid": "x-9"},
        {"type": "file-history-snapshot", "messageId": "x-1", "snapshot": {}},
        code_entry("user", "x-1", "Mend the tests.", session=session),
        code_entry("user", "x-2", "<local-command-stdout>ok</local-command-stdout>", session=session),
        code_entry("assistant", "x-3", [{"type": "thinking", "thinking": "Which ones?"}], session=session),
        code_entry("assistant", "x-4", [{"type": "text", "text": "I look first."}, used, asked], session=session),
        code_entry("user", "x-5", [{"type": "tool_result", "tool_use_id": "t-1", "content": "x = 1"}], session=session),
        code_entry(
            "user",
            "x-6",
            [{"type": "tool_result", "tool_use_id": "t-2", "content": [{"type": "text", "text": "Recalled words."}]}],
            session=session,
        ),
        code_entry("user", "x-7", "Search for it.", session=session, isSidechain=True),
        code_entry("user", "x-8", "Caveat", session=session, isMeta=True),
        code_entry("assistant", "x-9", [{"type": "text", "text": "They are green."}], session=session),
    ]
    return write_lines(path, *entries)


def codex_item(payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2025-10-29T00:59:38.317Z", "type": "response_item", "payload": payload}


def codex_message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex_item({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


def codex(path: Path, cwd: str = "/home/anna/shop") -> Path:
    return write_lines(
        path,
        {
            "timestamp": "2025-10-29T00:59:38.317Z",
            "type": "session_meta",
            "payload": {"id": "0199-abc", "timestamp": "2025-10-29T00:59:38Z", "cwd": cwd, "cli_version": "0.46.0"},
        },
        codex_message("user", "<environment_context>\n<cwd>/home/anna/shop</cwd>\n</environment_context>"),
        codex_message("user", "What is two and two?"),
        {
            "timestamp": "2025-10-29T00:59:38Z",
            "type": "event_msg",
            "payload": {"type": "user_message", "message": "..."},
        },
        codex_item(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Easy."}], "encrypted_content": "x"}
        ),
        codex_item({"type": "function_call", "name": "shell", "arguments": '{"command":["bc"]}', "call_id": "k-1"}),
        codex_item({"type": "function_call_output", "call_id": "k-1", "output": "4"}),
        codex_message("assistant", "Four."),
    )


def slack(folder: Path) -> Path:
    """A workspace with a channel of two days, a thread, an app message and a join."""
    files = {
        "users.json": [
            {"id": "U1", "name": "anna", "profile": {"display_name": "Anna", "real_name": "Anna A."}},
            {"id": "U2", "name": "ben", "real_name": "Ben B.", "profile": {"display_name": ""}},
        ],
        "channels.json": [{"id": "C1", "name": "general", "members": ["U1", "U2"]}],
        "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
        "D1/2024-01-01.json": [
            {
                "type": "message",
                "user": "U1",
                "text": "<@U2> see <https://soup.example/menu|the menu> or <https://soup.example>, <!here> in "
                "<#C1|general>: 1 &lt; 2 &lt;@U1&gt; <mailto:a@b.example|a@b.example> <@U9>",
                "ts": "1704100001.000100",
            }
        ],
        "general/2024-01-01.json": [
            {
                "type": "message",
                "subtype": "channel_join",
                "user": "U2",
                "text": "<@U2> has joined",
                "ts": "1704100000.000100",
            },
            {
                "type": "message",
                "user": "U1",
                "text": "Lunch at noon &amp; soup?",
                "ts": "1704103200.000200",
                "thread_ts": "1704103200.000200",
            },
            {
                "type": "message",
                "user": "U2",
                "text": "Yes.",
                "ts": "1704103260.000300",
                "thread_ts": "1704103200.000200",
            },
        ],
        "general/2024-01-02.json": [
            {
                "type": "message",
                "subtype": "bot_message",
                "username": "Builds",
                "text": "",
                "ts": "1704190000.000100",
                "attachments": [{"fallback": "Build 7 is red."}],
            },
            {
                "type": "message",
                "user": "U9",
                "text": "Who am I?",
                "ts": "1704190001.000100",
                "files": [{"name": "me.png"}],
            },
        ],
    }
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def mem0(path: Path) -> Path:
    path.write_text(
        json.dumps(
            {
                "results": [
                    {
                        "id": "0f0e-1",
                        "memory": "Anna likes morning meetings.",
                        "user_id": "anna",
                        "metadata": {"type": "preference"},
                        "categories": ["work"],
                        "created_at": "2024-07-01T10:00:00-07:00",
                    }
                ],
                "relations": [{"source": "anna", "relationship": "works_at", "destination": "acme"}],
            }
        )
    )
    return path


def graph(path: Path) -> Path:
    return write_lines(
        path,
        {
            "type": "entity",
            "name": "Anna",
            "entityType": "person",
            "observations": ["Plays the cello.", "Lives in Bern."],
        },
        {"type": "entity", "name": "Quartet", "entityType": "ensemble", "observations": []},
        {"type": "relation", "from": "Anna", "to": "Quartet", "relationType": "plays in"},
    )


def vault(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Bread.md").write_text(
        "---\ntitle: Bread\ntype: note\npermalink: kitchen/bread\ntags: [kitchen, baking]\ncreated: 2024-02-03\n---\n"
        "# Bread\n\n- [technique] Fold the dough #slow (every hour)\n- pairs_with [[Soup]]\n- [ ] buy flour\n\n"
        "`[[Not a link]]` and [[Nowhere]]\n"
    )
    (folder / "deep").mkdir()
    (folder / "deep" / "Soup.md").write_text("Soup of the day. See [[kitchen/bread|the bread]].\n")
    (folder / "plain.txt").write_text("A plain text with #notag in it.\n")
    return folder


MBOX = b"""From anna@example.org Mon Jan  1 10:00:00 2024
From: Anna Example <anna@example.org>
To: ben@example.org
Subject: =?utf-8?q?Caf=C3=A9?=
Date: Mon, 01 Jan 2024 10:00:00 +0100
Message-ID: <one@example.org>
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Shall we meet at the caf=E9?
>From now on always there.

From ben@example.org Mon Jan  1 11:00:00 2024
From: ben@example.org
Subject: Re: =?utf-8?q?Caf=C3=A9?=
Date: Mon, 01 Jan 2024 11:00:00 +0100
Message-ID: <two@example.org>
In-Reply-To: <one@example.org>
References: <one@example.org>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=utf-8

<style>p {}</style><p>Yes.</p><blockquote>Shall we meet?</blockquote>
--b
Content-Type: application/pdf; name="map.pdf"
Content-Disposition: attachment; filename="map.pdf"
Content-Transfer-Encoding: base64

AAAA
--b--
"""


def mbox(path: Path) -> Path:
    path.write_bytes(MBOX)
    return path


def ai_memory(path: Path) -> Path:
    """An ai-memory store with the relevant tables and an unknown column."""
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            create table memories (id text primary key, tier text, namespace text, title text, content text, tags text,
              priority integer, confidence real, source text, access_count integer, created_at text, updated_at text,
              last_accessed_at text, expires_at text, metadata text, strange blob);
            create table memory_links (source_id text, target_id text, relation text, created_at text,
              primary key (source_id, target_id, relation)) without rowid;
            create table entity_aliases (entity_id text, alias text, created_at text, primary key (entity_id, alias));
            create table namespace_meta (namespace text primary key, standard_id text, parent_namespace text);
            create table transcript_line_dedup (sha256 text);
            """
        )
        row = ("long", "shop", "api", "2025-01-02T03:04:05+00:00")
        for id, title, tags in (
            ("a-1", "Deploy day", '["ops"]'),
            ("a-2", "Rollback", "[]"),
            ("a-3", "Broken", "no json"),
        ):
            db.execute(
                "insert into memories values (?, ?, ?, ?, 'Tuesdays.', ?, 7, 1.0, ?, 2, ?, ?, null, null, '{}', x'00')",
                (id, *row[:2], title, tags, row[2], row[3], row[3]),
            )
        db.execute("insert into entity_aliases values ('a-2', 'Way back', '2025-01-02T03:04:05+00:00')")
        db.execute("insert into namespace_meta values ('shop', 'a-1', null)")
        db.execute("insert into memory_links values ('a-1', 'a-2', 'related_to', '2025-01-02T03:04:05+00:00')")
    db.close()
    return path


def write_zip(path: Path, files: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
