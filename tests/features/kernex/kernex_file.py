"""Kernex databases with the tables of its last migration."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

TABLES = """
create table _migrations (name text primary key, applied_at text not null default (datetime('now')));
create table conversations (
  id text primary key, channel text not null, sender_id text not null,
  started_at text not null default (datetime('now')), updated_at text not null default (datetime('now')),
  summary text, last_activity text not null default (datetime('now')), status text not null default 'active',
  project text not null default ''
);
create table messages (
  id text primary key, conversation_id text not null references conversations (id),
  role text not null check (role in ('user', 'assistant')), content text not null,
  timestamp text not null default (datetime('now')), metadata_json text
);
create table facts (
  id text primary key, sender_id text not null, key text not null, value text not null,
  source_message_id text references messages (id), created_at text not null default (datetime('now')),
  updated_at text not null default (datetime('now')), deleted_at text, unique (sender_id, key)
);
create table audit_log (
  id text primary key, timestamp text not null default (datetime('now')), channel text not null,
  sender_id text not null,
  sender_name text, input_text text not null, output_text text, provider_used text, model text, processing_ms integer,
  status text not null default 'ok' check (status in ('ok', 'error', 'denied')), denial_reason text
);
create virtual table messages_fts using fts5 (content, content = 'messages', content_rowid = 'rowid');
create table scheduled_tasks (
  id text primary key, channel text not null, sender_id text not null, reply_target text not null,
  description text not null, due_at text not null, repeat text, status text not null default 'pending',
  created_at text not null default (datetime('now')), delivered_at text, task_type text not null default 'reminder',
  retry_count integer not null default 0, last_error text, project text not null default '', claimed_at text
);
create table limitations (
  id text primary key, title text not null, description text not null, proposed_plan text not null default '',
  status text not null default 'open', created_at text not null default (datetime('now')), resolved_at text
);
create unique index idx_limitations_title on limitations (title collate nocase);
create table user_aliases (alias_sender_id text primary key, canonical_sender_id text not null);
create table outcomes (
  id text primary key, timestamp text not null default (datetime('now')), sender_id text not null, domain text not null,
  score integer not null check (score in (-1, 0, 1)), lesson text not null, source text not null default 'conversation',
  project text not null default ''
);
create table lessons (
  id text primary key, sender_id text not null, domain text not null, rule text not null,
  project text not null default '', occurrences integer not null default 1,
  created_at text not null default (datetime('now')), updated_at text not null default (datetime('now'))
);
create table project_sessions (
  id text primary key, channel text not null, sender_id text not null, project text not null default '',
  session_id text not null, parent_project text, created_at text not null default (datetime('now')),
  updated_at text not null default (datetime('now')), unique (channel, sender_id, project)
);
create table token_usage (
  id integer primary key autoincrement, sender_id text not null, session_id text not null, model text not null,
  tokens integer not null default 0, cost_usd real not null default 0.0,
  timestamp integer not null default (unixepoch()), input_tokens integer, output_tokens integer,
  cache_read_tokens integer, cache_creation_tokens integer
);
create table phase_checkpoints (
  id text primary key, run_id text not null, topology_name text not null, phase_name text not null,
  sender_id text not null, project text not null default '',
  status text not null default 'pending' check (status in ('pending', 'in_progress', 'completed', 'failed')),
  output text, error_message text, attempt integer not null default 0,
  created_at text not null default (datetime('now')), updated_at text not null default (datetime('now')),
  unique (run_id, phase_name)
);
create table observations (
  id text primary key, sender_id text not null, type text not null, title text not null check (length(title) > 0),
  what text, why text, where_field text, learned text, created_at text not null default (datetime('now')),
  updated_at text not null default (datetime('now')), deleted_at text
);
create table task_runs (
  id text primary key, task_id text not null, started_at text not null,
  finished_at text not null default (datetime('now')), status text not null check (status in ('completed', 'failed')),
  result text, error text, tokens_used integer
);
"""
THEN = "2026-03-01 10:00:00"
LATER = "2026-03-01 10:00:05"


def add(path: Path, table: str, *rows: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        for row in rows:
            marks = ", ".join("?" * len(row))
            file.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", tuple(row.values()))


def kernex_file(path: Path) -> Path:
    """A database with rows in every table."""
    with closing(sqlite3.connect(path)) as file:
        file.executescript(TABLES)
    made = {"created_at": THEN, "updated_at": LATER}
    when = {"started_at": THEN, "updated_at": LATER, "last_activity": LATER}
    ann = {"channel": "cli", "sender_id": "ann"}
    add(path, "_migrations", {"name": "001_init"})
    add(
        path,
        "conversations",
        {"id": "c-1", **ann, **when, "status": "closed", "summary": "The till was repaired.", "project": "shop"},
        {"id": "c-2", "channel": "slack", "sender_id": "U42", **when},
    )
    add(
        path,
        "messages",
        {
            "id": "m-2",
            "conversation_id": "c-1",
            "role": "assistant",
            "content": "Update the driver.",
            "timestamp": LATER,
        },
        {"id": "m-1", "conversation_id": "c-1", "role": "user", "content": "The till is broken.", "timestamp": THEN},
        {
            "id": "m-3",
            "conversation_id": "c-2",
            "role": "user",
            "content": "Long: " + "word " * 20_000,
            "timestamp": THEN,
        },
        {
            "id": "m-4",
            "conversation_id": "c-2",
            "role": "assistant",
            "content": "Short.",
            "timestamp": THEN,
            "metadata_json": '{"model":"m"}',
        },
    )
    add(
        path,
        "facts",
        {"id": "f-1", "sender_id": "ann", "key": "city", "value": "Hamburg", **made},
        {"id": "f-2", "sender_id": "ann", "key": "pet", "value": "cat", **made, "deleted_at": LATER},
        {"id": "f-3", "sender_id": "__system__", "key": "last_consolidated_at", "value": "1", **made},
    )
    add(path, "user_aliases", {"alias_sender_id": "U42", "canonical_sender_id": "ann"})
    seen = {"sender_id": "ann", "type": "bugfix", **made}
    add(
        path,
        "observations",
        {"id": "o-1", **seen, "title": "Receipts twice", "what": "Two receipts", "where_field": "till.py"},
        {"id": "o-2", **seen, "title": "Old note", "learned": "nothing", "deleted_at": LATER},
    )
    add(path, "limitations", {"id": "l-1", "title": "No voice", "description": "Cannot speak", "created_at": THEN})
    add(
        path,
        "outcomes",
        {"id": "r-1", "timestamp": THEN, "sender_id": "ann", "domain": "mail", "score": -1, "lesson": "Too long"},
    )
    add(
        path,
        "lessons",
        {"id": "e-1", "sender_id": "ann", "domain": "mail", "rule": "Be brief", "occurrences": 3, **made},
    )
    task = {**ann, "reply_target": "ann", "created_at": THEN}
    add(
        path,
        "scheduled_tasks",
        {"id": "task-0001", **task, "description": "Water plants", "due_at": "2030-01-01 09:00:00", "repeat": "daily"},
        {
            "id": "task-0002",
            **task,
            "description": "Done",
            "due_at": THEN,
            "status": "delivered",
            "delivered_at": LATER,
        },
        {"id": "task-0003", **task, "description": "Odd", "due_at": THEN, "repeat": "fortnightly", "status": "claimed"},
    )
    ran = {"task_id": "task-0002", "started_at": THEN, "finished_at": LATER}
    add(
        path,
        "task_runs",
        {"id": "q-1", **ran, "status": "failed", "error": "no net"},
        {"id": "q-2", **ran, "status": "completed", "result": "ok", "tokens_used": 7},
        {"id": "q-3", **ran, "status": "completed", "result": "ok"},
    )
    add(path, "project_sessions", {"id": "s-1", **ann, "project": "shop", "session_id": "sess-9", **made})
    used = {"sender_id": "ann", "session_id": "sess-9", "model": "m-1", "timestamp": 1_770_000_000}
    add(
        path,
        "token_usage",
        {**used, "tokens": 100, "cost_usd": 0.25},
        {**used, "tokens": 60, "input_tokens": 40, "output_tokens": 20},
    )
    phase = {"run_id": "run-1", "topology_name": "build", "sender_id": "ann", **made}
    add(
        path,
        "phase_checkpoints",
        {"id": "p-1", **phase, "phase_name": "plan", "status": "completed", "output": "a plan", "attempt": 1},
        {"id": "p-2", **phase, "phase_name": "code", "status": "in_progress"},
    )
    add(path, "audit_log", {"id": "a-1", **ann, "timestamp": THEN, "input_text": "hi", "output_text": "hello"})
    return path
