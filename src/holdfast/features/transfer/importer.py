"""Import an envelope row by row, with the validation of every other write."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.interaction import INTERACTION, Interaction, admit_interaction
from holdfast.features.access.model import AGENT, GRANT, Agent, Grant
from holdfast.features.graph import service as relate
from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import (
    MOST_VERSIONS,
    must_agree,
    must_be_free,
    must_change,
    numbered,
    put,
    title_holder,
)
from holdfast.features.namespaces.model import POLICY, STANDARD, Policy, Standard, admit_rules
from holdfast.features.namespaces.policy import place_of
from holdfast.features.namespaces.service import EVERYWHERE, must_govern
from holdfast.features.people import principal as principals
from holdfast.features.people.principal import PRINCIPAL
from holdfast.features.reflections.depth import lift, stand
from holdfast.features.reflections.invalidation import INVALIDATION, ChangeSet, Invalidation, id_of
from holdfast.features.reflections.model import never_lower
from holdfast.features.skills import files as skill_files
from holdfast.features.skills import service as skill_keeping
from holdfast.features.skills import store as skills
from holdfast.features.skills.model import SKILL, SKILL_VERSION, Skill, skill_id, version_id
from holdfast.features.transfer import import_local_tables as intake_ledger
from holdfast.features.transfer import schema_v1 as envelope
from holdfast.features.transfer.exporter import Row, name_of, place
from holdfast.features.transfer.local_table_rows import LEDGERS, Ledger
from holdfast.features.transfer.model import Options, Outcome
from holdfast.features.transfer.schema_v1 import moment
from holdfast.kernel import ids
from holdfast.kernel.caller import RESERVED_AGENTS, admit_agent, admit_agent_type
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound, StoreError, TitleTaken
from holdfast.kernel.journal.kinds import LINK, MEMORY, Kind
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.lifetime import lives_until
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import canonical
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.text.words import fold

STEP = 100
R = TypeVar("R", bound=Struct)

OUTCOMES: tuple[Outcome, ...] = ("imported", "merged", "unchanged", "older")


class Rejected(Struct, frozen=True):
    array: str
    index: int
    error: HoldfastError


class Taken(NamedTuple):
    """Outcome counts, rejected rows and unknown fields of an import."""

    counts: dict[str, Counter[Outcome]]
    rejected: list[Rejected]
    restamped: int
    kept: list[str]
    """Unknown envelope fields: stored, and written again by an export."""


class Rehearsed(Exception):
    """Rolls back the transaction of a dry run."""


def take(hold: Hold, given: Row, options: Options, *, dry_run: bool = False) -> Taken:
    """Import an envelope in one transaction. A rejected row is reported; the others are imported."""
    envelope.must_be_envelope(given)
    arrays = {name: given[name] for name in envelope.ARRAYS if name in given}
    total, done = sum(map(len, arrays.values())), 0
    report = Taken({name: Counter() for name in arrays}, [], 0, [])
    try:
        with hold.writing() as write:
            intake = Intake(hold, write, options)
            for name, rows in arrays.items():
                for index, raw in enumerate(rows):
                    if done % STEP == 0:
                        hold.progress(done, total, "importing")
                    intake.tried(report, name, index, raw)
                    done += 1
            for name in given.keys() - {*envelope.ARRAYS, *envelope.HEAD}:
                intake.tried(report, name, 0, given[name])
            if dry_run:
                raise Rehearsed
    except Rehearsed:
        pass
    return report._replace(restamped=intake.restamped, kept=sorted(report.kept))


class Intake:
    """State of one import: imports rows one by one."""

    def __init__(self, hold: Hold, write: Transaction | None, options: Options) -> None:
        self.restamped = 0
        self._hold = hold
        if write is not None:
            self.writes(write)
        self._options = options
        self._stands_for: dict[str, str] = {}
        self._there: set[str] = set()
        self._arrays: dict[str, Callable[[Any], Outcome]] = {
            "memories": lambda raw: self._memory(raw, "live"),
            "archived": lambda raw: self._memory(raw, "archived"),
            "agents": self._agent,
            "entities": self._entity,
            "links": self._link,
            "namespaces": self._namespace,
            "grants": self._grant,
            "notices": self._notice,
            "policies": self._policy,
            "principals": self._principal,
            "interactions": self._interaction,
            "invalidations": self._invalidation,
            "skill_versions": self._skill_version,
            "skills": self._skill,
            **{name: partial(self._ledger, ledger) for name, ledger in LEDGERS.items()},
        }

    def writes(self, write: Transaction) -> None:
        """Continue in another transaction."""
        self._write = write

    def outcome(self, array: str, raw: Any) -> Outcome:
        """Import one row of an array. Raises before anything is written."""
        return self._arrays[array](raw)

    def must_reach(self, namespace: str) -> None:
        """Raise unless the caller can write to a namespace. The error does not reveal its name to a peer."""
        self._hold.caller.must_reach(namespace)
        if not self._options.scope.takes(namespace):
            raise Forbidden("Its namespace is not accepted from this peer.")

    def tried(self, taken: Taken, name: str, index: int, raw: Any) -> None:
        """Import one row or unknown field. An error rejects only this row."""
        try:
            if name in self._arrays:
                taken.counts[name][self.outcome(name, raw)] += 1
            else:
                self._unknown(name, raw)
                taken.kept.append(name)
        except StoreError:
            raise
        except HoldfastError as error:
            taken.rejected.append(Rejected(name, index, error))

    def _memory(self, raw: Any, state: Literal["live", "archived"]) -> Outcome:
        incoming, used = self._given(raw, state)
        stored = self._write.get(MEMORY, incoming.id)
        return self._new(incoming, used) if stored is None else self._known(stored, incoming, used)

    def read_memory(self, raw: Any) -> Memory:
        """Build the memory that importing a new row would store."""
        return self._owned(self._given(raw, "live")[0])

    def _given(self, raw: Any, state: Literal["live", "archived"]) -> tuple[Memory, tuple[int, int]]:
        memory, used = envelope.memory_of(
            raw,
            state,
            agent=self._hold.caller.agent,
            namespace=self._hold.namespace,
            origin=self._write.origin,
            now=self._write.now,
            times=self._hold.lifetimes,
        )
        self.must_reach(memory.namespace)
        return self._timed(hygiene.taken_in(self._write.session, memory)), used

    def _timed(self, record: R) -> R:
        """Keep the times and version of a record, or reset them to now."""
        if self._options.preserve_timestamps:
            return record
        return replace(record, created_at=self._write.now, updated_at=self._write.now, version=1)

    def _new(self, incoming: Memory, used: tuple[int, int]) -> Outcome:
        incoming = self._owned(incoming)
        if self._claims(incoming, used):
            holder = title_holder(self._write, incoming.namespace, incoming.title)
            if holder is not None and self._options.on_conflict == "merge":
                return self._merge(holder, incoming, used)
            incoming = self._titled(incoming)
        self._write.add(MEMORY, incoming, "import")
        self._count(incoming, used)
        return "imported"

    def _claims(self, memory: Memory, used: tuple[int, int]) -> bool:
        """Whether a memory will occupy its title: live and not expired."""
        return memory.state == "live" and lives_until(memory, self._kept_until(memory, used)) > self._write.now

    def _kept_until(self, memory: Memory, used: tuple[int, int]) -> int:
        return self._hold.lifetimes.extended(memory.tier, used[1]) if used[1] else 0

    def _owned(self, memory: Memory) -> Memory:
        """Set the owner: from the file if it is trusted, else the importer, noting the original owner."""
        importer = self._hold.caller.agent
        trusted = self._options.trust_source and memory.agent not in RESERVED_AGENTS
        if trusted or memory.agent == importer:
            return replace(memory, agent=admit_agent(memory.agent, "metadata.agent_id"))
        self.restamped += 1
        metadata = door.metadata({"imported_from_agent_id": memory.agent, **memory.metadata})
        return replace(memory, agent=importer, metadata=metadata)

    def _titled(self, memory: Memory) -> Memory:
        """Check that the title is free, or number it with on_conflict `version`."""
        if self._options.on_conflict != "version":
            must_be_free(self._hold, self._write, memory)
            return memory
        for title in (memory.title, *(numbered(memory.title, number) for number in range(2, MOST_VERSIONS + 1))):
            holder = title_holder(self._write, memory.namespace, title)
            if holder is None or holder.id == memory.id:
                return replace(memory, title=door.title(title))
        raise Conflict(f"There are already {MOST_VERSIONS} versions of {memory.title!r}.")

    def _merge(self, holder: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
        """Merge into the memory with this title. Never across different sets of readers."""
        if holder.scope != incoming.scope or (incoming.scope == "private" and holder.agent != incoming.agent):
            raise TitleTaken(
                f"The title {incoming.title!r} in {incoming.namespace!r} belongs to {holder.id} for other readers: "
                "import with on_conflict version.",
                existing_id=holder.id,
            )
        ends = None if incoming.expires_at is None else lives_until(incoming, self._kept_until(incoming, used))
        merged = put(self._hold, self._write, _draft(replace(incoming, expires_at=ends)), "merge", imported=True).memory
        merged = self._write.change(MEMORY, merged, replace(merged, extra={**incoming.extra, **merged.extra}), "import")
        lift(self._write, merged.id, incoming.reflection_depth, capped=False)
        self._told(holder, merged)
        self._count(merged, used)
        self._stands_for[incoming.id] = holder.id
        return "unchanged" if merged.version == holder.version else "merged"

    def _known(self, stored: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
        if not self._hold.caller.reaches(stored.namespace):
            raise Forbidden(f"The memory {incoming.id} is in a namespace outside this key's reach.")
        if self._options.check_rights:
            self._must_write(stored)
            must_agree(self._hold, self._write, stored, incoming)
        incoming = never_lower(stored, incoming)
        if stamp := stored.metadata.get("imported_from_agent_id"):
            incoming = replace(incoming, metadata={"imported_from_agent_id": stamp, **incoming.metadata})
        if self._options.on_conflict == "version" and self._claims(incoming, used):
            incoming = self._titled(incoming)
        outcome = self._settled(
            MEMORY, stored, incoming, lambda _: self._claims(incoming, used) and self._titled(incoming)
        )
        if outcome == "merged":
            lift(self._write, stored.id, incoming.reflection_depth, capped=False)
            self._told(stored, incoming)
        if outcome != "older":
            self._count(incoming, used)
        return outcome

    def _told(self, before: Memory, after: Memory) -> None:
        """Flag the dependents of a memory whose text changed. A restored memory has the same text."""
        if before.state != "deleted" and (before.title, before.content) != (after.title, after.content):
            self._write.local(ChangeSet).changed.add(before.id)

    def _settled(
        self, kind: Kind[R], known: R | None, incoming: R, check: Callable[[Any], object] = lambda wanted: None
    ) -> Outcome:
        """Add a record, or replace an older state. Restores a deleted record, except a grant."""
        if known is None:
            check(incoming)
            self._write.add(kind, incoming, "import")
            return "imported"
        before: Any = known
        after: Any = replace(known, **{name: getattr(incoming, name) for name in _changeable(kind)})
        if not cells.changed(kind.shape, before, after):
            return "unchanged"
        revived = before.state == "deleted" and kind.name != GRANT.name
        if incoming.updated_at < before.updated_at and not revived:  # type: ignore[attr-defined]
            return "older"
        if self._options.on_conflict == "error":
            raise Conflict(f"The {kind.name} {before.id} exists with other contents.", id=before.id)
        check(after)
        self._write.change(kind, known, after, "import")
        return "merged"

    def _count(self, memory: Memory, used: tuple[int, int]) -> None:
        """Raise the access count to that of the file; never lower it."""
        uses, used_at = used
        had, had_at = memories.uses(self._write.session, [memory.id]).get(memory.id, (0, 0))
        if uses <= had and used_at <= had_at:
            return
        self._write.session.do(
            "access_add", memory=memory.id, origin=self._write.origin, uses=max(0, uses - had), used_at=used_at
        )
        if self._claims(memory, used) and memory.expires_at is not None:
            self._write.session.do("transfer_used", id=memory.id, until=self._kept_until(memory, used))

    def _end(self, id: str, field: str) -> str:
        """Id in this store of a memory of the file. Raises NotFound if it is missing."""
        here = self._stands_for.get(id, id)
        if here not in self._there:
            memory = self._reached(here)
            if memory is None or memory.state == "deleted":
                raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field])
            self.must_reach(memory.namespace)
            self._there.add(here)
        return here

    def _reached(self, id: str) -> Memory | None:
        """Load a memory within the caller's reach; with check_rights, only a visible one."""
        if self._options.check_rights:
            return memories.by_ids(self._write.session, self._hold.caller, [id], self._write.now, "any").get(id)
        memory = self._write.get(MEMORY, id)
        return memory if memory is not None and self._hold.caller.reaches(memory.namespace) else None

    def _written_end(self, id: str, field: str) -> str:
        """The same for a memory that this row changes: the caller must be able to write it."""
        here = self._end(id, field)
        if self._options.check_rights:
            memory = self._write.get(MEMORY, here)
            assert memory is not None, "resolved above"
            self._must_write(memory)
        return here

    def _must_write(self, memory: Memory) -> None:
        must_change(self._hold, self._write, memory)
        self.must_reach(memory.namespace)

    def _aside(self, array: str, id: str, rest: Row, outcome: Outcome) -> Outcome:
        """Store the unknown fields of a row."""
        if rest and outcome != "older":
            self._write.session.do("kept_put", name=place(array, id), body=canonical(rest).decode())
        return outcome

    def _read(self, shape: type[R], raw: Any) -> tuple[R, Row]:
        """Parse a row. Unknown fields pass the global policy on secrets."""
        row, rest = envelope.read(shape, raw)
        return row, self._permitted(EVERYWHERE, "row", rest)

    def _permitted(self, namespace: str, field: str, value: Any) -> Any:
        """Apply the policy on secrets of a namespace to a value."""
        return hygiene.permitted(self._write.session, namespace, {field: value})[0][field]

    def _times(self, row: envelope.Row, created: str | None) -> dict[str, Any]:
        """Times, origin and version of a row."""
        created_at = moment(created, "created_at")
        created_at = self._write.now if created_at is None else created_at
        updated_at = moment(row.updated_at, "updated_at")
        return {
            "created_at": created_at,
            "updated_at": created_at if updated_at is None else updated_at,
            "origin": row.origin or self._write.origin,
            "version": row.version,
        }

    def _link(self, raw: Any) -> Outcome:
        row, rest = self._read(envelope.LinkRow, raw)
        source, target = self._written_end(row.source_id, "source_id"), self._end(row.target_id, "target_id")
        if source == target:
            raise Invalid("target_id: must differ from source_id", fields=["target_id"])
        times = self._times(row, row.created_at)
        valid_from = moment(row.valid_from, "valid_from")
        link = Link(
            id=relate.id_of(source, target, row.relation),
            source=source,
            target=target,
            relation=row.relation,
            valid_from=times["created_at"] if valid_from is None else valid_from,
            valid_until=moment(row.valid_until, "valid_until"),
            agent=self._hold.caller.agent,
            **times,
        )
        known = self._write.get(LINK, link.id)
        link, rest = self._observed(link, known, row, rest)
        timed = self._timed(link)
        outcome = self._settled(LINK, known, timed, lambda link: stand(self._write, known, link, "taken in"))
        return self._aside("links", link.id, rest, outcome)

    def _observed(self, link: Link, known: Link | None, row: envelope.LinkRow, rest: Row) -> tuple[Link, Row]:
        """Set the observer of a link: from the file if it is trusted, else the importer.

        A signature is kept only with the exact link that it signs.
        """
        observer = _observer(row.observed_by) if row.observed_by else link.agent
        if self._options.trust_source or observer == link.agent:
            return replace(link, agent=observer, signature=row.signature), rest
        if known is None:
            return link, {IMPORTED_FROM: observer, **rest}
        is_same = all(getattr(known, name) == getattr(link, name) for name in LINK.shape.registers)
        return replace(link, signature=known.signature if is_same else None), rest

    def _invalidation(self, raw: Any) -> Outcome:
        """Import a notice. Its source may be missing: deleted memories are not exported."""
        row, rest = self._read(envelope.InvalidationRow, raw)
        invalidated, invalidating = (self._stands_for.get(id, id) for id in (row.invalidated_id, row.invalidating_id))
        dependent = self._written_end(row.dependent_id, "dependent_id")
        one = Invalidation(
            id=id_of(invalidated, invalidating, dependent),
            invalidated=invalidated,
            invalidating=invalidating,
            dependent=dependent,
            hop=row.hop,
            cause=row.cause,
            status=row.status,
            reason=None if row.reason is None else door.label("reason", row.reason),
            resolver=None if row.resolver is None else self._settler(row.resolver),
            **self._times(row, row.created_at),
        )
        known = self._write.get(INVALIDATION, one.id)
        return self._aside("invalidations", one.id, rest, self._settled(INVALIDATION, known, self._timed(one)))

    def _settler(self, agent: str) -> str:
        """Who resolved a notice: from the file if it is trusted, else the importer."""
        return admit_agent(agent, "resolver") if self._options.trust_source else self._hold.caller.agent

    def _entity(self, raw: Any) -> Outcome:
        row, rest = self._read(envelope.EntityRow, raw)
        entity = self._written_end(row.entity_id, "entity_id")
        name = door.title(self._permitted(self._namespace_of(entity), "alias", row.alias), "alias")
        alias = Alias(
            id=ids.derived("alias", entity, fold(name)),
            entity=entity,
            name=name,
            folded=fold(name),
            **self._times(row, row.created_at),
        )
        known = self._write.get(ALIAS, alias.id)
        return self._aside("entities", alias.id, rest, self._settled(ALIAS, known, self._timed(alias)))

    def _namespace_of(self, id: str) -> str:
        memory = self._write.get(MEMORY, id)
        return EVERYWHERE if memory is None else memory.namespace

    def _agent(self, raw: Any) -> Outcome:
        row, rest = self._read(envelope.AgentRow, raw)
        agent = Agent(
            id=admit_agent(row.agent_id),
            agent_type=admit_agent_type(row.agent_type),
            capabilities=tuple(row.capabilities),
            **self._times(row, row.registered_at),
        )
        known = self._write.get(AGENT, agent.id)
        return self._aside("agents", agent.id, rest, self._settled(AGENT, known, self._timed(agent)))

    def _principal(self, raw: Any) -> Outcome:
        self._must_reach_all("principals")
        row, rest = self._read(envelope.PrincipalRow, raw)
        name = principals.admit_name(row.name, "name")
        stands_for = None if row.stands_for is None else principals.admit_name(row.stands_for, "stands_for")
        principal = principals.Principal(
            id=principals.id_of(name),
            name=name,
            stands_for=stands_for,
            display=row.display,
            **self._times(row, row.created_at),
        )
        known = self._write.get(PRINCIPAL, principal.id)
        return self._aside("principals", principal.id, rest, self._settled(PRINCIPAL, known, self._timed(principal)))

    def _interaction(self, raw: Any) -> Outcome:
        """Import an interaction unchanged. An existing one is not modified."""
        self._must_trust("interactions")
        row, rest = self._read(envelope.InteractionRow, raw)
        fields = {name: getattr(row, name) for name in Interaction.__struct_fields__ if hasattr(row, name)}
        at = moment(row.at, "at")
        assert at is not None, "required in a row"
        fields |= {"agent": admit_agent(row.agent_id), "at": at, **self._times(row, row.created_at)}
        one = admit_interaction(Interaction(**fields))
        self.must_reach(one.namespace)
        if self._write.get(INTERACTION, one.id) is not None:
            return self._aside("interactions", one.id, rest, "unchanged")
        return self._aside("interactions", one.id, rest, self._settled(INTERACTION, None, self._timed(one)))

    def _namespace(self, raw: Any) -> Outcome:
        row, rest = self._read(envelope.NamespaceRow, raw)
        name = row.namespace if row.namespace == EVERYWHERE else door.namespace(row.namespace)
        self.must_reach(name)
        if row.standard_id is None:
            unknown = {"parent_namespace": row.parent_namespace, "updated_at": row.updated_at}
            rest |= {field: value for field, value in unknown.items() if value is not None}
            return self._aside("namespaces", name, rest, "unchanged")
        parent = row.parent_namespace if row.parent_namespace is None else door.namespace(row.parent_namespace)
        if parent is not None and self._options.check_rights:
            self.must_reach(parent)
        standard = Standard(
            id=name,
            memory=self._end(row.standard_id, "standard_id"),
            parent=parent,
            **self._times(row, row.created_at or row.updated_at),
        )
        known = self._write.get(STANDARD, name)
        if known is not None and self._options.check_rights:
            must_govern(self._hold, self._write, known)
        return self._aside("namespaces", name, rest, self._settled(STANDARD, known, self._timed(standard)))

    def _grant(self, raw: Any) -> Outcome:
        self._must_trust("grants")
        row, rest = self._read(envelope.GrantRow, raw)
        memory, agent = self._end(row.memory_id, "memory_id"), admit_agent(row.agent_id)
        grant = Grant(
            id=ids.derived("grant", memory, agent),
            memory=memory,
            agent=agent,
            permission=row.permission,
            granted_by=admit_agent(row.granted_by, "granted_by"),
            **self._times(row, row.created_at),
        )
        known = self._write.get(GRANT, grant.id)
        return self._aside("grants", grant.id, rest, self._settled(GRANT, known, self._timed(grant)))

    def _notice(self, raw: Any) -> Outcome:
        self._must_trust("notices")
        self._must_reach_all("notices")
        row, rest = self._read(envelope.NoticeRow, raw)
        session = self._write.session
        known = session.row("notice_get", id=row.id) is not None
        if not known:
            session.do(
                "notice_add",
                id=row.id,
                sender=admit_agent(row.sender, "sender"),
                recipient=admit_agent(row.recipient, "recipient"),
                title=door.title(self._permitted(EVERYWHERE, "title", row.title)),
                body=door.content(self._permitted(EVERYWHERE, "body", row.body)),
                priority=row.priority,
                metadata=msgspec.json.encode(
                    self._permitted(EVERYWHERE, "metadata", door.metadata(row.metadata))
                ).decode(),
                created_at=moment(row.created_at, "created_at"),
                read_at=moment(row.read_at, "read_at"),
            )
        return self._aside("notices", row.id, rest, "unchanged" if known else "imported")

    def _policy(self, raw: Any) -> Outcome:
        self._must_trust("policies")
        row, rest = self._read(envelope.PolicyRow, raw)
        place = place_of(row.namespace)
        self.must_reach(place)
        policy = Policy(
            id=place,
            rules=admit_rules(row.rules),
            agent=admit_agent(row.decided_by, "decided_by"),
            **self._times(row, row.created_at),
        )
        known = self._write.get(POLICY, place)
        return self._aside("policies", place, rest, self._settled(POLICY, known, self._timed(policy)))

    def _skill_version(self, raw: Any) -> Outcome:
        """Import a skill version. Its files must match its digest."""
        row, rest = self._read(envelope.SkillVersionRow, raw)
        contents = skill_files.admitted((one.path, envelope.decoded(one.content, one.encoding)) for one in row.files)
        version = skill_keeping.version_of(contents, None, door.namespace(row.namespace), row.name)
        self.must_reach(version.namespace)
        if version.digest != row.digest:
            raise Invalid("digest: does not match the files", fields=["digest"])
        skill_keeping.must_be_without_secrets(self._write.session, version.namespace, contents)
        times = {**self._times(row, row.created_at), "version": 1}
        version = replace(version, agent=self._registrar(row.registered_by), signature=row.signature or "", **times)
        version = skill_keeping.proved(self._write, version)
        known = self._write.get(SKILL_VERSION, version.id)
        outcome: Outcome = "unchanged"
        if known is None or known.state == "deleted":
            skills.keep(self._write.session, {file.digest: contents[file.path] for file in version.files})
            skill_keeping.kept(self._write, known, version, "import")
            outcome = "imported"
        return self._aside("skill_versions", version.id, rest, outcome)

    def _skill(self, raw: Any) -> Outcome:
        row, rest = self._read(envelope.SkillRow, raw)
        namespace = door.namespace(row.namespace)
        self.must_reach(namespace)
        current = self._write.get(SKILL_VERSION, version_id(row.current))
        if current is None or (current.namespace, current.name) != (namespace, row.name):
            raise NotFound(f"current: unknown version of {row.name!r}.", fields=["current"])
        skill = Skill(
            id=skill_id(namespace, row.name),
            namespace=namespace,
            name=row.name,
            current=current.id,
            agent=self._registrar(row.registered_by),
            **self._times(row, row.created_at),
        )
        known = self._write.get(SKILL, skill.id)
        return self._aside("skills", skill.id, rest, self._settled(SKILL, known, self._timed(skill)))

    def _ledger(self, ledger: Ledger, raw: Any) -> Outcome:
        """Import a record of a local table. These are not journalled."""
        row, rest = self._read(ledger.shape, raw)
        taking = intake_ledger.Taking(
            self._hold,
            self._write.session,
            self._write.now,
            self._options,
            lambda id: self._stands_for.get(id, id),
            self._end,
        )
        record = intake_ledger.admitted(taking, ledger, ledger.kept(row))
        outcome = intake_ledger.take(taking, ledger, record)
        return self._aside(ledger.array, name_of(ledger, record), rest, outcome)

    def _registrar(self, agent: str) -> str:
        """Who registered a skill: from the file if it is trusted, else the importer."""
        return admit_agent(agent, "registered_by") if self._options.trust_source else self._hold.caller.agent

    def _unknown(self, name: str, value: Any) -> None:
        """Store an unknown envelope field. Lists are merged, other values are replaced."""
        self._must_reach_all(name)
        slot, value = place("", door.foreign_name(name)), self._permitted(EVERYWHERE, "row", door.foreign(name, value))
        known = {row[0]: row[1] for row in self._write.session.rows("kept_all")}.get(slot)
        if known is not None and isinstance(value, list) and isinstance(had := msgspec.json.decode(known), list):
            texts = {canonical(item) for item in had}
            value = had + [item for item in value if canonical(item) not in texts]
        self._write.session.do("kept_put", name=slot, body=canonical(value).decode())

    def _must_trust(self, what: str) -> None:
        if not self._options.trust_source:
            raise Forbidden(f"{what}: imported from a trusted source only; use trust_source.")

    def _must_reach_all(self, what: str) -> None:
        if "*" not in self._hold.caller.namespaces:
            raise Forbidden(f"{what}: importing requires a key for all namespaces.")


def _changeable(kind: Kind[Any]) -> tuple[str, ...]:
    """Fields that a change can modify; the others are fixed at creation."""
    shape = kind.shape
    return (*shape.registers, *shape.quiet, *shape.highest, *shape.sets, *shape.maps)


def _observer(agent: str) -> str:
    """Validate an observer. Reserved names are allowed, since no right follows from them."""
    return agent if agent in RESERVED_AGENTS else admit_agent(agent, "observed_by")


def _draft(memory: Memory) -> Draft:
    """Draft that would store this memory. Without an expiry it is long-term, whatever its tier."""
    same = {name: getattr(memory, name) for name in Draft.__struct_fields__ if name in Memory.__struct_fields__}
    return Draft(**same | {"tier": "long" if memory.expires_at is None else memory.tier})
