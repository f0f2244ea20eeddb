"""Reader of Slack exports: a folder per channel, a file per day, and lists of users and channels."""

import html
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from holdfast.features.importers.model import Omission, Problem, Record, Turn, read_timestamp
from holdfast.features.importers.plan import ORIGINAL_KEY
from holdfast.features.importers.readers.blocks import as_dict, as_list, as_text, check_text
from holdfast.features.importers.readers.reader import (
    ProgressCallback,
    RawItem,
    apply_reader,
    read_array,
    stop_at_read_error,
    trim_start,
)
from holdfast.features.importers.sources import Piece, open_with_progress
from holdfast.kernel.errors import Invalid

DAY_FILE = re.compile(r"(?:.*/)?([^/]+)/(\d{4}-\d{2}-\d{2})\.json")
DIRECT_MESSAGE_LISTS = ("dms.json", "mpims.json")
MAX_ORIGINAL_BYTES = 32_768
"""Bytes of the original text as JSON."""
CHANNEL_LISTS = ("channels.json", "groups.json", *DIRECT_MESSAGE_LISTS)
_NOISE = re.compile(
    r"(?:channel|group)_(?:join|leave|topic|purpose|name|archive|unarchive|posting_permissions|convert.*)"
    r"|bot_add|bot_remove|pinned_item|tombstone|reminder_add|sh_room_created|huddle_thread"
)
_INLINE_BLOCKS = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")
"""Blocks whose elements share a line."""
_MARK = re.compile(r"<([@#!]?)([^<>|\n]{1,2000})(?:\|([^<>\n]*))?>")
"""Slack syntax of mentions, channels, broadcasts and links. In plain text these characters are escaped."""


class Channel(NamedTuple):
    """A channel or a group of direct messages."""

    id: str
    name: str
    members: tuple[str, ...] = ()
    """Members of direct messages, which have no name."""

    def format_name(self, people: dict[str, str]) -> str:
        return ", ".join(people.get(one) or one for one in self.members) or f"#{self.name}"


def read(pieces: Sequence[Piece], on_read: ProgressCallback) -> Iterator[Record]:
    """Read all messages by channel and day. A thread is a conversation of its own."""
    people: dict[str, str] = {}
    channels: dict[str, Channel] = {}
    for piece in pieces:
        last = piece.name.rpartition("/")[2]
        if last == "users.json" or last in CHANNEL_LISTS:
            for one in stop_at_read_error(piece.name, _read_list(piece, on_read)):
                if isinstance(one, Problem):
                    yield one
                elif last == "users.json":
                    people[as_text(one.get("id"))] = _user_name(one)
                else:
                    channel = _make_channel(one, is_direct=last in DIRECT_MESSAGE_LISTS)
                    channels[channel.name] = channel
    for piece in pieces:
        if day := DAY_FILE.fullmatch(piece.name):
            channel = channels.get(day[1]) or Channel(day[1], day[1])
            messages = _read_objects(piece, on_read, "not a message")
            read_message = partial(_read_message, channel=channel, people=people)
            yield from stop_at_read_error(piece.name, apply_reader(messages, read_message))


def _make_channel(raw: dict[str, Any], *, is_direct: bool) -> Channel:
    """Build a channel. Its folder is named after it, or after the id for direct messages."""
    id, members = as_text(raw.get("id")), [as_text(one) for one in as_list(raw.get("members"))]
    return Channel(id, as_text(raw.get("name")) or id, tuple(members[:20]) if is_direct else ())


def _read_list(piece: Piece, on_read: ProgressCallback) -> Iterator[dict[str, Any] | Problem]:
    for one in _read_objects(piece, on_read, "neither a user nor a channel"):
        yield one if isinstance(one, Problem) else one[1]


def _read_objects(piece: Piece, on_read: ProgressCallback, message: str) -> Iterator[RawItem | Problem]:
    """Objects of a list with their places. Other values are reported."""
    if trim_start(piece.read_head()).startswith(b"{"):
        yield Problem(where=piece.name, what="not a list")
    with open_with_progress(piece, on_read) as source:
        for one in read_array(source, piece.name, None):
            if isinstance(one, Problem) or isinstance(one[1], dict):
                yield one
            else:
                yield Problem(where=one[0], what=message)


def _user_name(user: dict[str, Any]) -> str:
    profile = as_dict(user.get("profile"))
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name for name in map(as_text, names) if name), as_text(user.get("id")))


