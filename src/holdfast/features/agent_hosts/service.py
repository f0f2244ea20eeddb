"""Handle events of agent hosts: add relevant memories to the session, each once, and capture its turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.features.agent_hosts import projects
from holdfast.features.agent_hosts import store as hook_sessions
from holdfast.features.agent_hosts.host import ENDING_EVENTS, FRESH_SOURCES, MAX_ANSWER, HostEvent
from holdfast.features.agent_hosts.store import MAX_TOOLS
from holdfast.features.context_blocks import for_query, session_start
from holdfast.features.context_blocks.context_packing import PackedBlock, pack_block
from holdfast.features.context_blocks.session_start import is_prompt, related_namespaces
from holdfast.features.embeddings import service as embed
from holdfast.features.importers.capture import Role
from holdfast.features.importers.model import digest
from holdfast.features.importers.readers.blocks import is_own_tool
from holdfast.features.memories.read_memories import Filter
from holdfast.features.people.model import people_namespace as people_place
from holdfast.features.people.resolve_names import list_names
from holdfast.features.recall.query import Query, RecallRequest, parse_query
from holdfast.features.recall.service import COMMON_STEMS, Hit, PackResult, recall
from holdfast.kernel.context import Context
from holdfast.kernel.storage import index_terms as tokens
from holdfast.kernel.text.recalled_blocks import remove_recalled

MAX_HITS = 20
MAX_CANDIDATES = 100
"""Hits to examine. Includes the session's own turns and earlier prompts, which are filtered out."""
MAX_QUERY_CHARS = 2000
"""Characters of a prompt used as the query: its beginning and its end."""
MIN_WORDS = 2
"""A prompt with fewer words gets nothing: "go on", "shorter", "thanks"."""
MIN_COSINE = 0.55
"""A memory whose best passage reaches this cosine is relevant."""
MIN_COSINE_WITH_WORDS = 0.36
"""A memory that reaches only this cosine must also share words with the prompt."""
MIN_SHARED_WORDS = 2
"""Shared words required of a memory with a low or unknown cosine."""
MIN_PENDING_EMBEDDINGS = 8
"""Compute embeddings after an answer if at least this many memories lack them."""
MAX_TRANSCRIPT_BYTES = 8 << 20
MAX_RECOVERED_TURNS = 20
CallOperation = Callable[[str, dict[str, Any]], Any]
"""Calls an operation by name, so captured turns pass the same rules and hooks as any store."""


def find_session_project(ctx: Context, event: HostEvent) -> projects.Project:
    """Find the project of a session's folder."""
    return projects.find_project(ctx, Path(event.folder or "."))


def session_key(event: HostEvent) -> str:
    """Return the key of a session: its host and its id there."""
    return digest(event.host, event.session)


# Context for a session


def build_session_start(ctx: Context, event: HostEvent, max_tokens: int) -> str:
    """Build the session-start context; empty if a resumed session already received it."""
    place = find_session_project(ctx, event)
    with ctx.reading() as session:
        before = hook_sessions.get_session(session, session_key(event))
    if before.given_ids and event.source not in FRESH_SOURCES:
        return ""
    most = place.budget or max_tokens
    scope = session_start.SessionScope(place.namespace, tuple(place.names), ctx.caller.agent)
    while len((context := session_start.build_session_context(ctx, scope, most)).text) > MAX_ANSWER:
        most //= 2
    manifest = session_start.format_manifest(place.namespace, context, most)
    head = f"{manifest}\nStore memories about this project under {place.namespace}."
    with ctx.store.transaction() as session:
        state = hook_sessions.get_session(session, session_key(event))
        hook_sessions.put_session(session, replace(state, given_ids=tuple(context.ids)), ctx.now())
    return f"{head}\n{context.text}".rstrip()


def build_prompt_context(ctx: Context, event: HostEvent, max_tokens: int) -> str:
    """Build the context for a prompt from relevant memories that the session has not received yet; may be empty."""
    query_text = shorten_prompt(remove_recalled(event.text))
    if event.is_command or not query_text.strip():
        return ""
    place, key = find_session_project(ctx, event), session_key(event)
    with ctx.reading() as session:
        state = hook_sessions.get_session(session, key)
        people = [people_place(name) for name in list_names(session, ctx.caller.agent)]
    if state.is_full:
        return ""
    which = Filter(namespaces=(*related_namespaces(tuple(place.names), ctx.namespace), *people))
    most = min(place.budget or max_tokens, max_tokens)
    block = pack_relevant(
        ctx, RecallRequest(query_text, which, MAX_CANDIDATES, excluded=state.given_ids), event.session, most
    )
    return block.text if block.text and _claim_memories(ctx, key, block.cited) else ""


def pack_relevant(ctx: Context, ask: RecallRequest, thread: str, max_tokens: int) -> PackedBlock:
    """Pack the memories relevant to a prompt, except those of the session itself, which the agent already sees."""
    blocks: list[PackedBlock] = []
    query = parse_query(ask.text, ctx.now())
    if len(set(query.words)) < MIN_WORDS:
        return PackedBlock("", 0, reason="The prompt is too short.")

    def pick(hits: list[Hit]) -> tuple[list[Hit], PackResult]:
        others = [hit for hit in hits if hit.memory.thread != thread and not is_prompt(hit.memory)][:MAX_HITS]
        worth = [hit for hit in others if hit.superseded_by not in ask.excluded and is_relevant(hit, query)]
        items = for_query.prepare_hits(ctx, worth)
        fence, now = for_query.new_fence(), ctx.now()
        times = for_query.collect_times(for_query.find_all_match_times(ctx, ask), hits) if items else None
        most = max_tokens
        while len((block := pack_block(items, budget=most, fence=fence, now=now, times=times)).text) > MAX_ANSWER:
            most //= 2
        blocks.append(block)
        cited_hits = [hit for hit in worth if hit.memory.id in set(block.cited)]
        return cited_hits, PackResult(list(cited_hits), block.tokens, block.dropped, overflow=False)

    recall(ctx, ask, pick)
    return blocks[0]


