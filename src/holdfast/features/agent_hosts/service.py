"""Handle events of agent hosts: add relevant memories to the session, each once, and capture its turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.features.agent_hosts import projects
from holdfast.features.agent_hosts import store as hook_sessions
from holdfast.features.agent_hosts.host import ANEW, MOST_ANSWER, OVER, Happened, is_asked
from holdfast.features.agent_hosts.project import around
from holdfast.features.agent_hosts.store import MOST_TOOLS, Kept
from holdfast.features.context_blocks import context_packing as pack
from holdfast.features.context_blocks import for_query as context
from holdfast.features.context_blocks import session_start as booting
from holdfast.features.embeddings import service as embed
from holdfast.features.importers.capture import Role
from holdfast.features.importers.model import digest, without_recalled
from holdfast.features.importers.readers.blocks import is_ours
from holdfast.features.memories.store import Filter
from holdfast.features.people.person_namespace import place_of as people_place
from holdfast.features.people.store import known_as
from holdfast.features.recall import budget
from holdfast.features.recall.query import Question, question
from holdfast.features.recall.service import COMMON, Ask, Hit, recall
from holdfast.kernel.context import Hold
from holdfast.kernel.storage import fts_tokens as tokens

MOST_HITS = 20
LOOKED_AT = 100
"""Hits to examine. Includes the session's own turns and earlier prompts, which are filtered out."""
LONGEST_ASKED = 2000
"""Characters of a prompt used as the query: its beginning and its end."""
LEAST_WORDS = 2
"""A prompt with fewer words gets nothing: "go on", "shorter", "thanks"."""
NEAR = 0.55
"""A memory whose best passage reaches this cosine is relevant."""
RATHER_NEAR = 0.36
"""A memory that reaches only this cosine must also share words with the prompt."""
SHARED = 2
"""Shared words required of a memory with a low or unknown cosine."""
WAITING = 8
"""Compute embeddings after an answer if at least this many memories lack them."""
MOST_TRANSCRIPT = 8 << 20
MOST_RECOVERED = 20
Door = Callable[[str, dict[str, Any]], Any]
"""Calls an operation by name, so captured turns pass the same rules and hooks as any store."""


class Place(NamedTuple):
    """The project of a session."""

    namespace: str
    names: tuple[str, ...]
    budget: int | None


def place_of(hold: Hold, told: Happened) -> Place:
    """Find the project of a session's folder."""
    found = projects.which(hold, Path(told.folder or "."))
    return Place(found.namespace, found.names, found.budget)


def key_of(told: Happened) -> str:
    """Return the key of a session: its host and its id there."""
    return digest(told.host, told.session)


# Context for a session


def begun(hold: Hold, told: Happened, most_tokens: int) -> str:
    """Build the session-start context; empty if a resumed session already received it."""
    place = place_of(hold, told)
    with hold.reading() as session:
        before = hook_sessions.get(session, key_of(told))
    if before.given and told.source not in ANEW:
        return ""
    most = place.budget or most_tokens
    done = booting.boot(hold, booting.Place(place.namespace, place.names, hold.caller.agent), most)
    while len(done.text) > MOST_ANSWER:
        most //= 2
        done = booting.boot(hold, booting.Place(place.namespace, place.names, hold.caller.agent), most)
    head = f"{booting.manifest(place.namespace, done, most)}\nKeep what concerns this project under {place.namespace}."
    with hold.store.writing() as session:
        kept = hook_sessions.get(session, key_of(told))
        hook_sessions.put(session, key_of(told), kept._replace(given=tuple(done.ids)), hold.now())
    return f"{head}\n{done.text}".rstrip()


def bearing(hold: Hold, told: Happened, most_tokens: int) -> str:
    """Build the context for a prompt from relevant memories that the session has not received yet; may be empty."""
    asked = shortened(without_recalled(told.text))
    if told.is_command or not asked.strip():
        return ""
    place, key = place_of(hold, told), key_of(told)
    with hold.reading() as session:
        kept = hook_sessions.get(session, key)
        people = [people_place(name) for name in known_as(session, hold.caller.agent)]
    if kept.full:
        return ""
    which = Filter(namespaces=(*around(place.names, hold.namespace), *people))
    most = min(place.budget or most_tokens, most_tokens)
    block = given(hold, Ask(asked, which, LOOKED_AT, without=kept.given), told.session, most)
    return block.text if block.text and _claimed(hold, key, block.cited) else ""


def given(hold: Hold, ask: Ask, thread: str, most_tokens: int) -> pack.Block:
    """Pack the memories relevant to a prompt, except those of the session itself, which the agent already sees."""
    blocks: list[pack.Block] = []
    asked = question(ask.text, hold.now())
    if len(set(asked.words)) < LEAST_WORDS:
        return pack.Block("", 0, reason="The prompt is too short.")

    def pick(hits: list[Hit]) -> tuple[list[Hit], budget.Packed]:
        others = [hit for hit in hits if hit.memory.thread != thread and not is_asked(hit.memory)][:MOST_HITS]
        worth = [hit for hit in others if hit.superseded_by not in ask.without and bears(hit, asked)]
        shown = context.packable(hold, worth)
        fence, now = context.new_fence(), hold.now()
        times = context.times_of(context.all_said(hold, ask), hits) if shown else None
        most = most_tokens
        block = pack.block(shown, budget=most, fence=fence, now=now, times=times)
        while len(block.text) > MOST_ANSWER:
            most //= 2
            block = pack.block(shown, budget=most, fence=fence, now=now, times=times)
        blocks.append(block)
        kept = [hit for hit in worth if hit.memory.id in set(block.cited)]
        return kept, budget.Packed(list(kept), block.tokens, block.dropped, overflow=False)

    recall(hold, ask, pick)
    return blocks[0]


