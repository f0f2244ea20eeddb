"""Import a kernex store: each table becomes the matching records here; rows that cannot are reported."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from msgspec.structs import replace

from holdfast.features.access import interactions
from holdfast.features.access.interaction import MAX_REASON, Decision
from holdfast.features.access.interactions import InteractionInput
from holdfast.features.conversations import store as conversations
from holdfast.features.conversations.service import IDLE_AFTER
from holdfast.features.conversations.store import Conversation, Scope
from holdfast.features.importers import store as import_records
from holdfast.features.importers.model import MAX_PART_BYTES, Problem, digest, split_text
from holdfast.features.importers.store import ImportRecord
from holdfast.features.learning import store as outcomes
from holdfast.features.learning.lesson_rules import Evidence, Score, build_lesson_title
from holdfast.features.learning.observations import build_observation_text
from holdfast.features.learning.store import Outcome
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.store_memory import find_title_holder, store_draft
from holdfast.features.people import facts
from holdfast.features.people import service as principals
from holdfast.features.people.person_namespace import people_namespace
from holdfast.features.people.principal import validate_name
from holdfast.features.people.store import list_names
from holdfast.features.runs import store as runs
from holdfast.features.runs.phases import Phase, PhaseState, Run, RunPlan, RunState
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.model import State, Status, Task, TaskRun
from holdfast.features.tasks.schedule import NAMED_RULES, parse_due, parse_schedule
from holdfast.features.usage import store as usage
from holdfast.features.usage.store import Use
from holdfast.integrations.kernex.rows import Row, check_is_kernex, is_internal_table, project_namespace
from holdfast.kernel import ids
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, HoldfastError, Invalid, StoreError, TitleTaken
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Category, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.records.validate import namespace as admit_namespace
from holdfast.kernel.storage.read_only_sqlite import SqliteReader, open_read_only
from holdfast.kernel.timestamps import DAY, format_timestamp

BATCH = 200
"""Rows per transaction."""
MAX_PROBLEMS = 200
SYSTEM_SENDER = "__system__"
"""Sender under which kernex stores its own state as facts."""
DELETED_REASON = "deleted in kernex"
"""Reason of an archived memory."""
TEXTS_DROPPED_REASON = "stored without its text, because of the namespace's policy interaction_text"
SYSTEM_STATE_REASON = "internal state of kernex"

RowResult = Literal["stored", "unchanged", "left", "left_out", "rejected"]
"""New; already imported; changed since and kept as it is here; omitted on purpose; or rejected with a reason."""
RowImporter = Callable[[Transaction, Row], str | None]
"""Store a row and return its new id; None if it already exists here."""


class Options(NamedTuple):
    namespace: str
    dry_run: bool = False


class RowSkipped(Exception):
    """Skip a valid row."""

    def __init__(self, why: str, result: RowResult = "left") -> None:
        super().__init__(why)
        self.why = why
        self.result = result


class Report:
    """Row counts for every table."""

    def __init__(self) -> None:
        self.tables: dict[str, Counter[RowResult]] = {}
        self.reasons: dict[str, Counter[str]] = {}
        """Number of rows not imported, or only in part, by table and reason."""
        self.problems: list[Problem] = []
        self.rejected = 0
        self.noted = 0

    def count_rows(self, table: str, result: RowResult, number: int = 1) -> None:
        self.tables.setdefault(table, Counter())[result] += number

    def add_reason(self, table: str, why: str, number: int = 1) -> None:
        self.reasons.setdefault(table, Counter())[why] += number

    def add_problem(self, where: str, what: str, *, rejected: bool) -> None:
        self.rejected += rejected
        self.noted += not rejected
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(where=where, what=what, rejected=rejected))


def import_file(ctx: Context, path: Path, options: Options) -> Report:
    """Import a file; a repeated import adds only what is new. A dry run is rolled back."""
    ctx.caller.require_access(options.namespace)
    with open_read_only(path) as file:
        check_is_kernex(file, path.name)
        if not options.dry_run:
            return KernexImporter(ctx, file, options).import_tables()
        with open_dry_run(ctx) as tried:
            return KernexImporter(tried, file, options).import_tables()


class KernexImporter:
    """The import of one file."""

    def __init__(self, ctx: Context, file: SqliteReader, options: Options) -> None:
        self.report = Report()
        self._ctx = ctx
        self._file = file
        self._options = options
        self._first_places: dict[int, int] = {}
        """First place of each message in its conversation, by row number."""
        self._turn_counts: Counter[str] = Counter()
        """Number of turns per conversation."""
        self._conversations: dict[str, Row] = {}
        self._phases: dict[str, list[str]] = {}
        """Phases of each run, in start order."""
        self._tasks: set[str] = set()
        self._seen_runs: set[tuple[str, int]] = set()

    def import_tables(self) -> Report:
        self._order_messages()
        self._order_phases()
        each: dict[str, RowImporter] = {
            "user_aliases": self._alias,
            "conversations": self._conversation,
            "messages": self._message,
            "facts": self._fact,
            "observations": self._observation,
            "outcomes": self._outcome,
            "lessons": self._lesson,
            "limitations": self._limitation,
            "scheduled_tasks": self._task,
            "task_runs": self._task_run,
            "project_sessions": self._session,
            "token_usage": self._usage,
            "phase_checkpoints": self._checkpoint,
            "audit_log": self._interaction,
        }
        for table, keep in each.items():
            if table in self._file.tables:
                self._import_table(table, keep)
        self._report_unknown_tables(set(each))
        return self.report

    def _report_unknown_tables(self, known: set[str]) -> None:
        for table in sorted(set(self._file.tables) - known):
            number = 0 if is_internal_table(table, self._file.tables) else sum(1 for _ in self._file.rows(table))
            if number:
                self.report.count_rows(table, "left_out", number)
                self.report.add_reason(table, "not a kernex table", number)

    def _rows(self, table: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
        for number, values in self._file.rows(table):
            self._ctx.progress.check()
            yield number, values

    def _import_table(self, table: str, keep: RowImporter) -> None:
        rows = self._rows(table)
        while batch := list(islice(rows, BATCH)):
            self._import_batch(table, batch, keep)

    def _import_batch(self, table: str, batch: list[tuple[int, dict[str, Any] | None]], keep: RowImporter) -> None:
        """Import some rows in one transaction; an invalid row does not affect the others."""
        given = [Row(table, number, values) for number, values in batch if values is not None]
        for number, values in batch:
            if values is None:
                self._reject(table, f"{table} row {number}", "not UTF-8")
        with self._ctx.transaction() as write:
            known = import_records.find_records(write.session, [self._row_key(row) for row in given])
            noted: list[ImportRecord] = []
            for row in given:
                self._import_row(write, row, known.get(self._row_key(row)), noted, keep)
            import_records.put_records(write.session, noted)

    def _import_row(
        self, write: Transaction, row: Row, known: ImportRecord | None, noted: list[ImportRecord], keep: RowImporter
    ) -> None:
        try:
            if known is not None and (known.digest == row.digest or row.table != "conversations"):
                self._count_known(row, known)
                return
            became = keep(write, row)
        except StoreError:
            raise
        except RowSkipped as left:
            self.report.count_rows(row.table, left.result)
            self.report.add_reason(row.table, left.why)
            if left.result == "left":
                noted.append(ImportRecord(self._row_key(row), "", "mine", None, row.digest, ""))
        except TitleTaken as error:
            self.report.count_rows(row.table, "left")
            self.report.add_problem(row.where, error.message, rejected=False)
        except HoldfastError as error:
            self._reject(row.table, row.where, error.message)
        else:
            new = became is not None and known is None
            self.report.count_rows(row.table, "stored" if new else "unchanged")
            noted.append(ImportRecord(self._row_key(row), became or "", "mine", None, row.digest, ""))

    def _count_known(self, row: Row, known: ImportRecord) -> None:
        """Count a row that was imported before; later changes in kernex are not applied."""
        if row.table == "scheduled_tasks":
            self._tasks.add(known.memory)
        if row.table == "conversations":
            self._conversations[row.text("id")] = row
        if known.digest == row.digest:
            self.report.count_rows(row.table, "unchanged")
        else:
            self.report.count_rows(row.table, "left")
            self.report.add_reason(row.table, "changed in kernex since its import; not changed here")

    def _reject(self, table: str, where: str, why: str) -> None:
        self.report.count_rows(table, "rejected")
        self.report.add_reason(table, why)
        self.report.add_problem(where, why, rejected=True)

    def _row_key(self, row: Row) -> str:
        """Return the key that identifies a row; serial numbers are not unique across files, so the digest is used."""
        own = row.values.get("id") or row.values.get("alias_sender_id")
        named = row.digest if isinstance(own, int) else str(own)
        return digest("kernex", self._options.namespace, row.table, named)

    def _row_id(self, row: Row) -> str:
        return ids.derive_id("kernex", self._row_key(row))

    def _namespace_of(self, row: Row) -> str:
        return admit_namespace(project_namespace(self._options.namespace, row.text("project", "")), "project")

    def _alias(self, write: Transaction, row: Row) -> str | None:
        alias = validate_name(row.text("alias_sender_id"), "alias_sender_id")
        whose = validate_name(row.text("canonical_sender_id"), "canonical_sender_id")
        return principals.merge_in_transaction(write, alias, whose).principal

    def _order_messages(self) -> None:
        """Number the messages of every conversation by time, then by row order."""
        spoken: dict[str, list[tuple[str, int, int]]] = {}
        for number, values in self._rows("messages"):
            content = (values or {}).get("content")
            if values is not None and isinstance(content, str):
                many = sum(1 for _ in split_text(content)) or 1
                at = str(values.get("timestamp"))
                spoken.setdefault(str(values["conversation_id"]), []).append((at, number, many))
        for conversation, said in spoken.items():
            for _, number, many in sorted(said):
                self._first_places[number] = self._turn_counts[conversation] + 1
                self._turn_counts[conversation] += many

    def _order_phases(self) -> None:
        begun: dict[str, list[tuple[str, int, str]]] = {}
        for number, values in self._rows("phase_checkpoints") if "phase_checkpoints" in self._file.tables else ():
            if values is not None and values["status"] in get_args(PhaseState):
                named = (str(values["created_at"]), number, str(values["phase_name"]))
                begun.setdefault(str(values["run_id"]), []).append(named)
        self._phases = {run: [name for _, _, name in sorted(phases)] for run, phases in begun.items()}

    def _conversation(self, write: Transaction, row: Row) -> str | None:
        fresh = self._to_conversation(row)
        self._conversations[fresh.id] = row
        here = write.session.row("conversation_get", id=fresh.id)
        if here is None:
            conversations.save_conversation(write.session, self._with_state(write, row, fresh))
            return fresh.id
        there = conversations.conversation_of(here)
        turns, last = max(fresh.turns, there.turns), max(fresh.last_at, there.last_at)
        conversations.save_conversation(write.session, there._replace(turns=turns, last_at=last))
        return None

    def _to_conversation(self, row: Row) -> Conversation:
        return Conversation(
            id=row.label("id"),
            channel=row.label("channel", ""),
            principal=row.sender,
            agent=self._ctx.caller.agent,
            namespace=self._namespace_of(row),
            state="closing",
            started_at=row.timestamp("started_at"),
            last_at=row.optional_timestamp("last_activity") or row.timestamp("updated_at"),
            closed_at=row.timestamp("updated_at"),
            turns=self._turn_counts[row.text("id")],
            covered=0,
            summary=None,
            pruned=False,
        )

    def _with_state(self, write: Transaction, row: Row, fresh: Conversation) -> Conversation:
        """Set the state: active, closed, or closing, which `conversation reap` summarises later."""
        summary = row.optional_text("summary")
        if summary is not None and summary.strip():
            stored = self._summary(write, fresh, summary)
            return fresh._replace(state="closed", covered=fresh.turns, summary=stored.id)
        if not fresh.turns:
            return fresh._replace(state="closed")
        scope = Scope(fresh.channel, fresh.principal, fresh.namespace)
        goes_on = row.text("status", "active") == "active" and fresh.last_at > write.now - IDLE_AFTER
        alone = goes_on and not conversations.list_active(write.session, scope)
        return fresh._replace(state="active" if alone else "closing", closed_at=None)

    def _summary(self, write: Transaction, one: Conversation, text: str) -> Memory:
        metadata = {"conversation": one.id, "covered": one.turns, "principal": one.principal, "channel": one.channel}
        title = f"Summary of {one.channel or 'conversation'} {one.id}"
        return self._store_memory(
            write, title, text, one.namespace, kind="summary", metadata={**metadata, "method": "given"}
        )

    def _message(self, write: Transaction, row: Row) -> str | None:
        conversation = self._conversations.get(row.text("conversation_id"))
        if conversation is None:
            raise Invalid("conversation_id: the conversation was not imported")
        channel, sender = conversation.text("channel"), conversation.text("sender_id")
        at, role = row.timestamp("timestamp"), row.one_of("role", ("user", "assistant"))
        about = {
            "principal": sender,
            "channel": channel,
            "kernex": row.other_values("conversation_id", "role", "content"),
        }
        pieces = list(split_text(row.text("content")))
        if not pieces:
            raise Invalid("content: must not be empty")
        kept = [
            self._store_memory(
                write,
                f"{channel or 'conversation'} {conversation.text('id')} turn {place}",
                piece.text,
                self._namespace_of(conversation),
                on_conflict="error",
                kind="conversation",
                speaker=role,
                thread=conversation.text("id"),
                place=place,
                occurred_at=at,
                metadata=about,
            )
            for place, piece in enumerate(pieces, self._first_places[row.number])
        ]
        return kept[0].id

    def _store_memory(
        self,
        write: Transaction,
        title: str,
        content: str,
        namespace: str,
        *,
        on_conflict: Literal["error", "version"] = "version",
        **more: Any,
    ) -> Memory:
        draft = Draft(title=title, content=content, namespace=namespace, tier="long", source="import", **more)
        return store_draft(self._ctx, write, draft, on_conflict, force=True).memory

    def _fact(self, write: Transaction, row: Row) -> str | None:
        """Import a fact about a person. A different, later value here is kept."""
        sender, key, value = row.sender, row.text("key"), row.text("value")
        if sender == SYSTEM_SENDER:
            raise RowSkipped(SYSTEM_STATE_REASON, "left_out")
        key, value = validate.title(key, "key"), validate.content(value, "value")
        told, gone = row.timestamp("updated_at"), row.optional_timestamp("deleted_at")
        names = list_names(write.session, sender)
        held = [
            memory for name in names if (memory := find_title_holder(write, people_namespace(name), key)) is not None
        ]
        if any(memory.content == value and gone is None for memory in held):
            return None
        if any(gone is not None or memory.updated_at > told for memory in held):
            raise RowSkipped("a later value exists here")
        learned = row.optional_text("source_message_id")
        about = {
            "kernex": row.other_values("sender_id", "key", "value"),
            **({"learned_from": learned} if learned else {}),
        }
        if held:
            given = facts.FactInput(sender, key, value)
            return facts.set_fact_in_transaction(self._ctx, write, given).memory.id
        memory = self._store_memory(
            write,
            key,
            value,
            people_namespace(names[0]),
            kind="fact",
            occurred_at=told,
            metadata={"principal": names[0], **about},
        )
        return self._archive_if_deleted(write, memory, gone, facts.DELETE_REASON)

    def _archive_if_deleted(self, write: Transaction, memory: Memory, gone: int | None, why: str) -> str:
        """Archive a memory that was deleted in kernex; it can be restored."""
        return memory.id if gone is None else archive_memory(write, memory, why, "archive").id

    def _observation(self, write: Transaction, row: Row) -> str | None:
        columns = {"what": "what", "why": "why", "where": "where_field", "learned": "learned"}
        said = {name: text for name, column in columns.items() if (text := row.optional_text(column))}
        memory = self._store_memory(
            write,
            row.text("title"),
            build_observation_text(row.text("title"), said),
            self._options.namespace,
            kind="observation",
            category=cast(Category, row.text("type")),
            occurred_at=row.timestamp("created_at"),
            metadata={
                **said,
                "principal": row.text("sender_id"),
                "kernex": row.other_values(*columns.values(), "title"),
            },
        )
        return self._archive_if_deleted(write, memory, row.optional_timestamp("deleted_at"), DELETED_REASON)

    def _outcome(self, write: Transaction, row: Row) -> str | None:
        score = row.integer("score")
        if score not in (-1, 0, 1):
            raise Invalid("score: must be -1, 0 or 1")
        one = Outcome(
            id=self._row_id(row),
            at=row.timestamp("timestamp"),
            principal=row.sender,
            agent=self._ctx.caller.agent,
            namespace=self._namespace_of(row),
            domain=row.label("domain"),
            score=cast(Score, score),
            what=row.text("lesson"),
            source=row.text("source", "conversation"),
            lesson=None,
        )
        outcomes.add_outcome(write.session, one)
        return one.id

    def _lesson(self, write: Transaction, row: Row) -> str | None:
        domain, rule, times = row.label("domain"), row.text("rule"), max(1, row.integer("occurrences", 1))
        evidence = Evidence(positive=times)
        about = {"principal": row.sender, "domain": domain, "occurrences": times}
        memory = self._store_memory(
            write,
            build_lesson_title(domain, rule),
            rule,
            self._namespace_of(row),
            kind="lesson",
            confidence=evidence.confidence,
            occurred_at=row.timestamp("updated_at"),
            metadata={
                **about,
                **evidence._asdict(),
                "kernex": row.other_values("rule", "domain", "sender_id", "project"),
            },
        )
        return memory.id

    def _limitation(self, write: Transaction, row: Row) -> str | None:
        title, solved, made = row.text("title"), row.optional_timestamp("resolved_at"), row.timestamp("created_at")
        said = row.text("description").strip() or title
        about = {"plan": row.text("proposed_plan", ""), "status": row.one_of("status", ("open", "resolved"), "open")}
        if solved is not None:
            about["resolved_at"] = format_timestamp(solved)
        memory = self._store_memory(
            write,
            title,
            said,
            self._options.namespace,
            on_conflict="error",
            kind="limitation",
            occurred_at=made,
            metadata={
                **about,
                "evidence": [{"at": format_timestamp(made), "agent_id": self._ctx.caller.agent, "said": said[:2000]}],
                "kernex": row.other_values("title", "description", "proposed_plan"),
            },
        )
        return memory.id

    def _task(self, write: Transaction, row: Row) -> str | None:
        at, state = parse_due(row.text("due_at"), "UTC"), _STATES[row.one_of("status", _STATES, "pending")]
        repeat = self._repeat(row)
        parse_schedule(repeat, "UTC", at)
        if not row.text("description").strip():
            raise Invalid("description: must not be empty")
        made = row.timestamp("created_at")
        task = Task(
            id=row.label("id"),
            principal=row.sender,
            agent=self._ctx.caller.agent,
            namespace=self._namespace_of(row),
            channel=row.label("channel", ""),
            reply_to=row.text("reply_target", ""),
            title=row.text("description"),
            kind=row.text("task_type", "reminder"),
            handler="none",
            target="",
            payload={
                "kernex": row.other_values(
                    "description", "channel", "reply_target", "project", "sender_id", "task_type"
                )
            },
            zone="UTC",
            first_at=at,
            repeat=repeat,
            misfire="once",
            due_at=at,
            ready_at=at if state == "pending" else None,
            state=state,
            attempts=row.integer("retry_count", 0),
            most_attempts=max(5, row.integer("retry_count", 0) + 1),
            timeout=300,
            owner=None,
            token=0,
            claimed_at=None,
            cancel_asked=False,
            last_error=row.optional_text("last_error"),
            unique_key=None,
            created_at=made,
            updated_at=row.optional_timestamp("delivered_at") or made,
        )
        tasks.put_task(write.session, task)
        self._tasks.add(task.id)
        return task.id

    def _repeat(self, row: Row) -> str | None:
        """Return the repeat rule of a task; kernex treats an unknown word as daily."""
        repeat = row.optional_text("repeat")
        if repeat in (None, "", "once"):
            return None
        if repeat not in NAMED_RULES:
            self.report.add_problem(
                row.where, f"repeat: {repeat!r} is unknown and imported as daily, as in kernex", rejected=False
            )
            return "daily"
        return repeat

    def _task_run(self, write: Transaction, row: Row) -> str | None:
        if (task := row.text("task_id")) not in self._tasks:
            raise Invalid("task_id: the task was not imported")
        started = row.timestamp("started_at")
        while (task, started) in self._seen_runs:
            started += 1
        self._seen_runs.add((task, started))
        status = cast(Status, row.one_of("status", ("completed", "failed")))
        run = TaskRun(
            id=self._row_id(row),
            task=task,
            due_at=started,
            attempt=1,
            owner="kernex",
            token=0,
            started_at=started,
            finished_at=row.timestamp("finished_at"),
            status=status,
            final=status == "completed",
            result=row.optional_text("result"),
            error=row.optional_text("error"),
            tokens=None if row.values.get("tokens_used") is None else row.integer("tokens_used"),
        )
        tasks.add_run(write.session, run)
        return run.id

    def _session(self, write: Transaction, row: Row) -> str | None:
        scope = {"channel": row.label("channel", ""), "namespace": self._namespace_of(row)}
        sender, named = row.sender, row.label("session_id")
        eyes = {"admin": True, "agent": "", "mine": [], "now": write.now}
        names = list(list_names(write.session, sender))
        here = write.session.row("provider_session_get", principals=names, **scope, **eyes)
        if here is not None:
            if here[1] == named:
                return None
            raise RowSkipped("another session is active there")
        given = {"agent": self._ctx.caller.agent, "provider": "kernex", "session": named, "expires_at": None}
        now = row.timestamp("updated_at")
        write.session.do("provider_session_put", principal=sender, now=now, **scope, **given)
        return named

    def _usage(self, write: Transaction, row: Row) -> str | None:
        """Import a model call. Without a breakdown all tokens count as input; the cost is kernex's."""
        kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
        counts = [row.integer(name, 0) for name in kinds]
        if not any(counts):
            counts[0] = row.integer("tokens", 0)
        if min(counts) < 0:
            raise Invalid("tokens: must not be negative")
        at, cost = row.timestamp("timestamp"), row.cost("cost_usd")
        use = Use(
            id=self._row_id(row),
            at=at,
            day=at // DAY,
            principal=row.sender,
            agent=self._ctx.caller.agent,
            session=row.label("session_id", ""),
            model=row.label("model"),
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_read_tokens=counts[2],
            cache_write_tokens=counts[3],
            cost=cost or None,
            currency="USD" if cost else None,
        )
        usage.add_use(write.session, use)
        return use.id

    def _checkpoint(self, write: Transaction, row: Row) -> str | None:
        """Import a phase of a run; the first one creates the run, and the phases decide its state."""
        id, name, now = row.label("run_id"), row.label("phase_name"), row.timestamp("updated_at")
        status = cast(PhaseState, row.one_of("status", get_args(PhaseState), "pending"))
        run = runs.get_run(write.session, id) or self._run(row, id, now)
        if run.token:
            raise Conflict("run_id: the run has continued here")
        phase = Phase(
            name=name,
            place=self._phases[id].index(name),
            state=status,
            attempt=row.integer("attempt", 0),
            output=row.optional_text("output"),
            error=row.optional_text("error_message") if status == "failed" else None,
            started_at=row.timestamp("created_at"),
            updated_at=now,
        )
        runs.put_run(write.session, _with_phases(run, [*runs.list_phases(write.session, id), phase], now))
        runs.put_phase(write.session, id, phase)
        return f"{id} {name}"

    def _run(self, row: Row, id: str, now: int) -> Run:
        return Run(
            id=id,
            principal=row.sender,
            agent=self._ctx.caller.agent,
            namespace=self._namespace_of(row),
            topology=row.label("topology_name"),
            topology_hash=RunPlan(row.label("topology_name"), tuple(self._phases[id]), {}).hash,
            inputs={},
            state="running",
            owner=None,
            token=0,
            lease_until=None,
            error=None,
            created_at=row.timestamp("created_at"),
            updated_at=now,
        )

    def _interaction(self, write: Transaction, row: Row) -> str | None:
        """Import an audit entry as an interaction, with the text that the namespace's policy allows."""
        told = InteractionInput(
            status=cast(Decision, row.one_of("status", get_args(Decision), "ok")),
            principal=row.sender,
            namespace=self._namespace_of(row),
            name=row.label("sender_name", ""),
            channel=row.label("channel", ""),
            reason=self._shorten(row, "denial_reason", MAX_REASON) or "",
            provider=row.label("provider_used", ""),
            model=row.label("model", ""),
            took_ms=None if row.values.get("processing_ms") is None else row.integer("processing_ms"),
            at=row.timestamp("timestamp"),
            input=self._shorten(row, "input_text"),
            output=self._shorten(row, "output_text"),
            unique_key=self._row_key(row),
        )
        kept, new = interactions.record_in_transaction(self._ctx, write, told)
        if new and kept.texts != "keep" and (told.input or told.output):
            self.report.add_reason(row.table, TEXTS_DROPPED_REASON)
        return kept.id if new else None

    def _shorten(self, row: Row, name: str, most: int = MAX_PART_BYTES) -> str | None:
        """Return a text, cut to its first part if it is too long; a cut is reported."""
        text = row.optional_text(name)
        first = next(split_text(text, most), None) if text else None
        if text and first and first.text != text:
            self.report.add_problem(row.where, f"{name}: too long, only its first part is stored", rejected=False)
        return first.text if first else None


_STATES: dict[str, State] = {
    "pending": "pending",
    "claimed": "pending",
    "delivered": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""Task states here; a claimed task becomes pending, since its claimant does not run here."""


def _with_phases(run: Run, phases: list[Phase], now: int) -> Run:
    """Set a run's state from its phases: completed, failed or running."""
    states = {phase.state for phase in phases}
    state: RunState = "failed" if "failed" in states else "completed" if states == {"completed"} else "running"
    error = next((phase.error for phase in phases if phase.error), None)
    return replace(run, state=state, error=error, updated_at=max(now, run.updated_at))
