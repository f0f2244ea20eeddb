"""Reader of Slack exports: a folder per channel, a file per day, and lists of users and channels."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.features.importers.model import LeftOut, Problem, Record, Turn, moment_of
from holdfast.features.importers.plan import ORIGINAL
from holdfast.features.importers.readers.blocks import dict_of, list_of, no_text, text_of
from holdfast.features.importers.readers.reader import Raw, Told, guarded, members, start_of
from holdfast.features.importers.sources import Piece, watched
from holdfast.kernel.errors import Invalid

DAY = re.compile(r"(?:.*/)?([^/]+)/(\d{4}-\d{2}-\d{2})\.json")
AMONG = ("dms.json", "mpims.json")
MOST_ORIGINAL = 32_768
"""Bytes of the original text as JSON."""
LISTS = ("channels.json", "groups.json", *AMONG)
_NOISE = re.compile(
    r"(?:channel|group)_(?:join|leave|topic|purpose|name|archive|unarchive|posting_permissions|convert.*)"
    r"|bot_add|bot_remove|pinned_item|tombstone|reminder_add|sh_room_created|huddle_thread"
)
_IN_A_ROW = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")
"""Blocks whose elements share a line."""
_MARK = re.compile(r"<([@#!]?)([^<>|\n]{1,2000})(?:\|([^<>\n]*))?>")
"""Slack syntax of mentions, channels, broadcasts and links. In plain text these characters are escaped."""


class Channel(NamedTuple):
    """A channel or a group of direct messages."""

    id: str
    name: str
    members: tuple[str, ...] = ()
    """Members of direct messages, which have no name."""

    def called(self, people: dict[str, str]) -> str:
        return ", ".join(people.get(one) or one for one in self.members) or f"#{self.name}"


def read(pieces: Sequence[Piece], told: Told) -> Iterator[Record]:
    """Read all messages by channel and day. A thread is a conversation of its own."""
    people: dict[str, str] = {}
    channels: dict[str, Channel] = {}
    for piece in pieces:
        last = piece.name.rpartition("/")[2]
        if last == "users.json" or last in LISTS:
            for one in guarded(piece.name, _listed(piece, told)):
                if isinstance(one, Problem):
                    yield one
                elif last == "users.json":
                    people[text_of(one.get("id"))] = _person(one)
                else:
                    channel = _channel(one, among=last in AMONG)
                    channels[channel.name] = channel
    for piece in pieces:
        if day := DAY.fullmatch(piece.name):
            channel = channels.get(day[1]) or Channel(day[1], day[1])
            yield from guarded(piece.name, _day(piece, channel, people, told))


def _channel(raw: dict[str, Any], *, among: bool) -> Channel:
    """Build a channel. Its folder is named after it, or after the id for direct messages."""
    id, members = text_of(raw.get("id")), [text_of(one) for one in list_of(raw.get("members"))]
    return Channel(id, text_of(raw.get("name")) or id, tuple(members[:20]) if among else ())


def _listed(piece: Piece, told: Told) -> Iterator[dict[str, Any] | Problem]:
    for one in _objects(piece, told, "neither a user nor a channel"):
        yield one if isinstance(one, Problem) else one[1]


def _objects(piece: Piece, told: Told, otherwise: str) -> Iterator[Raw | Problem]:
    """Objects of a list with their places. Other values are reported."""
    if start_of(piece.head()).startswith(b"{"):
        yield Problem(where=piece.name, what="not a list")
    with watched(piece, told) as source:
        for one in members(source, piece.name, None):
            if isinstance(one, Problem) or isinstance(one[1], dict):
                yield one
            else:
                yield Problem(where=one[0], what=otherwise)


def _person(user: dict[str, Any]) -> str:
    profile = dict_of(user.get("profile"))
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name for name in map(text_of, names) if name), text_of(user.get("id")))


def _day(piece: Piece, channel: Channel, people: dict[str, str], told: Told) -> Iterator[Record]:
    for one in _objects(piece, told, "not a message"):
        if isinstance(one, Problem):
            yield one
        else:
            yield from _message(one[1], one[0], channel, people)


def _message(raw: dict[str, Any], where: str, channel: Channel, people: dict[str, str]) -> Iterator[Record]:
    stamp = text_of(raw.get("ts"))
    text = _written(text_of(raw.get("text")) or _said(raw.get("blocks")), people)
    files = [
        text_of(one.get("name"))[:256] for one in list_of(raw.get("files")) if isinstance(one, dict) and one.get("name")
    ]
    text = text or "\n".join(f"[file {file}]" for file in files) or _attached(raw)
    odd = list(_misfits(raw, where))
    yield from odd
    if not text.strip():
        if not odd:
            yield LeftOut(sort="empty")
        return
    if not stamp:
        if raw.get("ts") in (None, ""):
            yield Problem(where=where, what="message without ts")
        return
    thread_stamp = text_of(raw.get("thread_ts"))
    yield Turn(
        key=f"slack/{channel.id}/{stamp}",
        thread=f"{channel.id}/{thread_stamp}" if thread_stamp else channel.id,
        name=channel.called(people),
        speaker=_speaker(raw, people),
        content=text,
        at=stamp,
        place=_place(stamp),
        uri=f"uri:slack:{channel.id}#{stamp}",
        where=where,
        sort="system" if _NOISE.fullmatch(text_of(raw.get("subtype"))) else "message",
        metadata=({"files": files[:20]} if files else {}) | _original(text_of(raw.get("text")), text),
    )


def _misfits(raw: dict[str, Any], where: str) -> Iterator[Problem]:
    """Report parts of a message that cannot be read."""
    yield from no_text(raw.get("text"), f"{where}.text")
    yield from no_text(raw.get("ts"), f"{where}.ts")
    for name in ("blocks", "files", "attachments"):
        if not isinstance(raw.get(name), list | None):
            yield Problem(where=f"{where}.{name}", what="not a list")


def _original(given: str, text: str) -> dict[str, str]:
    """Original text, if it differs from the rendered text and is not too long."""
    fits = given and given != text and len(msgspec.json.encode(given)) <= MOST_ORIGINAL
    return {ORIGINAL: given} if fits else {}


def _written(text: str, people: dict[str, str]) -> str:
    """Render a text as users see it: names instead of ids, links written out."""

    def shown(mark: re.Match[str]) -> str:
        sign, target, label = mark[1], mark[2], mark[3] or ""
        if sign == "@":
            return f"@{people.get(target) or label or target}"
        if sign:
            return label if sign == "!" and label else f"{'@' if sign == '!' else '#'}{label or target}"
        plain = target.removeprefix("mailto:")
        said_already = not label or (plain.rstrip("/").endswith(label.rstrip("/")) and "." in label)
        return plain if said_already else f"{label} ({target})"

    return html.unescape(_MARK.sub(shown, text))


def _said(blocks: Any) -> str:
    """Text of the blocks of a message, in Slack syntax. Apps often send nothing else."""
    found = (_block(one) for one in list_of(blocks) if isinstance(one, dict))
    return "\n".join(filter(str.strip, found))


def _block(one: dict[str, Any]) -> str:
    text = one.get("text")
    match one.get("type"):
        case "text" | "plain_text":
            return html.escape(text_of(text), quote=False)
        case "mrkdwn":
            return text_of(text)
        case "user":
            return f"<@{text_of(one.get('user_id'))}>"
        case "link":
            return f"<{text_of(one.get('url'))}|{html.escape(text_of(text), quote=False)}>"
        case "emoji":
            return f":{text_of(one.get('name'))}:"
    inner = [text, *list_of(one.get("fields")), *list_of(one.get("elements"))]
    apart = "" if text_of(one.get("type")) in _IN_A_ROW else "\n"
    return apart.join(filter(None, (_block(part) for part in inner if isinstance(part, dict))))


def _place(stamp: str) -> int | None:
    """Position of a message: its timestamp, unique within a channel."""
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
    """Text of the attachments, for messages of apps without text."""
    attachments = list_of(raw.get("attachments"))
    return "\n".join(
        text_of(one.get("text")) or text_of(one.get("fallback")) for one in attachments if isinstance(one, dict)
    )