def bears(hit: Hit, asked: Question) -> bool:
    """Return whether a memory is relevant to a prompt: by cosine, or by a lower cosine and shared words.

    For captured turns only the cosine counts: answers share jargon with every prompt. Without embeddings, half of the
    words of the prompt must match.
    """
    near = hit.why.cosine
    if near is not None and near >= NEAR:
        return True
    if "host" in hit.memory.metadata or (near is not None and near < RATHER_NEAR):
        return False
    both = shared(hit)
    return len(both) >= SHARED and (near is not None or 2 * len(both) >= len(set(asked.words)))


def shared(hit: Hit) -> set[str]:
    """Return the query words in the title or the best passage; a long text would match many words somewhere."""
    titled = set(tokens.stems(hit.memory.title))
    piece = hit.why.piece
    held = {stem for stem in hit.why.terms if stem in titled or (piece is not None and stem in piece.counts)}
    return held - COMMON


def shortened(text: str) -> str:
    """Shorten a long prompt, which may contain a log or a file, to its beginning and end."""
    if len(text) <= LONGEST_ASKED:
        return text
    half = LONGEST_ASKED // 2
    return f"{text[:half]}\n{text[-half:]}"


def _claimed(hold: Hold, key: str, ids: Sequence[str]) -> bool:
    """Record memories as given before they are; return False if another hook of the session already gave one."""
    with hold.store.writing() as session:
        kept = hook_sessions.get(session, key)
        if set(ids) & set(kept.given):
            return False
        hook_sessions.put(session, key, kept._replace(given=(*kept.given, *ids)), hold.now())
    return True


# Capture of a session


def keep(hold: Hold, told: Happened, ask: Door) -> None:
    """Store prompts and answers, each once; of tool calls only names and targets, with the answer that followed."""
    match told.event:
        case "prompt":
            _keep_turns(hold, told, [("user", told.text)], ask)
        case "tool":
            _note_tool(hold, told)
        case "session-end":
            _keep_answer(hold, told, ask)
        case _:
            return


def _keep_answer(hold: Hold, told: Happened, ask: Door) -> None:
    if told.text.strip() or told.asked:
        _keep_turns(hold, told, [*(("user", one) for one in told.asked), ("assistant", told.text)], ask)
    elif told.transcript:
        _recover(hold, told, Path(told.transcript), ask)
    if told.name in OVER:
        with hold.store.writing() as session:
            hook_sessions.drop(session, key_of(told))


def _keep_turns(hold: Hold, told: Happened, said: Sequence[tuple["Role", str]], ask: Door) -> None:
    """Store turns, skipping repeats of the last ones that another hook of the host sends."""
    place = place_of(hold, told)
    for role, text in said:
        own, key = without_recalled(text), key_of(told)
        if not own.strip() or told.is_command:
            continue
        mark = digest(role, own)
        with hold.store.writing() as session:
            kept = hook_sessions.get(session, key)
            if mark in kept.said:
                continue
            tools = kept.tools if role == "assistant" else ()
            after = Kept(kept.turns + 1, kept.given, () if tools else kept.tools, (*kept.said[-1:], mark))
            hook_sessions.put(session, key, after, hold.now())
        turn = {
            "host_session_id": told.session,
            "host_turn_index": kept.turns,
            "role": role,
            "content": own,
            "namespace": place.namespace,
            "host_kind": told.host,
            "metadata": {"tool_calls": list(tools)} if tools else {},
        }
        ask("capture_turn", turn)


def _note_tool(hold: Hold, told: Happened) -> None:
    """Record a tool call and its target, except calls of Holdfast's own tools."""
    if not told.tool or is_ours(told.tool):
        return
    used = {"tool": told.tool} | ({"brief": told.brief} if told.brief else {})
    with hold.store.writing() as session:
        kept = hook_sessions.get(session, key_of(told))
        if used not in kept.tools and len(kept.tools) < MOST_TOOLS:
            hook_sessions.put(session, key_of(told), kept._replace(tools=(*kept.tools, used)), hold.now())


def _recover(hold: Hold, told: Happened, transcript: Path, ask: Door) -> None:
    """Recover the last turns from the transcript if the host does not send them; skip oversized transcripts."""
    if transcript.is_file() and transcript.stat().st_size <= MOST_TRANSCRIPT:
        place = place_of(hold, told).namespace
        ask("recover", {"host": told.host, "transcript": str(transcript), "limit": MOST_RECOVERED, "namespace": place})


def settle(hold: Hold) -> None:
    """Compute some missing embeddings, if enough wait, so that later prompts need not."""
    if hold.embedder is not None and embed.waiting(hold, hold.embedder) >= WAITING:
        embed.step(hold, hold.embedder)