def is_relevant(hit: Hit, query: Query) -> bool:
    """Return whether a memory is relevant to a prompt: by cosine, or by a lower cosine and shared words.

    For captured turns only the cosine counts: answers share jargon with every prompt. Without embeddings, half of the
    words of the prompt must match.
    """
    near = hit.ranked.cosine
    if near is not None and near >= MIN_COSINE:
        return True
    if "host" in hit.memory.metadata or (near is not None and near < MIN_COSINE_WITH_WORDS):
        return False
    both = shared_words(hit)
    return len(both) >= MIN_SHARED_WORDS and (near is not None or 2 * len(both) >= len(set(query.words)))


def shared_words(hit: Hit) -> set[str]:
    """Return the query words in the title or the best passage; a long text would match many words somewhere."""
    titled = set(tokens.stems(hit.memory.title))
    piece = hit.ranked.passage
    matching = {stem for stem in hit.ranked.terms if stem in titled or (piece is not None and stem in piece.counts)}
    return matching - COMMON_STEMS


def shorten_prompt(text: str) -> str:
    """Shorten a long prompt, which may contain a log or a file, to its beginning and end."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _claim_memories(ctx: Context, key: str, ids: Sequence[str]) -> bool:
    """Record memories as given before they are; return False if another hook of the session already gave one."""
    with ctx.store.transaction() as session:
        state = hook_sessions.get_session(session, key)
        if set(ids) & set(state.given_ids):
            return False
        hook_sessions.put_session(session, replace(state, given_ids=(*state.given_ids, *ids)), ctx.now())
    return True


# Capture of a session


def capture_event(ctx: Context, event: HostEvent, call_operation: CallOperation) -> None:
    """Store prompts and answers, each once; of tool calls only names and targets, with the answer that followed."""
    match event.event:
        case "prompt":
            _capture_turns(ctx, event, [("user", event.text)], call_operation)
        case "tool":
            _record_tool(ctx, event)
        case "session-end":
            _capture_answer(ctx, event, call_operation)
        case _:
            return


def _capture_answer(ctx: Context, event: HostEvent, call_operation: CallOperation) -> None:
    if event.text.strip() or event.prompts:
        _capture_turns(
            ctx, event, [*(("user", one) for one in event.prompts), ("assistant", event.text)], call_operation
        )
    elif event.transcript:
        _recover_turns(ctx, event, Path(event.transcript), call_operation)
    if event.name in ENDING_EVENTS:
        with ctx.store.transaction() as session:
            hook_sessions.HOOK_SESSIONS.delete(session, session_key(event))


def _capture_turns(
    ctx: Context, event: HostEvent, turns: Sequence[tuple["Role", str]], call_operation: CallOperation
) -> None:
    """Store turns, skipping repeats of the last ones that another hook of the host sends."""
    place = find_session_project(ctx, event)
    for role, text in turns:
        own, key = remove_recalled(text), session_key(event)
        if not own.strip() or event.is_command:
            continue
        mark = digest(role, own)
        with ctx.store.transaction() as session:
            state = hook_sessions.get_session(session, key)
            if mark in state.turn_digests:
                continue
            tools = state.tools if role == "assistant" else ()
            after = replace(
                state,
                turns=state.turns + 1,
                tools=() if tools else state.tools,
                turn_digests=(*state.turn_digests[-1:], mark),
            )
            hook_sessions.put_session(session, after, ctx.now())
        turn = {
            "host_session_id": event.session,
            "host_turn_index": state.turns,
            "role": role,
            "content": own,
            "namespace": place.namespace,
            "host_kind": event.host,
            "metadata": {"tool_calls": list(tools)} if tools else {},
        }
        call_operation("capture_turn", turn)


def _record_tool(ctx: Context, event: HostEvent) -> None:
    """Record a tool call and its target, except calls of Holdfast's own tools."""
    if not event.tool or is_own_tool(event.tool):
        return
    used = {"tool": event.tool} | ({"brief": event.brief} if event.brief else {})
    with ctx.store.transaction() as session:
        state = hook_sessions.get_session(session, session_key(event))
        if used not in state.tools and len(state.tools) < MAX_TOOLS:
            hook_sessions.put_session(session, replace(state, tools=(*state.tools, used)), ctx.now())


def _recover_turns(ctx: Context, event: HostEvent, transcript: Path, call_operation: CallOperation) -> None:
    """Recover the last turns from the transcript if the host does not send them; skip oversized transcripts."""
    if transcript.is_file() and transcript.stat().st_size <= MAX_TRANSCRIPT_BYTES:
        place = find_session_project(ctx, event).namespace
        call_operation(
            "recover",
            {"host": event.host, "transcript": str(transcript), "limit": MAX_RECOVERED_TURNS, "namespace": place},
        )


def embed_pending(ctx: Context) -> None:
    """Compute some missing embeddings, if enough wait, so that later prompts need not."""
    if ctx.embedder is not None and embed.count_waiting(ctx, ctx.embedder) >= MIN_PENDING_EMBEDDINGS:
        embed.embed_next(ctx, ctx.embedder)
