"""Exports with values of wrong types, and the problems to report."""

from typing import Any

import exports

MISFITS: dict[str, tuple[Any, list[str]]] = {
    "mem0": (
        {"results": [{"id": "1", "memory": "Tea."}, "str", 7, None, [1], {"id": "9", "memory": "Rain."}], "data": None},
        [f"f byte {at}" for at in (44, 51, 54, 60)],
    ),
    "chatgpt": (
        [
            5,
            {
                "id": "t",
                "current_node": "c",
                "mapping": {
                    "a": {"parent": None, "children": ["b"], "message": 7},
                    "b": {"parent": "a", "children": ["c"], "message": {"id": "b", "content": 9}},
                    "c": {"parent": "b", "message": {"id": "c", "content": {"parts": ["Hi.", 4, None]}}},
                    "d": "odd",
                },
            },
        ],
        ["f[0]", "f[1].a", "f[1].d", "f[1].b.content", "f[1].c.content.parts[1]"],
    ),
    "claude": (
        [
            7,
            {
                "uuid": "t",
                "chat_messages": [
                    {"uuid": "m1", "sender": "human", "text": "Hi."},
                    {"uuid": "m2", "sender": 5, "text": 9},
                    {"uuid": "m3", "sender": "human", "content": [3, {"type": "text", "text": "So."}]},
                    "odd",
                ],
            },
            {"conversations_memory": 4, "project_memories": [1]},
            {"uuid": "p", "name": "P", "prompt_template": "Be kind.", "docs": 5},
        ],
        [
            "f[0]",
            "f[1].chat_messages[1].text",
            "f[1].chat_messages[2].content[0]",
            "f[1].chat_messages[3]",
            "f[2].project_memories",
            "f[2] account/memory",
            "f[3].docs",
        ],
    ),
    "claude-code": (
        [
            exports.code_entry("user", "u", "Hi."),
            {**exports.code_entry("user", "v", ""), "message": 5},
            exports.code_entry("user", "w", 9),
            {"type": "summary", "leafUuid": "u", "summary": 3},
            8,
        ],
        ["f:2", "f:3 content", "f:4", "f:5"],
    ),
    "codex": (
        [
            exports.codex_item({"type": "message", "role": "user", "content": "Hi."}),
            {"type": "response_item", "payload": "odd"},
            exports.codex_item({"type": "message", "role": "user", "content": {"text": "x"}}),
            exports.codex_item({"type": 4}),
            [1],
        ],
        ["f:2", "f:3 content", "f:4", "f:5"],
    ),
    "mcp-memory": (
        {"entities": [{"name": "Anna", "observations": ["Sings."]}, 5, None], "relations": None},
        ["f byte 60", "f byte 63"],
    ),
}
