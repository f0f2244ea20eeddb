"""Ingest a text."""

from typing import Any

URI = "doc:handbook"


def ingest_text(ctx: Any, text: str, **more: Any) -> Any:
    return ctx.ingest(content=text, namespace="team", source_uri=URI, **more)