def _read_message(raw: dict[str, Any], where: str, channel: Channel, people: dict[str, str]) -> Iterator[Record]:
    stamp = as_text(raw.get("ts"))
    text = _render_text(as_text(raw.get("text")) or _render_blocks(raw.get("blocks")), people)
    files = [
        as_text(one.get("name"))[:256] for one in as_list(raw.get("files")) if isinstance(one, dict) and one.get("name")
    ]
    text = text or "\n".join(f"[file {file}]" for file in files) or _attachment_text(raw)
    odd = list(_check_message(raw, where))
    yield from odd
    if not text.strip():
        if not odd:
            yield Omission(kind="empty")
        return
    if not stamp:
        if raw.get("ts") in (None, ""):
            yield Problem(where=where, what="message without ts")
        return
    thread_stamp = as_text(raw.get("thread_ts"))
    yield Turn(
        key=f"slack/{channel.id}/{stamp}",
        thread=f"{channel.id}/{thread_stamp}" if thread_stamp else channel.id,
        name=channel.format_name(people),
        speaker=_speaker(raw, people),
        content=text,
        at=stamp,
        place=_parse_position(stamp),
        uri=f"uri:slack:{channel.id}#{stamp}",
        where=where,
        kind="system" if _NOISE.fullmatch(as_text(raw.get("subtype"))) else "message",
        metadata=({"files": files[:20]} if files else {}) | _original_text(as_text(raw.get("text")), text),
    )


def _check_message(raw: dict[str, Any], where: str) -> Iterator[Problem]:
    """Report parts of a message that cannot be read."""
    yield from check_text(raw.get("text"), f"{where}.text")
    yield from check_text(raw.get("ts"), f"{where}.ts")
    for name in ("blocks", "files", "attachments"):
        if not isinstance(raw.get(name), list | None):
            yield Problem(where=f"{where}.{name}", what="not a list")


def _original_text(raw: str, text: str) -> dict[str, str]:
    """Original text, if it differs from the rendered text and is not too long."""
    fits = raw and raw != text and len(msgspec.json.encode(raw)) <= MAX_ORIGINAL_BYTES
    return {ORIGINAL_KEY: raw} if fits else {}


def _render_text(text: str, people: dict[str, str]) -> str:
    """Render a text as users see it: names instead of ids, links written out."""

    def render_mark(mark: re.Match[str]) -> str:
        sign, target, label = mark[1], mark[2], mark[3] or ""
        if sign == "@":
            return f"@{people.get(target) or label or target}"
        if sign:
            return label if sign == "!" and label else f"{'@' if sign == '!' else '#'}{label or target}"
        plain = target.removeprefix("mailto:")
        said_already = not label or (plain.rstrip("/").endswith(label.rstrip("/")) and "." in label)
        return plain if said_already else f"{label} ({target})"

    return html.unescape(_MARK.sub(render_mark, text))


def _render_blocks(blocks: Any) -> str:
    """Text of the blocks of a message, in Slack syntax. Apps often send nothing else."""
    found = (_render_block(one) for one in as_list(blocks) if isinstance(one, dict))
    return "\n".join(filter(str.strip, found))


def _render_block(one: dict[str, Any]) -> str:
    text = one.get("text")
    match one.get("type"):
        case "text" | "plain_text":
            return html.escape(as_text(text), quote=False)
        case "mrkdwn":
            return as_text(text)
        case "user":
            return f"<@{as_text(one.get('user_id'))}>"
        case "link":
            return f"<{as_text(one.get('url'))}|{html.escape(as_text(text), quote=False)}>"
        case "emoji":
            return f":{as_text(one.get('name'))}:"
    inner = [text, *as_list(one.get("fields")), *as_list(one.get("elements"))]
    apart = "" if as_text(one.get("type")) in _INLINE_BLOCKS else "\n"
    return apart.join(filter(None, (_render_block(part) for part in inner if isinstance(part, dict))))


def _parse_position(stamp: str) -> int | None:
    """Position of a message: its timestamp, unique within a channel."""
    try:
        return read_timestamp(stamp)
    except Invalid:
        return None


def _speaker(raw: dict[str, Any], people: dict[str, str]) -> str:
    user = as_text(raw.get("user"))
    profile = as_dict(raw.get("user_profile"))
    bot = as_dict(raw.get("bot_profile"))
    names = (
        people.get(user),
        profile.get("display_name"),
        profile.get("real_name"),
        raw.get("username"),
        bot.get("name"),
    )
    return next((name for name in map(as_text, names) if name), user or as_text(raw.get("bot_id")) or "unknown")


def _attachment_text(raw: dict[str, Any]) -> str:
    """Text of the attachments, for messages of apps without text."""
    attachments = as_list(raw.get("attachments"))
    return "\n".join(
        as_text(one.get("text")) or as_text(one.get("fallback")) for one in attachments if isinstance(one, dict)
    )
