"""No operation reveals what its caller may not see."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import holdfast
from diverging_stores import disagree
from engines import ENGINES_BY_RING
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, HoldfastError, NotFound
from holdfast.kernel.registry.operation import bare_type
from holdfast.kernel.timestamps import parse_timestamp
from holdfast.operations import REGISTRY, Effect, Operation

CANARY = "CANARY7f3a"
"""Is in everything that is hidden and in nothing that is asked."""
WORD = "quokka"
"""Is in everything that is hidden and can be asked for."""


SKILL = f"---\nname: {WORD}\ndescription: The {WORD} says {CANARY}.\n---\n{CANARY}\n"
START = parse_timestamp("2026-01-31T09:00:00Z", "start")
LATER = parse_timestamp("2026-01-31T16:00:00Z", "later")


class World(NamedTuple):
    hold: holdfast.Holdfast
    caller: Caller
    """Who must not see it."""
    hidden: list[str]
    shown: str
    changes: list[int]
    others: list[str]
    """Ids of what is no memory."""


def hide_memories(ctx: Any, let_time_pass: Callable[[], Any], owner: Caller, **how: Any) -> list[str]:
    """Store hidden memories in every state, with related records; return their ids."""

    def call(name: str, **arguments: Any) -> Any:
        return ctx.call(name, arguments, caller=owner)

    def store(what: str, **more: Any) -> str:
        body = {
            "title": f"{WORD} {what} {CANARY}",
            "content": f"the {WORD} {what} says {CANARY}",
            "tags": [CANARY],
            "metadata": {CANARY: CANARY},
            "citations": [{"uri": f"doc:{CANARY}", "accessed_at": "2026-01-31"}],
            "source_uri": f"doc:{CANARY}",
            "speaker": CANARY,
            "thread": CANARY,
            "tier": "long",
        }
        return str(call("store", **body | how | more).id)

    live, archived, deleted = store("live"), store("archived"), store("deleted")
    learnt = [store("seen", category="bugfix"), *(store(kind, kind=kind) for kind in ("lesson", "limitation"))]
    expired, fallen = store("expired", tier="short"), store("fallen")
    call("link", source_id=live, target_id=archived)
    call("link", source_id=live, target_id=fallen, relation="derived_from")
    let_time_pass()
    call("archive", ids=[archived], reason=CANARY)
    call("update", id=live, content=f"the {WORD} live says {CANARY} again")
    call("delete", id=deleted)
    rule = store("rule")
    call("namespace_set_standard", namespace=how["namespace"], id=rule)
    call("link", source_id=live, target_id=rule, relation="supersedes")
    entity = call(
        "entity_register", canonical_name=f"{WORD} {CANARY}", namespace=how["namespace"], aliases=[WORD, CANARY]
    )
    said = {"content": f"the {WORD} means {CANARY}", "metadata": {CANARY: CANARY}, "source_ids": [live]}
    reflection = str(call("reflect", title=f"{WORD} means {CANARY}", tier="long", **said).id)
    strict = f"{how['namespace']}/strict"
    call("policy_set", namespace=strict, require_approval_above_depth=0)
    waits = str(call("reflect", title=f"{WORD} waits {CANARY}", namespace=strict, **said).pending_id)
    beside = hide_curated(call, store)
    disagree(ctx, live, f"the {WORD} live says {CANARY} elsewhere", owner=owner.agent)
    if how.get("scope") == "private":
        call("update", id=entity.entity_id, scope="private")
    else:
        call("skill_register", inline_skill=SKILL, namespace=how["namespace"])
    return [live, archived, deleted, expired, rule, entity.entity_id, reflection, *beside, *learnt, waits, fallen]


def hide_curated(call: Callable[..., Any], store: Callable[..., str]) -> list[str]:
    """Store a hidden persona and memories with curation proposals."""
    said = f"the {WORD} of {CANARY} sleeps for ten hours in each of its trees"
    odd = [store(f"sleep {how}", content=said.replace("ten", how)) for how in ("nine", "eleven")]
    persona = call("persona_generate", entity_id=WORD).persona.id
    assert call("curate", apply=True, steps=["contradictions"]).proposed > 0
    return [*odd, persona]


def hide_agent_data(ctx: Any, owner: Caller, namespace: str) -> list[str]:
    """Store hidden agent records other than memories; return their ids."""

    def call(name: str, **arguments: Any) -> Any:
        return ctx.call(name, arguments, caller=owner)

    due = {"due_at": "2020-01-01", "principal": WORD, "payload": {CANARY: CANARY}, "repeat": "daily"}
    task = call("task_add", title=f"{WORD} {CANARY}", namespace=namespace, **due).task.id
    (taken,) = call("task_claim", owner=CANARY).claimed
    call("task_finish", id=task, token=taken.token, result=CANARY)
    run = {"topology": CANARY, "phases": [CANARY], "namespace": namespace, "principal": WORD}
    call("run_open", id=f"{WORD}-run", inputs={CANARY: CANARY}, **run)
    call("session_keep", session_id=CANARY, provider=WORD, channel=WORD, principal=WORD, namespace=namespace)
    call("session_keep", session_id=CANARY, provider=WORD, principal=WORD, namespace=namespace)
    call("session_keep", session_id=CANARY, provider=WORD, namespace=namespace)
    for _ in range(3):
        said = {"domain": WORD, "what": f"The {WORD} bit {CANARY}.", "principal": WORD}
        call("outcome_record", score=-1, namespace=namespace, **said)
    hook = call("subscribe", url=f"https://hooks.example.com/{CANARY}").id
    call("usage_record", model=CANARY, input_tokens=1, principal=WORD, session=CANARY)
    told = {"status": "denied", "reason": CANARY, "action": CANARY, "principal": WORD}
    denied = call("interaction_record", channel=WORD, namespace=namespace, **told).id
    if namespace == "open":
        return [task, denied, f"{WORD}-run", hook]
    said = [{"role": "user", "content": f"The {WORD} is called {CANARY}."}]
    going = call("conversation_say", turns=said, channel=CANARY, principal=WORD, namespace=namespace).conversation_id
    call("conversation_close", id=going, summary=f"{WORD} {CANARY}")
    for principal in (WORD, owner.agent):
        call("fact_set", key=WORD, value=CANARY, principal=principal)
    return [task, denied, f"{WORD}-run", going, hook]


class HiddenStore(NamedTuple):
    """A closed store where one caller can see a single memory."""

    address: str
    caller: Caller
    hidden: list[str]
    shown: str
    changes: list[int]
    others: list[str]
    """Ids of what is no memory."""


PRIVATE, OUTSIDE = "private to another", "outside the key's namespaces"


@pytest.fixture(scope="module", params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[PRIVATE, OUTSIDE])
def hidden_store(
    engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HiddenStore]:
    if engine == "sqlite":
        yield make_hidden_store(str(tmp_path_factory.mktemp("hidden_store") / "memory.db"), request.param)
        return
    postgres = request.getfixturevalue("postgres")
    with postgres.new_store() as url:
        done = make_hidden_store(url, request.param)
        postgres.keep(url)
        yield done


def make_hidden_store(address: str, how: str) -> HiddenStore:
    """Create the store: the visible memory has links to hidden ones and a deleted hidden source."""
    owner, moments = Caller("ai:owner@here", has_fixed_agent=True), [LATER, START]
    with holdfast.open(address, agent_id="ai:tester@here", now=lambda: moments[-1]) as hold:
        if how == PRIVATE:
            caller = Caller("ai:snoop@here", right="write", has_fixed_agent=True)
            hidden = hide_memories(hold, moments.pop, owner, scope="private", namespace="open")
        else:
            caller = Caller("ai:snoop@here", right="write", has_fixed_agent=True, namespaces=("open",))
            hidden = hide_memories(hold, moments.pop, owner, namespace="closed")
        shown = hold.store(title="shown", content="plain", namespace="open", tier="long").id
        both = [
            {"source_id": source, "target_id": target, "relation": relation, "observed_by": owner.agent}
            for relation in ("derived_from", "related_to")
            for source, target in ((hidden[0], shown), (shown, hidden[0]))
        ]
        assert hold.call("import", {"envelope": {"memories": [], "links": both}}).rejected == 0
        stands = {"source_id": shown, "target_id": hidden[-1], "relation": "derived_from"}
        hold.call("link", stands, caller=owner)
        hold.call("link", {"source_id": hidden[0], "target_id": hidden[-1], "relation": "supersedes"}, caller=owner)
        hold.call("delete", {"id": hidden[-1]}, caller=owner)
        hold.call("notify", {"target_agent_id": "ai:friend@here", "title": CANARY, "payload": CANARY}, caller=owner)
        changes = [one.seq for one in hold.call("events", {"limit": 1000}, caller=owner).events]
        others = [one.id for one in hold.call("conflicts", {}, caller=owner).conflicts]
        others += hide_agent_data(hold, owner, "open" if how == PRIVATE else "closed")
    return HiddenStore(address, caller, hidden, shown, changes, others)


@pytest.fixture
def world(engine: str, hidden_store: HiddenStore, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A fresh copy for every test."""
    with open_copy(engine, hidden_store, tmp_path, request) as world:
        yield world


