"""The endpoint of a server: requests over HTTP; every response is verified as far as possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_urlsafe
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.features.sync import read_changes, status, wire
from holdfast.features.sync.apply_changes import Endpoint, RejectedChange, SyncResult
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.client import MAX_MESSAGE_BYTES, PeerClient
from holdfast.features.sync.peers.request_signature import (
    RequestSignature,
    body_digest,
    parse_headers,
    request_message,
    to_headers,
)
from holdfast.features.sync.peers.request_signature import answer_message as answer_of
from holdfast.features.sync.read_changes import Handshake, Page
from holdfast.features.sync.status import list_cursors
from holdfast.features.sync.wire import (
    FEED,
    HELLO,
    TAKE,
    FeedAnswer,
    FeedRequest,
    HelloAnswer,
    HelloRequest,
    TakeAnswer,
    TakeRequest,
)
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, PeerFailed
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import is_valid_signature, new_key, sign
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.outbound import PeerCredentials
from holdfast.kernel.records.change import Change, ChangeId
from holdfast.kernel.records.namespace_patterns import PeerScope

A = TypeVar("A", HelloAnswer, FeedAnswer, TakeAnswer)
_HEX = re.compile(r"(?:[0-9a-f]{2}){64}")
CHANGED_OUTCOMES = frozenset({"new", "updated", "conflict"})
OUTCOMES = CHANGED_OUTCOMES | {"noop"}


def get_scope(ctx: Context, there: Endpoint, address: str) -> PeerScope:
    """Return the scope of a server; raises PeerFailed if it is not the store enrolled for its address."""
    node = there.read_handshake().node
    with ctx.reading() as session:
        enrolled = peers.find_by_url(session, address)
        if enrolled is None:
            return peers.get_scope(session, node)
    if enrolled.node != node:
        raise PeerFailed(f"{address} is not the store enrolled as {enrolled.name}. Nothing was exchanged.")
    return enrolled.scope


def get_access(ctx: Context, url: str) -> PeerCredentials:
    """Return the TLS and key settings for a server; a certificate pinned at enrolment takes precedence."""
    with ctx.reading() as session:
        enrolled = peers.find_by_url(session, url)
    return (
        replace(ctx.peer_credentials, fingerprint=enrolled.fingerprint)
        if enrolled and enrolled.fingerprint
        else ctx.peer_credentials
    )


def _ephemeral_key(ctx: Context) -> bytes:
    """Return the signing key of this store; a copy without its key uses a temporary one."""
    with ctx.reading() as session:
        return ctx.store.signing_key(session) or new_key()


class RemoteEndpoint:
    """One exchange with a server; its handshake is cached until the exchange ends."""

    def __init__(self, ctx: Context, link: PeerClient, *, dry_run: bool = False) -> None:
        self._ctx = ctx
        self._client = link
        self._key = _ephemeral_key(ctx) if dry_run else ctx.signing_key()
        with ctx.reading() as session:
            self._enrolled = peers.find_by_url(session, link.name)
            self._node = journal.get_head(session).node
        self._scope = self._enrolled.scope.send_digest if self._enrolled else ""
        self._hello_answer: HelloAnswer | None = None
        self._known_seq = 0
        """The sequence number up to which its journal is known here."""

    def read_handshake(self) -> Handshake:
        return self._hello().greeting

    def get_cursor(self, sender: Handshake) -> int:
        """Return its cursor; repeat the hello if the namespace patterns of the sender changed."""
        if sender.scope != self._scope:
            self._scope, self._hello_answer = sender.scope, None
        return self._hello().followed

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        answer = self._ask(FEED, FeedRequest(after=after, known=dict(known), limit=limit), FeedAnswer)
        hello = self._hello()
        self._require(answer.origin == hello.greeting.origin, "changed its replica id during the exchange: start again")
        self._require(after <= answer.upto <= answer.seq, "sent an inconsistent journal position")
        moved = answer.upto > after or bool(answer.states)
        self._require(moved or not (answer.more or answer.changes), "sends the same page again and again")
        authors = hello.greeting.authors | answer.authors
        self._hello_answer = replace(hello, greeting=replace(hello.greeting, seq=answer.seq, authors=authors))
        self._known_seq = answer.upto
        return answer.page()

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        self._send_page(page, sender, result, dry_run=False)

    def _send_page(self, page: Page, sender: Handshake, result: SyncResult, *, dry_run: bool) -> None:
        changes = wire.list_changes(page)
        answer = self._ask(
            TAKE,
            TakeRequest(
                sender=wire.trim_handshake(sender, page.changes),
                changes=page.changes,
                upto=page.upto,
                files=page.files,
                states=page.states,
                bases=page.bases,
                dry_run=dry_run,
            ),
            TakeAnswer,
        )
        self._require(len(answer.outcomes) == len(changes), "did not return an outcome for each change")
        self._require(answer.followed >= page.upto, "did not store the page")
        _record_outcomes(answer, changes, result)
        self._hello_answer = replace(self._hello(), followed=answer.followed)
        if not page.states:
            self._skip_echoed(answer)

    def _skip_echoed(self, answer: TakeAnswer) -> None:
        """Advance the cursor over the entries the server wrote for this page, if it wrote no others."""
        first, last = answer.entered or (0, -1)
        applied = [one for one in answer.outcomes if one not in ("known", "rejected")]
        waited = [one for one in answer.others if one.outcome != "rejected"]
        if self._known_seq + 1 == first and last - first + 1 == len(applied) + len(waited):
            hello = self._hello()
            self._hello_answer = replace(hello, greeting=replace(hello.greeting, seq=max(last, hello.greeting.seq)))
            self._known_seq = last

    def is_in_sync(self) -> bool:
        """Whether both cursors are at the end, as far as known."""
        hello = self._hello()
        with self._ctx.reading() as session:
            return hello.followed == journal.get_head(session).seq and self._known_seq == hello.greeting.seq

    @contextmanager
    def open_dry_run(self) -> Iterator[Endpoint]:
        """Collect all pages and send them in one message, since the server rolls back after each."""
        pretended = _DryRunEndpoint(self._ctx, self._client)
        yield pretended
        pretended.send_collected()

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        return frozenset(self._hello().doubted)

    def forget_handshake(self) -> None:
        self._hello_answer = None

    def record_status(self) -> None:
        """Record its handshake and the cursor in its journal."""
        hello = self._hello()
        status.record_peer(
            self._ctx, hello.greeting, hello.followed, release=hello.release, kinds=hello.kinds, reached=self._known_seq
        )

    def _hello(self) -> HelloAnswer:
        if self._hello_answer is None:
            with self._ctx.reading() as session:
                mine, reached = read_changes.build_handshake(session, self._ctx.now()), list_cursors(session)
            mine = replace(mine, scope=self._scope, authors={})
            question = HelloRequest(greeting=mine, kinds=wire.list_kinds(), reached=reached)
            answer = self._ask(HELLO, question, HelloAnswer)
            wire.agree_on_protocol(answer.protocol, self._client.name)
            self._require(answer.followed >= 0, "sent an invalid cursor")
            with self._ctx.reading() as session:
                self._hello_answer, self._known_seq = answer, read_changes.get_cursor(session, answer.greeting)
        return self._hello_answer

    def _ask(self, path: str, question: HelloRequest | FeedRequest | TakeRequest, form: type[A]) -> A:
        body = msgspec.json.encode(question)
        if len(body) > MAX_MESSAGE_BYTES:
            raise Invalid(
                f"The message is larger than {MAX_MESSAGE_BYTES:,} bytes. For a dry run, sync some changes first."
            )
        try:
            answer = self._client.post(path, body, self._sign_request, self._verify_answer if self._enrolled else None)
            return wire.decode_message(msgspec.json.decode(answer), form)
        except RequestFailure as failure:
            raise PeerFailed(f"{self._client.name} {failure.reason}.", retryable=failure.retryable) from None
        except (Invalid, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._client.close()
            raise PeerFailed(f"{self._client.name} sent a response that this release cannot read.") from None

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self._client.close()
            raise PeerFailed(f"{self._client.name} {what}.")

    def _sign_request(self, path: str, body: bytes) -> Mapping[str, str]:
        """Sign one request for its recipient."""
        to = self._hello_answer.greeting.node if self._hello_answer else self._enrolled.node if self._enrolled else ""
        at, nonce = self._ctx.now(), token_urlsafe(18)
        signature = sign(self._key, request_message("POST", path, body, at, nonce, to=to))
        return to_headers(RequestSignature(self._node, to, at, nonce, body_digest(body), signature))

    def _verify_answer(self, path: str, sent: Mapping[str, str], mark: str, body: bytes) -> bool:
        """Whether the enrolled store signed this response to this request."""
        request = parse_headers(dict(sent))
        assert request is not None, "every request is signed"
        assert self._enrolled is not None
        return bool(_HEX.fullmatch(mark)) and is_valid_signature(
            self._enrolled.public_key, bytes.fromhex(mark), answer_of(path, body, request)
        )


class _DryRunEndpoint(RemoteEndpoint):
    """Collect all pages, then send them in one dry-run message."""

    def __init__(self, ctx: Context, link: PeerClient) -> None:
        super().__init__(ctx, link, dry_run=True)
        self._page = Page([], 0, more=False)
        self._send: Callable[[], None] = lambda: None

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        before = self._page
        self._page = Page(
            before.changes + page.changes,
            page.upto,
            more=False,
            files=before.files | page.files,
            states=before.states + page.states,
            bases=before.bases | page.bases,
        )
        self._send = lambda: self._send_page(self._page, sender, result, dry_run=True)

    def send_collected(self) -> None:
        self._send()


def _record_outcomes(answer: TakeAnswer, sent: list[Change], result: SyncResult) -> None:
    """Record the server's outcome of each change. An unknown outcome of a newer release counts as an update."""
    by_name = {ChangeId(change.origin, change.n): change for change in sent}
    _record_net_changes(answer, sent, result)
    for change, outcome in zip(sent, answer.outcomes, strict=True):
        if outcome == "rejected":
            result.rejected_by_name[ChangeId(change.origin, change.n)] = RejectedChange(
                change, "invalid", "It was rejected."
            )
        elif outcome != "known":
            result.note(change, outcome if outcome in OUTCOMES else "updated")  # type: ignore[arg-type]
    for other in answer.others:
        name = ChangeId(other.origin, other.n)
        change = by_name.get(name) or Change(
            origin=other.origin, n=other.n, at=0, actor="", op=other.op, kind=other.kind, record=other.record
        )
        if other.outcome == "rejected":
            result.rejected_by_name[name] = RejectedChange(change, other.reason, other.detail)  # type: ignore[arg-type]
        elif name not in by_name:
            result.note(change, other.outcome if other.outcome in OUTCOMES else "updated")  # type: ignore[arg-type]


def _record_net_changes(answer: TakeAnswer, sent: list[Change], result: SyncResult) -> None:
    """Record conflicts and deletions on the server; for an older release, derive them from the outcomes."""
    if answer.conflicts is None:
        result.unnamed_conflicts += answer.outcomes.count("conflict")
    if answer.deleted is None:
        changed = [change for change, outcome in zip(sent, answer.outcomes, strict=True) if outcome in CHANGED_OUTCOMES]
        deleted = [one.record for one in changed if one.kind == "memory" and one.op in ("delete", "purge")]
    else:
        deleted = answer.deleted
    result.conflict_changes.add(answer.conflicts or (), answer.settled)
    result.deletions.add(deleted, answer.restored)
