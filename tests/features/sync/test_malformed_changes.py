"""Any malformed change is rejected with a reason, and changes of other peers are applied."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import forged_changes
import msgspec
import pytest
from forged_changes import Json
from msgspec.structs import replace

import holdfast
from holdfast.features.sync import record_snapshots as states
from holdfast.features.sync.bundles.file import BundleHead, BundleWriter
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.journal import public_key_of, sign
from holdfast.kernel.records.change import Change, signed_bytes
from holdfast.kernel.records.memory import Memory

DAY = 86_400 * 10**6
MISSING = object()
HUGE = 2**70
BAD: dict[str, Any] = {
    "a float": 1.5,
    "null": None,
    "a text": "x",
    "a NUL": "x\x00",
    "negative": -1,
    "huge": HUGE,
    "nested": [[[[]]]],
    "an object": {"x": {"y": 1.5}},
    "true": True,
    "empty": "",
    "missing": MISSING,
}


@pytest.fixture
def clock() -> list[int]:
    return [1_790_000_000_000_000]


@pytest.fixture
def here(make: Callable[..., holdfast.Holdfast], clock: list[int]) -> holdfast.Holdfast:
    return make(now=lambda: clock[0])


class Peers:
    """An honest and a malicious enrolled peer, and a store that syncs from their target."""

    def __init__(
        self, make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, clock: Callable[[], int]
    ) -> None:
        self.here = here
        self.bad, self.good, self.third = (make(now=clock) for _ in range(3))
        for name, peer in (("bad", self.bad), ("good", self.good)):
            here.peer_add(name=name, token=peer.peer_token().token, admin=True)
        self._number = 0

    def honest(self, peer: holdfast.Holdfast) -> Json:
        """Return a new valid change."""
        self._number += 1
        peer.store(title=f"Honest {self._number}", content="It is so.")
        return forged_changes.wire(forged_changes.page_of(peer)[1].changes[-1])

    def must_go_on(self) -> None:
        """Assert that valid changes of both peers are applied, and all stores are valid and equal."""
        for peer in (self.bad, self.good):
            assert forged_changes.send(self.here, peer, [self.honest(peer)]).outcomes == ["new"]
        self.here.recall("honest")
        assert self.here.list(limit=1).count == 1
        assert self.here.verify().findings == []
        self.third.sync(remote=self.here.settings.db, direction="pull", trust_source=True)
        assert self.third.verify().findings == []
        assert self.third.sync_digest().digest == self.here.sync_digest().digest


@pytest.fixture
def peers(make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, clock: list[int]) -> Peers:
    return Peers(make, here, lambda: clock[0])


def furnish(bad: holdfast.Holdfast) -> dict[str, Json]:
    """Return a change of each form."""
    kept = bad.store(title="Known", content="It is known.", tags=["x"], metadata={"k": 1})
    other = bad.store(title="Other", content="It is other.")
    bad.update(id=kept.id, content="It is known better.", tags=["y"], priority=9)
    bad.link(source_id=kept.id, target_id=other.id, relation="related_to")
    told = [forged_changes.wire(change) for change in forged_changes.page_of(bad)[1].changes]
    found = {"create": told[0], "edit": told[2], "link": told[3]}
    bad.archive(ids=[kept.id])
    bad.archive_purge(ids=[kept.id])
    after = [forged_changes.wire(change) for change in forged_changes.page_of(bad)[1].changes]
    return {**found, "purge": after[-1], "erased": after[2]}


def alter(said: Json, name: str, value: Any) -> Json:
    if value is MISSING:
        return {field: one for field, one in said.items() if field != name}
    return {**said, name: value}


def must_answer(peers: Peers, said: Json, times: int = 1) -> None:
    """Assert that every message gets an outcome, the same each time."""
    first, *again = [forged_changes.send(peers.here, peers.bad, [said]).outcomes for _ in range(times)]
    assert first in (["rejected"], ["new"], ["updated"], ["noop"], ["conflict"], ["known"]), said
    assert again in ([], [first if first == ["rejected"] else ["known"]]), said


FIELDS = (
    "origin",
    "n",
    "at",
    "actor",
    "op",
    "kind",
    "record",
    "about",
    "body",
    "delta",
    "erased",
    "signature",
    "group",
)


FORMS = ("edit", "erased", *(pytest.param(form, marks=pytest.mark.full) for form in ("create", "link", "purge")))


@pytest.mark.parametrize("form", FORMS)
def test_no_value_of_any_change_field_blocks_other_changes(peers: Peers, form: str, clock: list[int]) -> None:
    said = furnish(peers.bad)[form]
    for name in FIELDS:
        for value in BAD.values():
            one = alter(said, name, value)
            must_answer(peers, one)
            if name != "signature":
                must_answer(peers, forged_changes.sign_change(peers.bad, one), times=2)
        answer = forged_changes.send(peers.here, peers.bad, [alter(said, name, 1.5), peers.honest(peers.bad)])
        assert answer.outcomes == ["rejected", "new"]
    must_answer(peers, {**said, "of_tomorrow": {"so": 1}})
    peers.must_go_on()
    clock[0] += 30 * DAY
    peers.must_go_on()


def test_no_value_inside_a_record_blocks_other_changes(peers: Peers, clock: list[int]) -> None:
    said = furnish(peers.bad)["create"]
    body = msgspec.json.decode(said["body"])
    for number, (name, value) in enumerate(product((*Memory.__struct_fields__, "tags:x", "purged"), BAD.values())):
        text = msgspec.json.encode(alter(body, name, value)).decode()
        must_answer(peers, forged_changes.sign_change(peers.bad, {**said, "n": 1000 + number, "body": text}))
    peers.must_go_on()
    clock[0] += 30 * DAY
    peers.must_go_on()


CELLS = (
    *("title", "content", "namespace", "state", "scope", "kind", "priority", "confidence", "reflection_depth"),
    *("citations", "source_span", "valid_from", "tags", "tags:z", "metadata:z", "extra:imported_from_agent_id"),
    *("purged", "agent", "id", "of_tomorrow"),
)


def deltas(origin: str, at: int) -> Iterator[Any]:
    """Yield invalid deltas of a memory."""
    for value in (value for value in BAD.values() if value is not MISSING):
        yield value
        yield {"content": value}
        yield {"content": [value, {origin: at}]}
        yield {"content": [[[at, origin, "x"]], value]}
        yield {"content": [[[at, origin, "x"]], {origin: at, "other.1-0": value}]}
        yield {"content": [[[at, origin, "x"]], {origin: value}]}
        yield {"content": [[[at, origin, "x"], [value, "o.1-0", None, 1]], {origin: at}]}
        yield {"content": [[[at, value, "x"]], {origin: at}]}
        yield {"content": [[[at, origin, "x", value]], {origin: at}]}
        yield from ({cell: [[[at, origin, value]], {origin: at}]} for cell in CELLS)
    yield {"content": [[], {origin: at}]}
    yield {"content": [[[at, origin, "x"]]]}
    yield {"metadata:z": [[[at, origin, nest(400)]], {origin: at}]}


def nest(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def test_no_value_inside_an_edit_blocks_other_changes(peers: Peers, clock: list[int]) -> None:
    """Values that lose must have the type of their field too."""
    kept = peers.bad.store(title="Known", content="It is known.")
    assert forged_changes.send_all(peers.here, peers.bad).outcomes == ["new"]
    mine = peers.here.update(id=kept.id, content="It is known here.", title="Newer", priority=3)
    assert mine.content == "It is known here."
    peers.bad.update(id=kept.id, content="It is known there.")
    said = forged_changes.wire(forged_changes.page_of(peers.bad)[1].changes[-1])
    origin, base = said["origin"], said["at"]
    for number, delta in enumerate(deltas(origin, base - 1)):
        one = {**said, "n": 1000 + number, "at": base - 1, "delta": msgspec.json.encode(delta).decode()}
        must_answer(peers, forged_changes.sign_change(peers.bad, one))
    for conflict in peers.here.conflicts(limit=200).conflicts:
        peers.here.conflicts_show(id=conflict.id)
    peers.must_go_on()
    clock[0] += 30 * DAY
    peers.must_go_on()


STATE_FIELDS = ("kind", "record", "about", "at", "origin", "body", "cells", "covered")


def test_no_value_of_any_field_of_a_whole_record_blocks_other_changes(peers: Peers, clock: list[int]) -> None:
    kept = peers.bad.store(title="Known", content="It is known.", tags=["x"])
    with peers.bad.ctx.reading() as session:
        said: Json = msgspec.to_builtins(states.read_snapshot(session, "memory", kept.id))
    cells = msgspec.json.decode(said["cells"])
    ((at, origin, _),) = cells["content"][0]
    bad = [alter(said, name, value) for name in STATE_FIELDS for value in BAD.values()]
    more = [delta for delta in deltas(origin, at) if isinstance(delta, dict)]
    bad += [{**said, "cells": msgspec.json.encode({**cells, **delta}).decode()} for delta in more]
    body = msgspec.json.decode(said["body"])
    for name, value in product(Memory.__struct_fields__, BAD.values()):
        bad.append({**said, "body": msgspec.json.encode(alter(body, name, value)).decode()})
    for start in range(0, len(bad), 25):
        outcomes = forged_changes.send(peers.here, peers.bad, [], bad[start : start + 25]).outcomes
        assert {*outcomes} <= {"rejected", "new", "noop", "updated", "conflict"}
    peers.must_go_on()
    clock[0] += 30 * DAY
    peers.must_go_on()


def test_no_change_in_a_bundle_blocks_the_others(peers: Peers, tmp_path: Path) -> None:
    """An unreadable change makes the whole bundle invalid."""
    kept = peers.bad.store(title="Known", content="It is known.")
    peers.bad.update(id=kept.id, content="It is known better.")
    peers.bad.store(title="Honest", content="It is so.")
    greeting, page = forged_changes.page_of(peers.bad)
    create, edit, honest = page.changes
    key = forged_changes.key_of(peers.bad)

    def bundle(*changes: Change) -> str:
        about = {name: getattr(greeting, name) for name in ("node", "origin", "seq", "authors")}
        told = {"public_key": public_key_of(key).hex(), "since": 0, "before": {}, "made_at": 0, "release": "0"}
        with (file := tmp_path / "changes.bundle").open("wb") as to:
            writer = BundleWriter(to, BundleHead(**about, **told))
            writer.write_page(page._replace(changes=list(changes)))
            writer.write_signature(key)
        return str(file)

    for altered in ({"n": HUGE}, {"n": 1.5}, {"record": "x\x00"}, {"delta": [1]}):
        with pytest.raises(Invalid, match="Not a valid bundle"):
            peers.here.sync_import_bundle(file=bundle(create, replace(edit, **altered), honest))
    delta = msgspec.json.encode({"content": [[[edit.at, edit.origin, "x"]], {edit.origin: 1.5}]}).decode()
    bad = replace(edit, delta=delta)
    bad = replace(bad, signature=sign(key, signed_bytes(bad)).hex())
    done = peers.here.sync_import_bundle(file=bundle(create, bad, honest))
    assert (done.imported, [one.reason for one in done.errors]) == (2, ["invalid"])
    peers.must_go_on()


def test_a_malformed_copy_of_a_change_in_the_same_page_does_not_stay_in_quarantine(peers: Peers) -> None:
    change = peers.honest(peers.good)
    answer = forged_changes.send(peers.here, peers.good, [{**change, "actor": ""}, change])
    assert answer.outcomes == ["new", "new"]
    assert peers.here.quarantine().total == 0