@pytest.fixture(scope="module")
def read_world(
    engine: str, hidden_store: HiddenStore, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[World]:
    """A shared copy for tests that only read."""
    with open_copy(engine, hidden_store, tmp_path_factory.mktemp("read"), request) as world:
        yield world


@contextmanager
def open_copy(engine: str, hidden_store: HiddenStore, folder: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Open a copy of the store; a server database is restored afterwards instead."""
    address = hidden_store.address
    server = request.getfixturevalue("postgres") if engine == "postgres" else None
    if server is None:
        address = str(shutil.copytree(Path(address).parent, folder / "copy") / "memory.db")
    try:
        with holdfast.open(address, agent_id="ai:tester@here", now=lambda: LATER) as hold:
            yield World(hold, *hidden_store[1:])
    finally:
        if server is not None:
            server.put_back(address)


def probes(world: World, name: str, type_: Any) -> list[Any]:
    """Return values that a snoop would try in a field, by its name or type."""
    ids = [*world.hidden, world.hidden[0][:30], world.shown]
    known: dict[str, list[Any]] = {
        "id": [*ids, *world.others],
        "id_a": ids,
        "id_b": ids,
        "memory_id": ids,
        "dependent_id": ids,
        "invalidated_id": ids,
        "source_id": ids,
        "source_ids": [[id] for id in ids],
        "skill_id": [WORD, *ids],
        "resource_path": ["SKILL.md"],
        "out_dir": [],
        "file": [],
        "target_folder": [],
        "target_id": ids,
        "ids": [[id] for id in ids] + [world.hidden],
        "namespace": ["open", "closed", "open/_invalidations", "closed/_invalidations"],
        "namespace_prefix": ["open", "closed"],
        "as_agent": ["open", "open/a/b/c", "closed"],
        "agent_id": ["ai:owner@here", "ai:friend@here", "ai:snoop@here"],
        "target_agent_id": ["ai:snoop@here"],
        "change": world.changes,
        "known_at": ["2026-01-31T10:00:00Z"],
        "as_of": ["2026-01-31T10:00:00Z"],
        "title": [WORD, f"{WORD} live"],
        "memories": [[{"title": WORD, "content": WORD, "namespace": "open"}]],
        "source_uri": ["doc:x"],
        "source_uri_prefix": ["doc:"],
        "agent_type": ["human"],
        "direction": ["both"],
        "to": [],
        "from": [],
        "channel": ["", WORD],
        "by": [["model", "session"]],
    }
    if name in known:
        return known[name]
    match bare_type(msgspec.inspect.type_info(type_)):
        case msgspec.inspect.LiteralType(values=values):
            return list(values)
        case msgspec.inspect.BoolType():
            return [True, False]
        case msgspec.inspect.IntType():
            return [1, 5]
        case msgspec.inspect.FloatType():
            return [0.5]
        case msgspec.inspect.StrType():
            return [WORD]
        case msgspec.inspect.ListType():
            return [[WORD]]
        case msgspec.inspect.DictType() if name == "message":
            return [{"after": 0, "known": {}, "limit": 1000}]
        case _:
            return []


def calls(world: World, op: Operation) -> Iterator[dict[str, Any]]:
    """Yield every combination of required fields, and each with every other field."""
    required = [field for field in op.fields if field.required]
    others = [field for field in op.fields if not field.required]
    tries = [probes(world, field.encode_name, field.type) for field in required]
    for values in islice(product(*tries), 60):
        base = dict(zip((field.encode_name for field in required), values, strict=True))
        yield base
        for field in others:
            for value in probes(world, field.encode_name, field.type):
                yield {**base, field.encode_name: value}


def answer_to(world: World, op: Operation, arguments: dict[str, Any]) -> str:
    try:
        answer = world.hold.call(op.name, arguments, caller=world.caller)
    except HoldfastError as error:
        return str(error.to_json())
    return msgspec.json.encode(answer).decode()


def leaks(world: World, op: Operation) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield calls whose answer reveals hidden data that the arguments did not contain."""
    for arguments in calls(world, op):
        answer, asked = answer_to(world, op, arguments), str(arguments)
        if CANARY in answer or any(id in answer and id[:30] not in asked for id in world.hidden):
            yield arguments, answer


def list_unprivileged(*effects: Effect) -> list[Operation]:
    return [op for op in REGISTRY if op.effect in effects and not op.admin]


def test_reads_reveal_nothing_hidden(read_world: World) -> None:
    assert {op.name: found for op in list_unprivileged(Effect.READ) if (found := list(leaks(read_world, op)))} == {}


def test_writes_neither_reveal_nor_change_anything_hidden(
    engine: str, hidden_store: HiddenStore, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    leaking, changing = {}, []
    for op in list_unprivileged(Effect.WRITE, Effect.DESTROY):
        with open_copy(engine, hidden_store, tmp_path / op.name, request) as world:
            before = hidden_rows(world)
            if found := list(leaks(world, op)):
                leaking[op.name] = found
            if hidden_rows(world) != before:
                changing.append(op.name)
    assert (leaking, changing) == ({}, [])


@pytest.mark.parametrize("hidden_store", [OUTSIDE], indirect=True)
def test_an_admin_key_reads_nothing_outside_its_namespaces(read_world: World) -> None:
    admin = read_world._replace(
        caller=Caller("ai:snoop@here", right="admin", has_fixed_agent=True, namespaces=("open",))
    )
    reading = [op for op in REGISTRY if op.admin and op.effect is Effect.READ]
    assert {op.name: found for op in reading if (found := list(leaks(admin, op)))} == {}


def hidden_rows(world: World) -> list[str]:
    """Return hidden memories and pending ones, as their owner sees them."""
    owner = Caller("ai:owner@here", has_fixed_agent=True)
    *memories, waits, fallen = world.hidden
    asked = [("history", {"id": id, "limit": 1000}) for id in (*memories, fallen)]
    answers = [world.hold.call(name, given, caller=owner) for name, given in (*asked, ("pending_list", {}))]
    assert waits in msgspec.json.encode(answers[-1]).decode()
    return [msgspec.json.encode(answer).decode() for answer in answers]


def test_the_probe_finds_everything_visible_to_the_owner(world: World) -> None:
    """Without this the tests above would prove nothing."""
    owner = world._replace(caller=Caller("ai:owner@here", has_fixed_agent=True))
    seeing = {op.name for op in REGISTRY if op.effect is Effect.READ and not op.admin and any(leaks(owner, op))}
    blind = {"stats", "archive_stats", "capabilities", "agent_list", "inbox", "namespaces", "get_taxonomy", "verify"}
    blind |= {"policy_get", "reflection_origin", "export_reflections", "curate_runs", "pipelines"}
    blind |= {"principal_show", "principal_stats", "price_list", "budget_list", "subscription_deliveries"}
    blind |= {"project_list", "project_which"}
    if "*" in world.caller.namespaces:
        blind |= {op.name for op in REGISTRY if op.name.startswith(("skill_", "fact_", "conversation_"))}
        """What everybody in a namespace may use; nobody has it for himself."""
    assert seeing == {op.name for op in REGISTRY if op.effect is Effect.READ and not op.admin} - blind


def test_hidden_memories_are_not_counted(world: World) -> None:
    stats = world.hold.call("stats", {}, caller=world.caller)
    assert (stats.total, stats.archived_total, stats.links_count) == (1, 0, 0)
    assert [(one.namespace, one.count) for one in stats.by_namespace] == [("open", 1)]
    assert world.hold.call("archive_stats", {}, caller=world.caller).archived_total == 0
    assert [one.namespace for one in world.hold.call("namespaces", {}, caller=world.caller).namespaces] == ["open"]
    assert world.hold.call("get_taxonomy", {}, caller=world.caller).total_count == 1


def test_a_message_is_readable_only_by_its_recipient(clocked_store: Any, seen_by: Any) -> None:
    seen_by("ai:a@here").notify(target_agent_id="ai:b@here", title="Hello", payload=CANARY)
    assert CANARY in str(seen_by("ai:b@here").inbox())
    assert CANARY not in str(seen_by("ai:c@here").inbox()) + str(seen_by("ai:a@here").inbox())
    with pytest.raises(Forbidden):
        seen_by("ai:c@here").inbox(agent_id="ai:b@here")


NEEDED = {
    "status": "ok",
    "phases": ["x"],
    "score": 1,
    "event": "pre_store",
    "type": "bugfix",
    "memories": [],
    "ids": ["x", "y"],
    "source_ids": ["x"],
    "host_turn_index": 0,
    "role": "user",
    "turns": [{"role": "user", "content": "x"}],
}


BEFORE_ANY_STORE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""What is refused before a store is asked is refused on every engine."""


@BEFORE_ANY_STORE
def test_every_operation_refuses_a_namespace_out_of_reach(clocked_store: Any) -> None:
    caller = Caller("ai:key@here", namespaces=("open",))
    reaching = [
        (op, name, needed_by(op) | {name: "openly"}) for op in REGISTRY for name in op.fields_with_role("namespace")
    ]
    assert [
        (op.name, name) for op, name, asked in reaching if code_of(clocked_store, op, asked, caller) != "FORBIDDEN"
    ] == []


def needed_by(op: Operation) -> dict[str, Any]:
    return {
        field.encode_name: NEEDED.get(field.encode_name, "x")
        for field in op.fields
        if field.required or field.encode_name in op.at_least_one[:1]
    }


@BEFORE_ANY_STORE
def test_an_operation_beyond_the_right_of_a_key_is_refused_before_any_other_check(clocked_store: Any) -> None:
    lesser: dict[str, Any] = {"write": "read", "admin": "write"}
    beyond = [(op, Caller("ai:key@here", right=lesser[op.right])) for op in REGISTRY if op.right in lesser]
    assert [op.name for op, key in beyond if code_of(clocked_store, op, {"nonsense": 1}, key) != "FORBIDDEN"] == []


def code_of(hold: holdfast.Holdfast, op: Operation, arguments: dict[str, Any], caller: Caller) -> str | None:
    try:
        hold.call(op.name, arguments, caller=caller)
    except HoldfastError as error:
        return error.code
    return None


@pytest.mark.parametrize("permission", ["read", "write", "admin"])
def test_a_grant_opens_one_memory_with_its_permission_only(clocked_store: Any, seen_by: Any, permission: str) -> None:
    owner, friend = seen_by("ai:owner@here"), seen_by("ai:friend@here")
    one, other = (owner.store(title=title, content="x", scope="private", tier="long") for title in ("one", "other"))
    owner.grant(one.id, agent_id="ai:friend@here", permission=permission)
    assert [found.id for found in friend.list().memories] == [one.id]
    with pytest.raises(NotFound):
        friend.get(other.id)
    writes = {"update": {"priority": 9}, "promote": {}, "delete": {}}
    for name, arguments in writes.items():
        if permission == "read":
            with pytest.raises(Forbidden):
                getattr(friend, name)(one.id, **arguments)
    if permission == "admin":
        assert friend.grant(one.id, agent_id="ai:third@here").granted
    else:
        with pytest.raises(Forbidden):
            friend.grant(one.id, agent_id="ai:third@here")
    if permission != "read":
        assert friend.update(one.id, content="theirs").content == "theirs"
    owner.revoke(one.id, agent_id="ai:friend@here")
    with pytest.raises(NotFound):
        friend.get(one.id)


def test_a_revoked_share_makes_a_memory_private_to_its_owner_again(clocked_store: Any, seen_by: Any) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    memory = owner.store(title="x", content="y", tier="long")
    assert other.get(memory.id).content == "y"
    owner.update(memory.id, scope="private")
    with pytest.raises(NotFound):
        other.get(memory.id)
