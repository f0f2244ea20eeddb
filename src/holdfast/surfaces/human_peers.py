"""Peers, in a person's words."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from .human import safe, table


def token(answer: Any) -> Iterator[str]:
    yield answer.token


def added(answer: Any) -> Iterator[str]:
    yield f"{safe(answer.name)} is a peer{_where(answer)}."
    yield f"  hears of: {_patterns(answer.tell)}"
    yield f"  tells of: {_patterns(answer.take)}{_governs(answer)}"


def listed(answer: Any) -> Iterator[str]:
    if not answer.peers:
        yield "No peers: enrol one with `holdfast peers add NAME TOKEN`."
        return
    rows = (
        (
            safe(peer.name),
            _patterns(peer.tell),
            _patterns(peer.take),
            "yes" if peer.admin else "",
            "" if peer.url is UNSET else safe(peer.url),
            safe(peer.node),
        )
        for peer in answer.peers
    )
    yield from table(rows, ("NAME", "HEARS OF", "TELLS OF", "ADMIN", "URL", "NODE"))


def removed(answer: Any) -> Iterator[str]:
    yield f"{safe(answer.name)} is no peer any more; what it told before stays."


def certified(answer: Any) -> Iterator[str]:
    yield f"{safe(answer.certificate)}, with its key beside it; others believe it by {safe(answer.ca)}"
    yield f"sha256:{answer.fingerprint}"


def _where(answer: Any) -> str:
    return "" if answer.url is UNSET else f" at {safe(answer.url)}"


def _governs(answer: Any) -> str:
    return ", and govern" if answer.admin else ""


def _patterns(patterns: list[str]) -> str:
    return ", ".join(safe(pattern) for pattern in patterns) or "nothing"
