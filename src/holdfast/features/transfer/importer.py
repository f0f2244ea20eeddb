"""Import an envelope row by row, with the validation of every other write."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.interaction import INTERACTION, Interaction, validate_interaction
from holdfast.features.access.model import AGENT, GRANT, Agent, Grant
from holdfast.features.graph import service as graph
from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories import dedup
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import (
    MAX_VERSIONS,
    check_scope_change,
    find_title_holder,
    number_title,
    require_free_title,
    require_write_access,
    store_draft,
)
from holdfast.features.namespaces.model import POLICY, STANDARD, Policy, Standard, validate_rules
from holdfast.features.namespaces.policy import normalize_namespace
from holdfast.features.namespaces.service import EVERYWHERE, require_standard_access
from holdfast.features.people import principal as principals
from holdfast.features.people.principal import PRINCIPAL
from holdfast.features.reflections.depth import check_link, raise_depth
from holdfast.features.reflections.invalidation import INVALIDATION, ChangeSet, Invalidation, invalidation_id
from holdfast.features.reflections.model import keep_depth
from holdfast.features.skills import files as skill_files
from holdfast.features.skills import service as skill_service
from holdfast.features.skills import store as skills
from holdfast.features.skills.model import SKILL, SKILL_VERSION, Skill, skill_id, version_id
from holdfast.features.transfer import import_local_tables, schema_v1
from holdfast.features.transfer.exporter import Row, make_extra_key, make_row_id
from holdfast.features.transfer.local_table_rows import LOCAL_TABLES, LocalTable
from holdfast.features.transfer.model import Options, Outcome
from holdfast.features.transfer.schema_v1 import read_timestamp
from holdfast.kernel import ids
from holdfast.kernel.caller import RESERVED_AGENTS, validate_agent_id, validate_agent_type
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound, StoreError, TitleTaken
from holdfast.kernel.journal.kinds import LINK, MEMORY, Kind
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions, validate
from holdfast.kernel.records.lifetime import lives_until
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.text.words import fold_name

PROGRESS_STEP = 100
R = TypeVar("R", bound=Struct)

OUTCOMES: tuple[Outcome, ...] = ("imported", "merged", "unchanged", "older")


class RejectedRow(Struct, frozen=True):
    array: str
    index: int
    error: HoldfastError


class ImportReport(NamedTuple):
    """Outcome counts, rejected rows and unknown fields of an import."""

    counts: dict[str, Counter[Outcome]]
    rejected: list[RejectedRow]
    restamped: int
    kept_fields: list[str]
    """Unknown envelope fields: stored, and written again by an export."""


class DryRunRollback(Exception):
    """Rolls back the transaction of a dry run."""


def import_envelope(ctx: Context, document: Row, options: Options, *, dry_run: bool = False) -> ImportReport:
    """Import an envelope in one transaction. A rejected row is reported; the others are imported."""
    schema_v1.must_be_envelope(document)
    arrays = {name: document[name] for name in schema_v1.ARRAYS if name in document}
    total, done = sum(map(len, arrays.values())), 0
    report = ImportReport({name: Counter() for name in arrays}, [], 0, [])
    try:
        with ctx.transaction() as write:
            intake = Importer(ctx, write, options)
            for name, rows in arrays.items():
                for index, raw in enumerate(rows):
                    if done % PROGRESS_STEP == 0:
                        ctx.progress(done, total, "importing")
                    intake.try_row(report, name, index, raw)
                    done += 1
            for name in document.keys() - {*schema_v1.ARRAYS, *schema_v1.HEADER_FIELDS}:
                intake.try_row(report, name, 0, document[name])
            if dry_run:
                raise DryRunRollback
    except DryRunRollback:
        pass
    return report._replace(restamped=intake.restamped, kept_fields=sorted(report.kept_fields))


class Importer:
    """State of one import: imports rows one by one."""

    def __init__(self, ctx: Context, write: Transaction | None, options: Options) -> None:
        self.restamped = 0
        self._ctx = ctx
        if write is not None:
            self.use_transaction(write)
        self._options = options
        self._merged_ids: dict[str, str] = {}
        self._found_ids: set[str] = set()
        self._arrays: dict[str, Callable[[Any], Outcome]] = {
            "memories": lambda raw: self._import_memory(raw, "live"),
            "archived": lambda raw: self._import_memory(raw, "archived"),
            "agents": self._import_agent,
            "entities": self._import_entity,
            "links": self._import_link,
            "namespaces": self._import_namespace,
            "grants": self._import_grant,
            "notices": self._import_notice,
            "policies": self._import_policy,
            "principals": self._import_principal,
            "interactions": self._import_interaction,
            "invalidations": self._import_invalidation,
            "skill_versions": self._import_skill_version,
            "skills": self._import_skill,
            **{name: partial(self._import_local_record, ledger) for name, ledger in LOCAL_TABLES.items()},
        }

    def use_transaction(self, write: Transaction) -> None:
        """Continue in another transaction."""
        self._write = write

    def import_row(self, array: str, raw: Any) -> Outcome:
        """Import one row of an array. Raises before anything is written."""
        return self._arrays[array](raw)

    def must_reach(self, namespace: str) -> None:
        """Raise unless the caller can write to a namespace. The error does not reveal its name to a peer."""
        self._ctx.caller.require_access(namespace)
        if not self._options.scope.can_receive(namespace):
            raise Forbidden("Its namespace is not accepted from this peer.")

    def try_row(self, report: ImportReport, name: str, index: int, raw: Any) -> None:
        """Import one row or unknown field. An error rejects only this row."""
        try:
            if name in self._arrays:
                report.counts[name][self.import_row(name, raw)] += 1
            else:
                self._keep_unknown(name, raw)
                report.kept_fields.append(name)
        except StoreError:
            raise
        except HoldfastError as error:
            report.rejected.append(RejectedRow(name, index, error))

    def _import_memory(self, raw: Any, state: Literal["live", "archived"]) -> Outcome:
        incoming, used = self._parse_memory(raw, state)
        stored = self._write.get(MEMORY, incoming.id)
        return self._add_memory(incoming, used) if stored is None else self._update_memory(stored, incoming, used)

    def read_memory(self, raw: Any) -> Memory:
        """Build the memory that importing a new row would store."""
        return self._set_owner(self._parse_memory(raw, "live")[0])

    def _parse_memory(self, raw: Any, state: Literal["live", "archived"]) -> tuple[Memory, tuple[int, int]]:
        memory, used = schema_v1.parse_memory(
            raw,
            state,
            agent=self._ctx.caller.agent,
            namespace=self._ctx.namespace,
            origin=self._write.origin,
            now=self._write.now,
            lifetimes=self._ctx.lifetimes,
        )
        self.must_reach(memory.namespace)
        return self._set_times(dedup.filter_memory_secrets(self._write.session, memory)), used

    def _set_times(self, record: R) -> R:
        """Keep the times and version of a record, or reset them to now."""
        if self._options.preserve_timestamps:
            return record
        return replace(record, created_at=self._write.now, updated_at=self._write.now, version=1)

    def _add_memory(self, incoming: Memory, used: tuple[int, int]) -> Outcome:
        incoming = self._set_owner(incoming)
        if self._claims_title(incoming, used):
            holder = find_title_holder(self._write, incoming.namespace, incoming.title)
            if holder is not None and self._options.on_conflict == "merge":
                return self._merge_memory(holder, incoming, used)
            incoming = self._set_title(incoming)
        self._write.add(MEMORY, incoming, "import")
        self._count_uses(incoming, used)
        return "imported"

    def _claims_title(self, memory: Memory, used: tuple[int, int]) -> bool:
        """Whether a memory will occupy its title: live and not expired."""
        return memory.state == "live" and lives_until(memory, self._kept_until(memory, used)) > self._write.now

    def _kept_until(self, memory: Memory, used: tuple[int, int]) -> int:
        return self._ctx.lifetimes.extend(memory.tier, used[1]) if used[1] else 0

    def _set_owner(self, memory: Memory) -> Memory:
        """Set the owner: from the file if it is trusted, else the importer, noting the original owner."""
        importer = self._ctx.caller.agent
        trusted = self._options.trust_source and memory.agent not in RESERVED_AGENTS
        if trusted or memory.agent == importer:
            return replace(memory, agent=validate_agent_id(memory.agent, "metadata.agent_id"))
        self.restamped += 1
        metadata = validate.metadata({"imported_from_agent_id": memory.agent, **memory.metadata})
        return replace(memory, agent=importer, metadata=metadata)

    def _set_title(self, memory: Memory) -> Memory:
        """Check that the title is free, or number it with on_conflict `version`."""
        if self._options.on_conflict != "version":
            require_free_title(self._ctx, self._write, memory)
            return memory
        for title in (memory.title, *(number_title(memory.title, number) for number in range(2, MAX_VERSIONS + 1))):
            holder = find_title_holder(self._write, memory.namespace, title)
            if holder is None or holder.id == memory.id:
                return replace(memory, title=validate.title(title))
        raise Conflict(f"There are already {MAX_VERSIONS} versions of {memory.title!r}.")

    def _merge_memory(self, holder: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
        """Merge into the memory with this title. Never across different sets of readers."""
        if holder.scope != incoming.scope or (incoming.scope == "private" and holder.agent != incoming.agent):
            raise TitleTaken(
                f"The title {incoming.title!r} in {incoming.namespace!r} belongs to {holder.id} for other readers: "
                "import with on_conflict version.",
                existing_id=holder.id,
            )
        ends = None if incoming.expires_at is None else lives_until(incoming, self._kept_until(incoming, used))
        merged = store_draft(
            self._ctx, self._write, _to_draft(replace(incoming, expires_at=ends)), "merge", imported=True
        ).memory
        merged = self._write.change(MEMORY, merged, replace(merged, extra={**incoming.extra, **merged.extra}), "import")
        raise_depth(self._write, merged.id, incoming.reflection_depth, capped=False)
        self._note_change(holder, merged)
        self._count_uses(merged, used)
        self._merged_ids[incoming.id] = holder.id
        return "unchanged" if merged.version == holder.version else "merged"

    def _update_memory(self, stored: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
        if not self._ctx.caller.can_access(stored.namespace):
            raise Forbidden(f"The memory {incoming.id} is in a namespace outside this key's reach.")
        if self._options.check_rights:
            self._must_write(stored)
            check_scope_change(self._ctx, self._write, stored, incoming)
        incoming = keep_depth(stored, incoming)
        if stamp := stored.metadata.get("imported_from_agent_id"):
            incoming = replace(incoming, metadata={"imported_from_agent_id": stamp, **incoming.metadata})
        if self._options.on_conflict == "version" and self._claims_title(incoming, used):
            incoming = self._set_title(incoming)
        outcome = self._put_record(
            MEMORY, stored, incoming, lambda _: self._claims_title(incoming, used) and self._set_title(incoming)
        )
        if outcome == "merged":
            raise_depth(self._write, stored.id, incoming.reflection_depth, capped=False)
            self._note_change(stored, incoming)
        if outcome != "older":
            self._count_uses(incoming, used)
        return outcome

    def _note_change(self, before: Memory, after: Memory) -> None:
        """Flag the dependents of a memory whose text changed. A restored memory has the same text."""
        if before.state != "deleted" and (before.title, before.content) != (after.title, after.content):
            self._write.local(ChangeSet).changed.add(before.id)

    def _put_record(
        self, kind: Kind[R], known: R | None, incoming: R, check: Callable[[Any], object] = lambda wanted: None
    ) -> Outcome:
        """Add a record, or replace an older state. Restores a deleted record, except a grant."""
        if known is None:
            check(incoming)
            self._write.add(kind, incoming, "import")
            return "imported"
        before: Any = known
        after: Any = replace(known, **{name: getattr(incoming, name) for name in _mutable_fields(kind)})
        if not field_versions.diff_fields(kind.merge_schema, before, after):
            return "unchanged"
        revived = before.state == "deleted" and kind.name != GRANT.name
        if incoming.updated_at < before.updated_at and not revived:  # type: ignore[attr-defined]
            return "older"
        if self._options.on_conflict == "error":
            raise Conflict(f"The {kind.name} {before.id} exists with other contents.", id=before.id)
        check(after)
        self._write.change(kind, known, after, "import")
        return "merged"

    def _count_uses(self, memory: Memory, used: tuple[int, int]) -> None:
        """Raise the access count to that of the file; never lower it."""
        uses, used_at = used
        had, had_at = memories.read_access_counts(self._write.session, [memory.id]).get(memory.id, (0, 0))
        if uses <= had and used_at <= had_at:
            return
        self._write.session.do(
            "access_add", memory=memory.id, origin=self._write.origin, uses=max(0, uses - had), used_at=used_at
        )
        if self._claims_title(memory, used) and memory.expires_at is not None:
            self._write.session.do("transfer_extend_life", id=memory.id, until=self._kept_until(memory, used))

    def _resolve_memory(self, id: str, field: str) -> str:
        """Id in this store of a memory of the file. Raises NotFound if it is missing."""
        here = self._merged_ids.get(id, id)
        if here not in self._found_ids:
            memory = self._find_reachable(here)
            if memory is None or memory.state == "deleted":
                raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field])
            self.must_reach(memory.namespace)
            self._found_ids.add(here)
        return here

    def _find_reachable(self, id: str) -> Memory | None:
        """Load a memory within the caller's reach; with check_rights, only a visible one."""
        if self._options.check_rights:
            return memories.by_ids(self._write.session, self._ctx.caller, [id], self._write.now, "any").get(id)
        memory = self._write.get(MEMORY, id)
        return memory if memory is not None and self._ctx.caller.can_access(memory.namespace) else None

    def _resolve_writable(self, id: str, field: str) -> str:
        """The same for a memory that this row changes: the caller must be able to write it."""
        here = self._resolve_memory(id, field)
        if self._options.check_rights:
            memory = self._write.get(MEMORY, here)
            assert memory is not None, "resolved above"
            self._must_write(memory)
        return here

    def _must_write(self, memory: Memory) -> None:
        require_write_access(self._ctx, self._write, memory)
        self.must_reach(memory.namespace)

    def _keep_extras(self, array: str, id: str, rest: Row, outcome: Outcome) -> Outcome:
        """Store the unknown fields of a row."""
        if rest and outcome != "older":
            self._write.session.do("meta_put", name=make_extra_key(array, id), body=canonical_json(rest).decode())
        return outcome

    def _read_row(self, shape: type[R], raw: Any) -> tuple[R, Row]:
        """Parse a row. Unknown fields pass the global policy on secrets."""
        row, rest = schema_v1.read_row(shape, raw)
        return row, self._apply_secret_policy(EVERYWHERE, "row", rest)

    def _apply_secret_policy(self, namespace: str, field: str, value: Any) -> Any:
        """Apply the policy on secrets of a namespace to a value."""
        return dedup.filter_secrets(self._write.session, namespace, {field: value})[0][field]

    def _read_times(self, row: schema_v1.Row, created: str | None) -> dict[str, Any]:
        """Times, origin and version of a row."""
        created_at = read_timestamp(created, "created_at")
        created_at = self._write.now if created_at is None else created_at
        updated_at = read_timestamp(row.updated_at, "updated_at")
        return {
            "created_at": created_at,
            "updated_at": created_at if updated_at is None else updated_at,
            "origin": row.origin or self._write.origin,
            "version": row.version,
        }

    def _import_link(self, raw: Any) -> Outcome:
        row, rest = self._read_row(schema_v1.LinkRow, raw)
        source, target = (
            self._resolve_writable(row.source_id, "source_id"),
            self._resolve_memory(row.target_id, "target_id"),
        )
        if source == target:
            raise Invalid("target_id: must differ from source_id", fields=["target_id"])
        times = self._read_times(row, row.created_at)
        valid_from = read_timestamp(row.valid_from, "valid_from")
        link = Link(
            id=graph.link_id(source, target, row.relation),
            source=source,
            target=target,
            relation=row.relation,
            valid_from=times["created_at"] if valid_from is None else valid_from,
            valid_until=read_timestamp(row.valid_until, "valid_until"),
            agent=self._ctx.caller.agent,
            **times,
        )
        known = self._write.get(LINK, link.id)
        link, rest = self._set_observer(link, known, row, rest)
        timed = self._set_times(link)
        outcome = self._put_record(LINK, known, timed, lambda link: check_link(self._write, known, link, "taken in"))
        return self._keep_extras("links", link.id, rest, outcome)

    def _set_observer(self, link: Link, known: Link | None, row: schema_v1.LinkRow, rest: Row) -> tuple[Link, Row]:
        """Set the observer of a link: from the file if it is trusted, else the importer.

        A signature is kept only with the exact link that it signs.
        """
        observer = _validate_observer(row.observed_by) if row.observed_by else link.agent
        if self._options.trust_source or observer == link.agent:
            return replace(link, agent=observer, signature=row.signature), rest
        if known is None:
            return link, {IMPORTED_FROM: observer, **rest}
        is_same = all(getattr(known, name) == getattr(link, name) for name in LINK.merge_schema.conflict_fields)
        return replace(link, signature=known.signature if is_same else None), rest

    def _import_invalidation(self, raw: Any) -> Outcome:
        """Import a notice. Its source may be missing: deleted memories are not exported."""
        row, rest = self._read_row(schema_v1.InvalidationRow, raw)
        invalidated, invalidating = (self._merged_ids.get(id, id) for id in (row.invalidated_id, row.invalidating_id))
        dependent = self._resolve_writable(row.dependent_id, "dependent_id")
        one = Invalidation(
            id=invalidation_id(invalidated, invalidating, dependent),
            invalidated=invalidated,
            invalidating=invalidating,
            dependent=dependent,
            hop=row.hop,
            cause=row.cause,
            status=row.status,
            reason=None if row.reason is None else validate.label("reason", row.reason),
            resolver=None if row.resolver is None else self._get_resolver(row.resolver),
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(INVALIDATION, one.id)
        return self._keep_extras(
            "invalidations", one.id, rest, self._put_record(INVALIDATION, known, self._set_times(one))
        )

    def _get_resolver(self, agent: str) -> str:
        """Who resolved a notice: from the file if it is trusted, else the importer."""
        return validate_agent_id(agent, "resolver") if self._options.trust_source else self._ctx.caller.agent

    def _import_entity(self, raw: Any) -> Outcome:
        row, rest = self._read_row(schema_v1.EntityRow, raw)
        entity = self._resolve_writable(row.entity_id, "entity_id")
        name = validate.title(self._apply_secret_policy(self._namespace_of(entity), "alias", row.alias), "alias")
        alias = Alias(
            id=ids.derive_id("alias", entity, fold_name(name)),
            entity=entity,
            name=name,
            folded=fold_name(name),
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(ALIAS, alias.id)
        return self._keep_extras("entities", alias.id, rest, self._put_record(ALIAS, known, self._set_times(alias)))

    def _namespace_of(self, id: str) -> str:
        memory = self._write.get(MEMORY, id)
        return EVERYWHERE if memory is None else memory.namespace

    def _import_agent(self, raw: Any) -> Outcome:
        row, rest = self._read_row(schema_v1.AgentRow, raw)
        agent = Agent(
            id=validate_agent_id(row.agent_id),
            agent_type=validate_agent_type(row.agent_type),
            capabilities=tuple(row.capabilities),
            **self._read_times(row, row.registered_at),
        )
        known = self._write.get(AGENT, agent.id)
        return self._keep_extras("agents", agent.id, rest, self._put_record(AGENT, known, self._set_times(agent)))

    def _import_principal(self, raw: Any) -> Outcome:
        self._must_reach_all("principals")
        row, rest = self._read_row(schema_v1.PrincipalRow, raw)
        name = principals.validate_name(row.name, "name")
        stands_for = None if row.stands_for is None else principals.validate_name(row.stands_for, "stands_for")
        principal = principals.Principal(
            id=principals.principal_id(name),
            name=name,
            stands_for=stands_for,
            display=row.display,
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(PRINCIPAL, principal.id)
        return self._keep_extras(
            "principals", principal.id, rest, self._put_record(PRINCIPAL, known, self._set_times(principal))
        )

    def _import_interaction(self, raw: Any) -> Outcome:
        """Import an interaction unchanged. An existing one is not modified."""
        self._must_trust("interactions")
        row, rest = self._read_row(schema_v1.InteractionRow, raw)
        fields = {name: getattr(row, name) for name in Interaction.__struct_fields__ if hasattr(row, name)}
        at = read_timestamp(row.at, "at")
        assert at is not None, "required in a row"
        fields |= {"agent": validate_agent_id(row.agent_id), "at": at, **self._read_times(row, row.created_at)}
        one = validate_interaction(Interaction(**fields))
        self.must_reach(one.namespace)
        if self._write.get(INTERACTION, one.id) is not None:
            return self._keep_extras("interactions", one.id, rest, "unchanged")
        return self._keep_extras(
            "interactions", one.id, rest, self._put_record(INTERACTION, None, self._set_times(one))
        )

    def _import_namespace(self, raw: Any) -> Outcome:
        row, rest = self._read_row(schema_v1.NamespaceRow, raw)
        name = row.namespace if row.namespace == EVERYWHERE else validate.namespace(row.namespace)
        self.must_reach(name)
        if row.standard_id is None:
            unknown = {"parent_namespace": row.parent_namespace, "updated_at": row.updated_at}
            rest |= {field: value for field, value in unknown.items() if value is not None}
            return self._keep_extras("namespaces", name, rest, "unchanged")
        parent = row.parent_namespace if row.parent_namespace is None else validate.namespace(row.parent_namespace)
        if parent is not None and self._options.check_rights:
            self.must_reach(parent)
        standard = Standard(
            id=name,
            memory=self._resolve_memory(row.standard_id, "standard_id"),
            parent=parent,
            **self._read_times(row, row.created_at or row.updated_at),
        )
        known = self._write.get(STANDARD, name)
        if known is not None and self._options.check_rights:
            require_standard_access(self._ctx, self._write, known)
        return self._keep_extras("namespaces", name, rest, self._put_record(STANDARD, known, self._set_times(standard)))

    def _import_grant(self, raw: Any) -> Outcome:
        self._must_trust("grants")
        row, rest = self._read_row(schema_v1.GrantRow, raw)
        memory, agent = self._resolve_memory(row.memory_id, "memory_id"), validate_agent_id(row.agent_id)
        grant = Grant(
            id=ids.derive_id("grant", memory, agent),
            memory=memory,
            agent=agent,
            permission=row.permission,
            granted_by=validate_agent_id(row.granted_by, "granted_by"),
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(GRANT, grant.id)
        return self._keep_extras("grants", grant.id, rest, self._put_record(GRANT, known, self._set_times(grant)))

    def _import_notice(self, raw: Any) -> Outcome:
        self._must_trust("notices")
        self._must_reach_all("notices")
        row, rest = self._read_row(schema_v1.NoticeRow, raw)
        session = self._write.session
        known = session.row("notice_get", id=row.id) is not None
        if not known:
            session.do(
                "notice_add",
                id=row.id,
                sender=validate_agent_id(row.sender, "sender"),
                recipient=validate_agent_id(row.recipient, "recipient"),
                title=validate.title(self._apply_secret_policy(EVERYWHERE, "title", row.title)),
                body=validate.content(self._apply_secret_policy(EVERYWHERE, "body", row.body)),
                priority=row.priority,
                metadata=msgspec.json.encode(
                    self._apply_secret_policy(EVERYWHERE, "metadata", validate.metadata(row.metadata))
                ).decode(),
                created_at=read_timestamp(row.created_at, "created_at"),
                read_at=read_timestamp(row.read_at, "read_at"),
            )
        return self._keep_extras("notices", row.id, rest, "unchanged" if known else "imported")

    def _import_policy(self, raw: Any) -> Outcome:
        self._must_trust("policies")
        row, rest = self._read_row(schema_v1.PolicyRow, raw)
        place = normalize_namespace(row.namespace)
        self.must_reach(place)
        policy = Policy(
            id=place,
            rules=validate_rules(row.rules),
            agent=validate_agent_id(row.decided_by, "decided_by"),
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(POLICY, place)
        return self._keep_extras("policies", place, rest, self._put_record(POLICY, known, self._set_times(policy)))

    def _import_skill_version(self, raw: Any) -> Outcome:
        """Import a skill version. Its files must match its digest."""
        row, rest = self._read_row(schema_v1.SkillVersionRow, raw)
        contents = skill_files.validate_files(
            (one.path, schema_v1.decode_content(one.content, one.encoding)) for one in row.files
        )
        version = skill_service.build_version(contents, None, validate.namespace(row.namespace), row.name)
        self.must_reach(version.namespace)
        if version.digest != row.digest:
            raise Invalid("digest: does not match the files", fields=["digest"])
        skill_service.reject_secrets(self._write.session, version.namespace, contents)
        times = {**self._read_times(row, row.created_at), "version": 1}
        version = replace(version, agent=self._get_registrar(row.registered_by), signature=row.signature or "", **times)
        version = skill_service.ensure_signed(self._write, version)
        known = self._write.get(SKILL_VERSION, version.id)
        outcome: Outcome = "unchanged"
        if known is None or known.state == "deleted":
            skills.store_contents(self._write.session, {file.digest: contents[file.path] for file in version.files})
            skill_service.save_version(self._write, known, version, "import")
            outcome = "imported"
        return self._keep_extras("skill_versions", version.id, rest, outcome)

    def _import_skill(self, raw: Any) -> Outcome:
        row, rest = self._read_row(schema_v1.SkillRow, raw)
        namespace = validate.namespace(row.namespace)
        self.must_reach(namespace)
        current = self._write.get(SKILL_VERSION, version_id(row.current))
        if current is None or (current.namespace, current.name) != (namespace, row.name):
            raise NotFound(f"current: unknown version of {row.name!r}.", fields=["current"])
        skill = Skill(
            id=skill_id(namespace, row.name),
            namespace=namespace,
            name=row.name,
            current=current.id,
            agent=self._get_registrar(row.registered_by),
            **self._read_times(row, row.created_at),
        )
        known = self._write.get(SKILL, skill.id)
        return self._keep_extras("skills", skill.id, rest, self._put_record(SKILL, known, self._set_times(skill)))

    def _import_local_record(self, table: LocalTable, raw: Any) -> Outcome:
        """Import a record of a local table. These are not journalled."""
        row, rest = self._read_row(table.row_type, raw)
        taking = import_local_tables.LocalImport(
            self._ctx,
            self._write.session,
            self._write.now,
            self._options,
            lambda id: self._merged_ids.get(id, id),
            self._resolve_memory,
        )
        record = import_local_tables.prepare_record(taking, table, table.from_row(row))
        outcome = import_local_tables.import_record(taking, table, record)
        return self._keep_extras(table.array, make_row_id(table, record), rest, outcome)

    def _get_registrar(self, agent: str) -> str:
        """Who registered a skill: from the file if it is trusted, else the importer."""
        return validate_agent_id(agent, "registered_by") if self._options.trust_source else self._ctx.caller.agent

    def _keep_unknown(self, name: str, value: Any) -> None:
        """Store an unknown envelope field. Lists are merged, other values are replaced."""
        self._must_reach_all(name)
        slot, value = (
            make_extra_key("", validate.foreign_name(name)),
            self._apply_secret_policy(EVERYWHERE, "row", validate.foreign_json(name, value)),
        )
        known = {row[0]: row[1] for row in self._write.session.rows("meta_list")}.get(slot)
        if known is not None and isinstance(value, list) and isinstance(had := msgspec.json.decode(known), list):
            texts = {canonical_json(item) for item in had}
            value = had + [item for item in value if canonical_json(item) not in texts]
        self._write.session.do("meta_put", name=slot, body=canonical_json(value).decode())

    def _must_trust(self, what: str) -> None:
        if not self._options.trust_source:
            raise Forbidden(f"{what}: imported from a trusted source only; use trust_source.")

    def _must_reach_all(self, what: str) -> None:
        if "*" not in self._ctx.caller.namespaces:
            raise Forbidden(f"{what}: importing requires a key for all namespaces.")


def _mutable_fields(kind: Kind[Any]) -> tuple[str, ...]:
    """Fields that a change can modify; the others are fixed at creation."""
    shape = kind.merge_schema
    return (*shape.conflict_fields, *shape.lww_fields, *shape.max_fields, *shape.set_fields, *shape.map_fields)


def _validate_observer(agent: str) -> str:
    """Validate an observer. Reserved names are allowed, since no right follows from them."""
    return agent if agent in RESERVED_AGENTS else validate_agent_id(agent, "observed_by")


def _to_draft(memory: Memory) -> Draft:
    """Draft that would store this memory. Without an expiry it is long-term, whatever its tier."""
    same = {name: getattr(memory, name) for name in Draft.__struct_fields__ if name in Memory.__struct_fields__}
    return Draft(**same | {"tier": "long" if memory.expires_at is None else memory.tier})
