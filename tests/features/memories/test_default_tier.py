"""A memory stored without a tier never expires, unless the setting `default_tier` is changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import exports
import pytest
from clocks import Clock

import holdfast
from holdfast.kernel.timestamps import format_datetime
from holdfast.settings import Settings


def store(ctx: Any, folder: Path) -> str:
    return str(ctx.store(title="Plan", content="first").id)


def bulk_store(ctx: Any, folder: Path) -> str:
    return str(ctx.bulk_store(memories=[{"title": "Plan", "content": "first"}]).outcomes[0].id)


def reflect(ctx: Any, folder: Path) -> str:
    source = ctx.store(title="Ground", content="It holds.", tier="long").id
    return str(ctx.reflect(source_ids=[source], title="So", content="It follows.").id)


def capture_turn(ctx: Any, folder: Path) -> str:
    turn = ctx.capture_turn(host_session_id="s-1", host_turn_index=0, role="user", content="Mend it.")
    return str(turn.memory_id)


def recover(ctx: Any, folder: Path) -> str:
    path = exports.write_lines(folder / "s-1.jsonl", exports.code_entry("user", "x-1", "Mend it."))
    ctx.recover(transcript=str(path))
    return str(ctx.list().memories[0].id)


WAYS = [store, bulk_store, reflect, capture_turn, recover]


@pytest.mark.parametrize("way", WAYS)
def test_a_memory_without_a_tier_is_long_term(
    clocked_store: Any, clock: Clock, tmp_path: Path, way: Callable[[Any, Path], str]
) -> None:
    id = way(clocked_store, tmp_path)
    clock.move(days=4000)
    clocked_store.gc()
    kept = clocked_store.get(id)
    assert (kept.state, kept.tier, kept.expires_at) == ("live", "long", None)


@pytest.mark.parametrize("way", WAYS)
def test_the_setting_is_the_tier_of_a_memory_without_one(
    db: str, clock: Clock, tmp_path: Path, way: Callable[[Any, Path], str]
) -> None:
    with holdfast.open(settings=Settings(db=db, default_tier="short"), now=clock) as hold:
        kept = hold.get(way(hold, tmp_path))
    assert (kept.tier, kept.expires_at) == ("short", clock.after(hours=6))


def test_the_setting_does_not_change_a_given_or_stored_tier(db: str, clock: Clock) -> None:
    with holdfast.open(settings=Settings(db=db, default_tier="short"), now=clock) as opened:
        ctx: Any = opened
        assert ctx.store(title="Plan", content="first", tier="mid").expires_at == clock.after(days=7)
        assert ctx.store(title="Plan", content="second").tier == "mid"


def test_an_expiry_date_applies_to_a_memory_without_a_tier(clocked_store: Any, clock: Clock) -> None:
    kept = clocked_store.store(title="Plan", content="first", ttl_secs=3600)
    assert (kept.tier, kept.expires_at) == ("long", clock.after(hours=1))
    clock.move(hours=1)
    assert clocked_store.list().count == 0


def test_an_imported_memory_without_a_tier_is_long_term_whatever_the_setting(db: str, clock: Clock) -> None:
    rows = [
        {"id": "m-1", "title": "Endless", "content": "x"},
        {"id": "m-2", "title": "Ends", "content": "y", "expires_at": format_datetime(clock.after(days=1))},
    ]
    with holdfast.open(settings=Settings(db=db, default_tier="short"), now=clock) as opened:
        ctx: Any = opened
        ctx.call("import", {"envelope": {"memories": rows}})
        endless, ends = ctx.get("m-1"), ctx.get("m-2")
    assert (endless.tier, endless.expires_at) == ("long", None)
    assert (ends.tier, ends.expires_at) == ("long", clock.after(days=1))
