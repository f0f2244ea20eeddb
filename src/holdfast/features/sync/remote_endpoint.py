"""The endpoint of a server: requests over HTTP; every response is verified as far as possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from secrets import token_urlsafe
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.features.sync import read_changes as telling
from holdfast.features.sync import status
from holdfast.features.sync import wire as messages
from holdfast.features.sync.endpoint import End, StoreEnd
from holdfast.features.sync.exchange import Direction, Synced, together
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.client import MOST_BYTES, Link
from holdfast.features.sync.peers.request_signature import Signed, digest, headers, message, signed_by
from holdfast.features.sync.peers.request_signature import answer as answer_of
from holdfast.features.sync.read_changes import Greeting, Page
from holdfast.features.sync.receive_changes import Rejected, Taken
from holdfast.features.sync.status_store import followed
from holdfast.features.sync.wire import FEED, HELLO, TAKE, Feed, FeedAnswer, Hello, HelloAnswer, Take, TakeAnswer
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, Invalid, PeerFailed, StoreError
from holdfast.kernel.journal import journal, signer
from holdfast.kernel.net.access import Access
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.records.change import Change, Name
from holdfast.kernel.records.namespace_patterns import Scope

A = TypeVar("A", HelloAnswer, FeedAnswer, TakeAnswer)
_HEX = re.compile(r"(?:[0-9a-f]{2}){64}")
WRITTEN = frozenset({"new", "updated", "conflict"})
OUTCOMES = WRITTEN | {"noop"}


def exchange(
    hold: Hold,
    link: Link,
    direction: Direction,
    *,
    owner: str | None = None,
    dry_run: bool = False,
    limit: int = 0,
    stays: bool = False,
) -> Synced:
    """Sync with a server and record the result for `sync status`. `stays`: the server is synced repeatedly."""
    there = PeerEnd(hold, link, dry_run=dry_run)
    try:
        here = StoreEnd(hold, owner=owner, scope=scope_with(hold, there, link.name))
        done = together(here, there, direction, dry_run=dry_run, limit=limit, progress=hold.progress)
    except HoldfastError as error:
        hold.progress.check()
        if not dry_run:
            with suppress(StoreError):  # the original error is raised anyway
                status.failed(hold, link.name, error, stays=stays)
        raise
    if not dry_run:
        there.note()
        status.succeeded(hold, link.name, there.greet().node, done)
    return done._replace(moved=done.moved and not there.is_level())


def scope_with(hold: Hold, there: End, address: str) -> Scope:
    """Return the scope of a server; raises PeerFailed if it is not the store enrolled for its address."""
    node = there.greet().node
    with hold.reading() as session:
        enrolled = peers.by_url(session, address)
        if enrolled is None:
            return peers.scope_of(session, node)
    if enrolled.node != node:
        raise PeerFailed(f"{address} is not the store enrolled as {enrolled.name}. Nothing was exchanged.")
    return enrolled.scope


def access_to(hold: Hold, url: str) -> Access:
    """Return the TLS and key settings for a server; a certificate pinned at enrolment takes precedence."""
    with hold.reading() as session:
        enrolled = peers.by_url(session, url)
    return replace(hold.access, fingerprint=enrolled.fingerprint) if enrolled and enrolled.fingerprint else hold.access


def _passing_key(hold: Hold) -> bytes:
    """Return the signing key of this store; a copy without its key uses a temporary one."""
    with hold.reading() as session:
        return hold.store.signing_key(session) or signer.new_key()


class PeerEnd:
    """One exchange with a server; its handshake is cached until the exchange ends."""

    def __init__(self, hold: Hold, link: Link, *, dry_run: bool = False) -> None:
        self._hold = hold
        self._link = link
        self._key = _passing_key(hold) if dry_run else hold.signing_key()
        with hold.reading() as session:
            self._enrolled = peers.by_url(session, link.name)
            self._node = journal.head_of(session).node
        self._scope = self._enrolled.scope.told_as if self._enrolled else ""
        self._said: HelloAnswer | None = None
        self._reached = 0
        """The sequence number up to which its journal is known here."""

    def greet(self) -> Greeting:
        return self._hello().greeting

    def followed(self, sender: Greeting) -> int:
        """Return its cursor; repeat the hello if the namespace patterns of the sender changed."""
        if sender.scope != self._scope:
            self._scope, self._said = sender.scope, None
        return self._hello().followed

    def tell(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        answer = self._ask(FEED, Feed(after=after, known=dict(known), limit=limit), FeedAnswer)
        said = self._hello()
        self._must(answer.origin == said.greeting.origin, "changed its replica id during the exchange: start again")
        self._must(after <= answer.upto <= answer.seq, "sent an inconsistent journal position")
        moved = answer.upto > after or bool(answer.states)
        self._must(moved or not (answer.more or answer.changes), "sends the same page again and again")
        authors = said.greeting.authors | answer.authors
        self._said = replace(said, greeting=replace(said.greeting, seq=answer.seq, authors=authors))
        self._reached = answer.upto
        return answer.page()

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        self._give(page, sender, taken, dry_run=False)

    def _give(self, page: Page, sender: Greeting, taken: Taken, *, dry_run: bool) -> None:
        told = messages.told_of(page)
        answer = self._ask(
            TAKE,
            Take(
                sender=messages.introduced(sender, page.changes),
                changes=page.changes,
                upto=page.upto,
                files=page.files,
                states=page.states,
                bases=page.bases,
                dry_run=dry_run,
            ),
            TakeAnswer,
        )
        self._must(len(answer.outcomes) == len(told), "did not return an outcome for each change")
        self._must(answer.followed >= page.upto, "did not store the page")
        _note(answer, told, taken)
        self._said = replace(self._hello(), followed=answer.followed)
        if not page.states:
            self._read_over(answer)

    def _read_over(self, answer: TakeAnswer) -> None:
        """Advance the cursor over the entries the server wrote for this page, if it wrote no others."""
        first, last = answer.entered or (0, -1)
        taken = [one for one in answer.outcomes if one not in ("known", "rejected")]
        waited = [one for one in answer.others if one.outcome != "rejected"]
        if self._reached + 1 == first and last - first + 1 == len(taken) + len(waited):
            said = self._hello()
            self._said = replace(said, greeting=replace(said.greeting, seq=max(last, said.greeting.seq)))
            self._reached = last

    def is_level(self) -> bool:
        """Whether both cursors are at the end, as far as known."""
        said = self._hello()
        with self._hold.reading() as session:
            return said.followed == journal.head_of(session).seq and self._reached == said.greeting.seq

    @contextmanager
    def rehearsing(self) -> Iterator[End]:
        """Collect all pages and send them in one message, since the server rolls back after each."""
        pretended = _Rehearsing(self._hold, self._link)
        yield pretended
        pretended.ask()

    def doubts(self, asker: Greeting) -> frozenset[str]:
        return frozenset(self._hello().doubted)

    def anew(self) -> None:
        self._said = None

    def note(self) -> None:
        """Record its handshake and the cursor in its journal."""
        said = self._hello()
        status.heard(
            self._hold, said.greeting, said.followed, release=said.release, kinds=said.kinds, reached=self._reached
        )

    def _hello(self) -> HelloAnswer:
        if self._said is None:
            with self._hold.reading() as session:
                mine, reached = telling.greet(session, self._hold.now()), followed(session)
            mine = replace(mine, scope=self._scope, authors={})
            question = Hello(greeting=mine, kinds=messages.kinds(), reached=reached)
            said = self._ask(HELLO, question, HelloAnswer)
            messages.must_speak(said.protocol, self._link.name)
            self._must(said.followed >= 0, "sent an invalid cursor")
            self._said, self._reached = said, StoreEnd(self._hold).followed(said.greeting)
        return self._said

    def _ask(self, path: str, question: Hello | Feed | Take, form: type[A]) -> A:
        said = msgspec.json.encode(question)
        if len(said) > MOST_BYTES:
            raise Invalid(f"The message is larger than {MOST_BYTES:,} bytes. For a dry run, sync some changes first.")
        try:
            answer = self._link.ask(path, said, self._sign, self._proves if self._enrolled else None)
            return messages.read(msgspec.json.decode(answer), form)
        except Failure as failure:
            raise PeerFailed(f"{self._link.name} {failure.what}.", retryable=failure.retryable) from None
        except (Invalid, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._link.close()
            raise PeerFailed(f"{self._link.name} sent a response that this release cannot read.") from None

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            self._link.close()
            raise PeerFailed(f"{self._link.name} {what}.")

    def _sign(self, path: str, body: bytes) -> Mapping[str, str]:
        """Sign one request for its recipient."""
        to = self._said.greeting.node if self._said else self._enrolled.node if self._enrolled else ""
        at, nonce = self._hold.now(), token_urlsafe(18)
        signature = signer.sign(self._key, message("POST", path, body, at, nonce, to=to))
        return headers(Signed(self._node, to, at, nonce, digest(body), signature))

    def _proves(self, path: str, sent: Mapping[str, str], mark: str, body: bytes) -> bool:
        """Whether the enrolled store signed this response to this request."""
        asked = signed_by(dict(sent))
        assert asked is not None, "every request is signed"
        assert self._enrolled is not None
        return bool(_HEX.fullmatch(mark)) and signer.verifies(
            self._enrolled.public_key, bytes.fromhex(mark), answer_of(path, body, asked)
        )


class _Rehearsing(PeerEnd):
    """Collect all pages, then send them in one dry-run message."""

    def __init__(self, hold: Hold, link: Link) -> None:
        super().__init__(hold, link, dry_run=True)
        self._page = Page([], 0, more=False)
        self._asking: Callable[[], None] = lambda: None

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        before = self._page
        self._page = Page(
            before.changes + page.changes,
            page.upto,
            more=False,
            files=before.files | page.files,
            states=before.states + page.states,
            bases=before.bases | page.bases,
        )
        self._asking = lambda: self._give(self._page, sender, taken, dry_run=True)

    def ask(self) -> None:
        self._asking()


def _note(answer: TakeAnswer, told: list[Change], taken: Taken) -> None:
    """Record the server's outcome of each change. An unknown outcome of a newer release counts as an update."""
    by_name = {Name(change.origin, change.n): change for change in told}
    _note_turned(answer, told, taken)
    for change, outcome in zip(told, answer.outcomes, strict=True):
        if outcome == "rejected":
            taken.refused[Name(change.origin, change.n)] = Rejected(change, "invalid", "It was rejected.")
        elif outcome != "known":
            taken.note(change, outcome if outcome in OUTCOMES else "updated")  # type: ignore[arg-type]
    for other in answer.others:
        name = Name(other.origin, other.n)
        change = by_name.get(name) or Change(
            origin=other.origin, n=other.n, at=0, actor="", op=other.op, kind=other.kind, record=other.record
        )
        if other.outcome == "rejected":
            taken.refused[name] = Rejected(change, other.reason, other.detail)  # type: ignore[arg-type]
        elif name not in by_name:
            taken.note(change, other.outcome if other.outcome in OUTCOMES else "updated")  # type: ignore[arg-type]


def _note_turned(answer: TakeAnswer, told: list[Change], taken: Taken) -> None:
    """Record conflicts and deletions on the server; for an older release, derive them from the outcomes."""
    if answer.conflicts is None:
        taken.met += answer.outcomes.count("conflict")
    if answer.deleted is None:
        written = [change for change, outcome in zip(told, answer.outcomes, strict=True) if outcome in WRITTEN]
        gone = [one.record for one in written if one.kind == "memory" and one.op in ("delete", "purge")]
    else:
        gone = answer.deleted
    taken.disputes.by(answer.conflicts or (), answer.settled)
    taken.fates.by(gone, answer.restored)
