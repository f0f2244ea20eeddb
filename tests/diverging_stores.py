"""Create diverged stores for tests."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import holdfast
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.context import Caller


def disagree(hold: holdfast.Holdfast, id: str, content: str, *, owner: str) -> None:
    """Change a memory in two stores concurrently and sync, so that it has a conflict."""
    with (
        TemporaryDirectory() as folder,
        holdfast.open(str(Path(folder) / "other.db"), agent_id=owner, now=hold.ctx.now) as other,
    ):
        sync_stores(other.ctx, hold.ctx, "pull", trust_source=True)
        mine: Any = hold.call("get", {"id": id}, caller=Caller(owner))
        other.update(id=id, content=content)
        hold.call("update", {"id": id, "content": f"{mine.content} {content}"}, caller=Caller(owner))
        sync_stores(other.ctx, hold.ctx, "push", trust_source=True)
