"""A Slack export: channels as folders, a file of messages for each day, and who the users are."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...domain.errors import Invalid
from ...domain.mined import Problem, Record, Turn, moment_of
from .blocks import dict_of, list_of, text_of
from .places import Piece, watched
from .reading import Told, guarded, members

DAY = re.compile(r"(?:.*/)?([^/]+)/(\d{4}-\d{2}-\d{2})\.json")
LISTS = ("channels.json", "groups.json", "dms.json", "mpims.json")
_NOISE = re.compile(
    r"(?:channel|group)_(?:join|leave|topic|purpose|name|archive|unarchive|posting_permissions|convert.*)"
    r"|bot_add|bot_remove|pinned_item|tombstone|reminder_add|sh_room_created|huddle_thread"
)


def read(pieces: Sequence[Piece], told: Told) -> Iterator[Record]:
    """Every message, channel by channel and day by day; what answers a message is a conversation with it."""
    people: dict[str, str] = {}
    channels: dict[str, str] = {}
    for piece in pieces:
        last = piece.name.rpartition("/")[2]
        if last == "users.json" or last in LISTS:
            for one in guarded(piece.name, _listed(piece, told)):
                if isinstance(one, Problem):
                    yield one
                elif last == "users.json":
                    people[text_of(one.get("id"))] = _person(one)
                else:
                    channels[text_of(one.get("name")) or text_of(one.get("id"))] = text_of(one.get("id"))
    for piece in pieces:
        if day := DAY.fullmatch(piece.name):
            channel = channels.get(day[1]) or day[1]
            yield from guarded(piece.name, _day(piece, day[1], channel, people, told))


def _listed(piece: Piece, told: Told) -> Iterator[dict[str, Any] | Problem]:
    with watched(piece, told) as source:
        for one in members(source, piece.name, None):
            if isinstance(one, Problem):
                yield one
            elif isinstance(one[1], dict):
                yield one[1]


def _person(user: dict[str, Any]) -> str:
    profile = dict_of(user.get("profile"))
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name for name in map(text_of, names) if name), text_of(user.get("id")))


def _day(piece: Piece, name: str, channel: str, people: dict[str, str], told: Told) -> Iterator[Record]:
    with watched(piece, told) as source:
        for one in members(source, piece.name, None):
            if isinstance(one, Problem):
                yield one
            elif isinstance(one[1], dict):
                yield from _message(one[1], one[0], name, channel, people)
            else:
                yield Problem(where=one[0], what="is no message")


def _message(raw: dict[str, Any], where: str, name: str, channel: str, people: dict[str, str]) -> Iterator[Record]:
    stamp, text = text_of(raw.get("ts")), html.unescape(text_of(raw.get("text")))
    files = [
        text_of(one.get("name"))[:256] for one in list_of(raw.get("files")) if isinstance(one, dict) and one.get("name")
    ]
    text = text or "\n".join(f"[file {file}]" for file in files) or _attached(raw)
    if not text.strip():
        return
    if not stamp:
        yield Problem(where=where, what="is a message without a ts, so that it has no name")
        return
    replied = text_of(raw.get("thread_ts"))
    yield Turn(
        key=f"slack/{channel}/{stamp}",
        thread=f"{channel}/{replied}" if replied else channel,
        name=f"#{name}",
        speaker=_speaker(raw, people),
        content=text,
        at=stamp,
        place=_place(stamp),
        uri=f"uri:slack:{channel}#{stamp}",
        where=where,
        sort="system" if _NOISE.fullmatch(text_of(raw.get("subtype"))) else "message",
        metadata={"files": files[:20]} if files else {},
    )


def _place(stamp: str) -> int | None:
    """A message's time is its place: it is unique within a channel."""
    try:
        return moment_of(stamp)
    except Invalid:
        return None


def _speaker(raw: dict[str, Any], people: dict[str, str]) -> str:
    user = text_of(raw.get("user"))
    profile = dict_of(raw.get("user_profile"))
    bot = dict_of(raw.get("bot_profile"))
    names = (
        people.get(user),
        profile.get("display_name"),
        profile.get("real_name"),
        raw.get("username"),
        bot.get("name"),
    )
    return next((name for name in map(text_of, names) if name), user or text_of(raw.get("bot_id")) or "unknown")


def _attached(raw: dict[str, Any]) -> str:
    """What a program's message says when it has no text of its own."""
    given = list_of(raw.get("attachments"))
    return "\n".join(text_of(one.get("text")) or text_of(one.get("fallback")) for one in given if isinstance(one, dict))
