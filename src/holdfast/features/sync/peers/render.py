"""Terminal output of the peer operations."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from holdfast.kernel.terminal import escape


def render_peer_token(answer: Any) -> Iterator[str]:
    yield answer.token


def render_peer(answer: Any) -> Iterator[str]:
    yield f"Peer {escape(answer.name)}{_format_url(answer)}"
    yield f"  reads:  {_format_patterns(answer.tell)}"
    yield f"  writes: {_format_patterns(answer.take)}{_format_admin(answer)}"


def render_peer_removal(answer: Any) -> Iterator[str]:
    yield f"Removed peer {escape(answer.name)}. Data it sent before stays."


def render_peer_certificate(answer: Any) -> Iterator[str]:
    yield f"Wrote {escape(answer.certificate)} and its key, signed by {escape(answer.ca)}"
    yield f"sha256:{answer.fingerprint}"


def _format_url(answer: Any) -> str:
    return "" if answer.url is UNSET else f" at {escape(answer.url)}"


def _format_admin(answer: Any) -> str:
    return ", admin" if answer.admin else ""


def _format_patterns(patterns: list[str]) -> str:
    return ", ".join(escape(pattern) for pattern in patterns) or "nothing"
