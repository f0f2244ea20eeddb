"""Stores that were apart: what the tests of others need of them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import holdfast
from holdfast.features.sync.exchange import sync
from holdfast.kernel.caller import Caller


def disagree(hold: holdfast.Holdfast, id: str, content: str, *, owner: str) -> None:
    """Let a memory have been changed by another store at the same time, so that it has a conflict."""
    with (
        TemporaryDirectory() as folder,
        holdfast.open(str(Path(folder) / "other.db"), agent_id=owner, now=hold.hold.now) as other,
    ):
        sync(other.hold, hold.hold, "pull", trust_source=True)
        mine: Any = hold.call("get", {"id": id}, caller=Caller(owner))
        other.update(id=id, content=content)
        hold.call("update", {"id": id, "content": f"{mine.content} {content}"}, caller=Caller(owner))
        sync(other.hold, hold.hold, "push", trust_source=True)
