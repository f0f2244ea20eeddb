"""A sample store with content for every view of the web page, for screenshots and tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import holdfast

AGENT = "ai:claude-code@laptop"
OTHER = "ai:codex@desk"
SKILL = """---
name: deploy
description: How the shop is deployed, and what to look at afterwards.
---
# Deploy

Follow these steps **in order**, and stop at the first that fails.

1. Look at `#ops`: is anybody else deploying?
2. Run the smoke tests:

```sh
make smoke
```

3. Watch the [dashboard](https://dash.example.org) for ten minutes.

> A release that cannot be taken back is not a release.

<b onclick="alert(1)">HTML stays text</b>, and so does a [bad link](javascript:alert(1)).
"""
HOSTILE = {
    "title": "<img src=x onerror=\"document.title='taken'\">",
    "content": (
        "<script>document.title = 'taken'</script> <a href=\"javascript:document.title='taken'\">javascript:x</a> "
        "[bad](javascript:alert(1)) but https://example.org/good is a link"
    ),
    "namespace": "shop/web",
    "tags": ["<b>bold</b>"],
    "source_uri": "uri:javascript:alert(1)",
    "metadata": {"<i>": "<script>"},
    "tier": "short",
    "priority": 1,
}


def moment(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


def make_sample_store(folder: Path) -> str:
    """Create the store and return its path."""
    db = str(folder / "shop.db")
    with holdfast.open(db, agent_id=AGENT) as hold:
        add_memories(hold)
        add_conversations(hold)
        add_tasks(hold)
        add_usage(hold)
        add_conflict(hold, str(folder / "desk.db"))
    return db


def add_memories(hold: holdfast.Holdfast) -> None:
    """Add memories with history and links, and a reflection with a stale source."""

    def keep(title: str, content: str, **more: Any) -> str:
        said = {"namespace": "shop/web", "tier": "long", **more}
        return str(hold.call("store", {"title": title, "content": content, **said}).id)

    day = keep("Deploy day", "We deploy on Tuesdays, after the stand-up.", tags=["ops"], priority=8)
    hold.call(
        "update", {"id": day, "content": "We deploy on Wednesdays, after the stand-up.", "tags": ["ops", "release"]}
    )
    keep("Release freeze", "Nothing is deployed in December: the release waits until the shop is quiet.", tags=["ops"])
    keep("Rollback", "To take a deploy back, run `make rollback` and tell #ops within five minutes.", tags=["ops"])
    keep("Lunch", "On Tuesdays there is soup in the canteen.", namespace="canteen", tier="mid", priority=3)
    small = keep("Cache: 1 GB", "One gigabyte of cache is enough for the catalogue.", tags=["cache"])
    note = keep(
        "Incident on 3 March", "The cache was too small: misses doubled when the catalogue grew.", tags=["cache"]
    )
    large = keep("Cache: 2 GB", "Two gigabytes of cache, because misses doubled.", tags=["cache"], priority=7)
    why = hold.call(
        "reflect",
        {
            "source_ids": [small, note],
            "title": "Caches grow with the catalogue",
            "content": "Whenever the catalogue grows by half, the cache must be measured anew.",
        },
    ).id
    hold.call("link", {"source_id": large, "target_id": note, "relation": "derived_from"})
    hold.call("link", {"source_id": large, "target_id": small, "relation": "supersedes"})
    hold.call("link", {"source_id": day, "target_id": large, "relation": "related_to"})
    hold.call("kg_invalidate", {"source_id": day, "target_id": large, "relation": "related_to"})
    hold.call("link", {"source_id": why, "target_id": large, "relation": "related_to"})
    gone = keep("Old wiki", "The wiki moved away in 2024.", tier="mid")
    hold.call("archive", {"ids": [gone]})
    hold.call("store", HOSTILE)
    hold.call("skill_register", {"inline_skill": SKILL, "namespace": "shop/web"})


def add_conversations(hold: holdfast.Holdfast) -> None:
    """Add conversations, facts and lessons."""
    turns = [
        {"role": "user", "content": "When can I deploy the new checkout?"},
        {"role": "assistant", "content": "On Wednesday after the stand-up; there is no freeze until December."},
        {"role": "user", "content": "Good. Remind me to watch the payment errors."},
    ]
    hold.call("conversation_say", {"turns": turns, "channel": "slack", "principal": "ada", "namespace": "shop/web"})
    for value in ("Europe/Paris", "Europe/Berlin"):
        hold.call("fact_set", {"key": "timezone", "value": value, "principal": "ada"})
    hold.call("fact_set", {"key": "coffee", "value": "black", "principal": "ada", "confidence": 0.8})
    lesson = hold.call(
        "lesson_add", {"rule": "Run the migration on a copy first.", "domain": "databases", "namespace": "shop/web"}
    ).lesson
    for score in (1, 1, -1):
        hold.call(
            "outcome_record", {"score": score, "domain": "databases", "lesson_id": lesson.id, "what": "A release."}
        )


def add_tasks(hold: holdfast.Holdfast) -> None:
    """Add tasks in every state."""
    for title, days, tries in (("Watch the payment errors", -0.1, 5), ("Renew the certificate", 9, 5)):
        hold.call("task_add", {"title": title, "due_at": moment(days), "max_attempts": tries})
    hold.call(
        "task_add", {"title": "Send the weekly report", "due_at": moment(-1), "max_attempts": 1, "principal": "ada"}
    )
    hold.call("task_add", {"title": "Warm the cache", "due_at": moment(-1), "principal": "worker"})
    failed = hold.call("task_claim", {"principal": ["ada"]}).claimed[0]
    hold.call("task_finish", {"id": failed.task.id, "token": failed.token, "error": "The mail server is away."})
    hold.call("task_claim", {"principal": ["worker"], "seconds": 86_400})


def add_usage(hold: holdfast.Holdfast) -> None:
    hold.call("price_set", {"model": "model-*", "input": "3", "output": "15", "cache_read": "0.30"})
    hold.call("budget_set", {"principal": "*", "period": "month", "cost": "50"})
    for day in range(14):
        used = {"input_tokens": 9000 + 1700 * (day * 7 % 5), "output_tokens": 2100, "cache_read_tokens": 40_000}
        hold.call("usage_record", {"model": f"model-{'one' if day % 3 else 'two'}", "at": moment(-day), **used})


def add_conflict(hold: holdfast.Holdfast, other: str) -> None:
    """Sync with another store that changed the same memory."""
    with holdfast.open(other, agent_id=OTHER) as desk:
        hold.call("sync", {"remote": other, "direction": "merge"})
        hold.call(
            "peer_add", {"name": "desk", "token": desk.call("peer_token", {}).token, "url": "https://desk.example:9077"}
        )
        for there, content in ((hold, "On Tuesdays there is pea soup."), (desk, "On Tuesdays there is goulash.")):
            lunch = there.call("list", {"namespace": "canteen"}).memories[0]
            there.call("update", {"id": lunch.id, "content": content})
        hold.call("sync", {"remote": other, "direction": "merge"})
