"""Helpers for export tests: envelopes, counts and a clock."""

from collections.abc import Callable
from typing import Any

import holdfast
from holdfast.kernel.timestamps import SECOND
from holdfast.surfaces import error_responses

NOON = 1_790_000_000 * SECOND


class Clock:
    """Clock that advances by a millisecond per reading, and can be set."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> int:
        self.at += 1000
        return self.at


Open = Callable[[str], holdfast.Holdfast]


def text_of(exported: dict[str, Any]) -> bytes:
    """Encode an export without its timestamp."""
    return error_responses.encode({**exported, "exported_at": ""})


def import_envelope(hold: holdfast.Holdfast, envelope: Any, **options: Any) -> Any:
    return hold.call("import", {"envelope": envelope, **options})


def memory(**more: Any) -> dict[str, Any]:
    return {"id": "m-1", "title": "One", "content": "first", "tier": "long", "namespace": "elsewhere", **more}


def counts(answer: Any) -> tuple[int, int, int, int, int]:
    return answer.imported, answer.merged, answer.unchanged, answer.older, answer.rejected
