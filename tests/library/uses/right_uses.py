"""Uses of the library that type checkers accept. The assertions are on types; nothing is run."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import holdfast
from holdfast.types import MemoryView, RecalledMemory, RecallResult, StoreResult, TurnInput


def use_store(hold: holdfast.Holdfast) -> None:
    stored = hold.store("Deploy day", "We deploy on Tuesdays.", tags=["deploy"], kind="decision", priority=8)
    assert_type(stored, StoreResult)
    assert_type(stored.created_at, datetime)
    assert_type(stored.expires_at, datetime | None)
    hold.update(stored.id, expires_at=None, valid_until=datetime.now(UTC) + timedelta(days=1))
    hold.update(stored.id, valid_until="2026-12-31")
    hold.bulk_store([{"title": "a", "content": "b"}], on_conflict="merge")


def use_recall(hold: holdfast.Holdfast) -> list[str]:
    result = hold.recall("deploy", limit=5, since=datetime(2026, 1, 1, tzinfo=UTC), kinds=["decision"])
    assert_type(result, RecallResult)
    assert_type(result[0], RecalledMemory)
    assert_type(result[:2], Sequence[RecalledMemory])
    assert_type(result.to_dict(), dict[str, Any])
    first: MemoryView | None = result[0] if result else None
    if first is not None and first.expires_at is not None:
        print(first.expires_at - first.created_at)
    return [f"{memory.title} {memory.score}" for memory in result]


def use_others(hold: holdfast.Holdfast) -> None:
    turns: list[TurnInput] = [{"role": "user", "content": "Hello."}]
    hold.conversation_say(turns, channel="cli")
    hold.outcome_record("The build is green.", score=1, domain="build")
    hold.import_({"memories": []}, dry_run=True)
    print(len(hold.task_list()), hold.call("stats", {}))


async def use_async() -> list[str]:
    async with holdfast.aopen(threads=2) as hold:
        assert_type(hold, holdfast.AsyncHoldfast)
        assert_type(await hold.store("a", "b"), StoreResult)
        return [memory.title for memory in await hold.recall("deploy")]
