"""Import a kernex store: each table becomes the matching records here; rows that cannot are reported."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from msgspec.structs import replace

from holdfast.features.access import interactions
from holdfast.features.access.interaction import LONGEST_REASON, Decision
from holdfast.features.access.interactions import Told
from holdfast.features.conversations import store as conversations
from holdfast.features.conversations.service import IDLE
from holdfast.features.conversations.store import Conversation, Scope
from holdfast.features.importers import store as mined
from holdfast.features.importers.model import MOST_PART, Problem, digest, parts
from holdfast.features.importers.store import Mined
from holdfast.features.learning import store as outcomes
from holdfast.features.learning.lesson import Evidence, Score, title_of
from holdfast.features.learning.observations import text_of
from holdfast.features.learning.store import Outcome
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store_memory import put, title_holder
from holdfast.features.people import facts
from holdfast.features.people import service as principals
from holdfast.features.people.person_namespace import place_of
from holdfast.features.people.principal import admit_name
from holdfast.features.people.store import known_as
from holdfast.features.runs import store as runs
from holdfast.features.runs.phases import Phase, PhaseState, Run, RunState, Shape
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.model import Run as TaskRun
from holdfast.features.tasks.model import State, Status, Task
from holdfast.features.tasks.schedule import WORDS, due, schedule
from holdfast.features.usage import store as usage
from holdfast.features.usage.store import Use
from holdfast.integrations.kernex.rows import Row, is_own, must_be_kernex, place_under
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, HoldfastError, Invalid, StoreError, TitleTaken
from holdfast.kernel.journal.dry_run import rehearsed
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Category, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.records.validate import namespace as admit_namespace
from holdfast.kernel.storage.read_only_sqlite import ForeignFile, reading
from holdfast.kernel.timestamps import DAY, to_text

BATCH = 200
"""Rows per transaction."""
MOST_PROBLEMS = 200
SYSTEM = "__system__"
"""Sender under which kernex stores its own state as facts."""
GONE = "deleted in kernex"
"""Reason of an archived memory."""
WORDS_NOT_KEPT = "stored without its text, because of the namespace's policy interaction_text"
NO_STATE = "internal state of kernex"

Result = Literal["stored", "unchanged", "left", "left_out", "rejected"]
"""New; already imported; changed since and kept as it is here; omitted on purpose; or rejected with a reason."""
Keep = Callable[[Transaction, Row], str | None]
"""Store a row and return its new id; None if it already exists here."""


class Options(NamedTuple):
    namespace: str
    dry_run: bool = False


class Left(Exception):
    """Skip a valid row."""

    def __init__(self, why: str, result: Result = "left") -> None:
        super().__init__(why)
        self.why = why
        self.result = result


class Report:
    """Row counts for every table."""

    def __init__(self) -> None:
        self.tables: dict[str, Counter[Result]] = {}
        self.reasons: dict[str, Counter[str]] = {}
        """Number of rows not imported, or only in part, by table and reason."""
        self.problems: list[Problem] = []
        self.rejected = 0
        self.noted = 0

    def done(self, table: str, result: Result, number: int = 1) -> None:
        self.tables.setdefault(table, Counter())[result] += number

    def told(self, table: str, why: str, number: int = 1) -> None:
        self.reasons.setdefault(table, Counter())[why] += number

    def problem(self, where: str, what: str, *, rejected: bool) -> None:
        self.rejected += rejected
        self.noted += not rejected
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(where=where, what=what, rejected=rejected))


def take(hold: Hold, path: Path, options: Options) -> Report:
    """Import a file; a repeated import adds only what is new. A dry run is rolled back."""
    hold.caller.must_reach(options.namespace)
    with reading(path) as file:
        must_be_kernex(file, path.name)
        if not options.dry_run:
            return Taking(hold, file, options).all()
        with rehearsed(hold) as tried:
            return Taking(tried, file, options).all()


class Taking:
    """The import of one file."""

    def __init__(self, hold: Hold, file: ForeignFile, options: Options) -> None:
        self.report = Report()
        self._hold = hold
        self._file = file
        self._options = options
        self._places: dict[int, int] = {}
        """First place of each message in its conversation, by row number."""
        self._said: Counter[str] = Counter()
        """Number of turns per conversation."""
        self._of: dict[str, Row] = {}
        self._phases: dict[str, list[str]] = {}
        """Phases of each run, in start order."""
        self._tasks: set[str] = set()
        self._ran: set[tuple[str, int]] = set()

    def all(self) -> Report:
        self._order_messages()
        self._order_phases()
        each: dict[str, Keep] = {
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
            "audit_log": self._audited,
        }
        for table, keep in each.items():
            if table in self._file.tables:
                self._table(table, keep)
        self._tell_of_others(set(each))
        return self.report

    def _tell_of_others(self, known: set[str]) -> None:
        for table in sorted(set(self._file.tables) - known):
            number = 0 if is_own(table, self._file.tables) else sum(1 for _ in self._file.rows(table))
            if number:
                self.report.done(table, "left_out", number)
                self.report.told(table, "not a kernex table", number)

    def _rows(self, table: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
        for number, values in self._file.rows(table):
            self._hold.progress.check()
            yield number, values

    def _table(self, table: str, keep: Keep) -> None:
        rows = self._rows(table)
        while batch := list(islice(rows, BATCH)):
            self._batch(table, batch, keep)

    def _batch(self, table: str, batch: list[tuple[int, dict[str, Any] | None]], keep: Keep) -> None:
        """Import some rows in one transaction; an invalid row does not affect the others."""
        given = [Row(table, number, values) for number, values in batch if values is not None]
        for number, values in batch:
            if values is None:
                self._reject(table, f"{table} row {number}", "not UTF-8")
        with self._hold.writing() as write:
            known = mined.known(write.session, [self._key(row) for row in given])
            noted: list[Mined] = []
            for row in given:
                self._one(write, row, known.get(self._key(row)), noted, keep)
            mined.put(write.session, noted)

    def _one(self, write: Transaction, row: Row, known: Mined | None, noted: list[Mined], keep: Keep) -> None:
        try:
            if known is not None and (known.digest == row.digest or row.table != "conversations"):
                self._again(row, known)
                return
            became = keep(write, row)
        except StoreError:
            raise
        except Left as left:
            self.report.done(row.table, left.result)
            self.report.told(row.table, left.why)
            if left.result == "left":
                noted.append(Mined(self._key(row), "", "mine", None, row.digest, ""))
        except TitleTaken as error:
            self.report.done(row.table, "left")
            self.report.problem(row.where, error.message, rejected=False)
        except HoldfastError as error:
            self._reject(row.table, row.where, error.message)
        else:
            new = became is not None and known is None
            self.report.done(row.table, "stored" if new else "unchanged")
            noted.append(Mined(self._key(row), became or "", "mine", None, row.digest, ""))

    def _again(self, row: Row, known: Mined) -> None:
        """Count a row that was imported before; later changes in kernex are not applied."""
        if row.table == "scheduled_tasks":
            self._tasks.add(known.memory)
        if row.table == "conversations":
            self._of[row.text("id")] = row
        if known.digest == row.digest:
            self.report.done(row.table, "unchanged")
        else:
            self.report.done(row.table, "left")
            self.report.told(row.table, "changed in kernex since its import; not changed here")

    def _reject(self, table: str, where: str, why: str) -> None:
        self.report.done(table, "rejected")
        self.report.told(table, why)
        self.report.problem(where, why, rejected=True)

    def _key(self, row: Row) -> str:
        """Return the key that identifies a row; serial numbers are not unique across files, so the digest is used."""
        own = row.values.get("id") or row.values.get("alias_sender_id")
        named = row.digest if isinstance(own, int) else str(own)
        return digest("kernex", self._options.namespace, row.table, named)

    def _id(self, row: Row) -> str:
        return ids.derived("kernex", self._key(row))

    def _in(self, row: Row) -> str:
        return admit_namespace(place_under(self._options.namespace, row.text("project", "")), "project")

    def _alias(self, write: Transaction, row: Row) -> str | None:
        alias = admit_name(row.text("alias_sender_id"), "alias_sender_id")
        whose = admit_name(row.text("canonical_sender_id"), "canonical_sender_id")
        return principals.merge_in(write, alias, whose).principal

    def _order_messages(self) -> None:
        """Number the messages of every conversation by time, then by row order."""
        spoken: dict[str, list[tuple[str, int, int]]] = {}
        for number, values in self._rows("messages"):
            content = (values or {}).get("content")
            if values is not None and isinstance(content, str):
                many = sum(1 for _ in parts(content)) or 1
                at = str(values.get("timestamp"))
                spoken.setdefault(str(values["conversation_id"]), []).append((at, number, many))
        for conversation, said in spoken.items():
            for _, number, many in sorted(said):
                self._places[number] = self._said[conversation] + 1
                self._said[conversation] += many

    def _order_phases(self) -> None:
        begun: dict[str, list[tuple[str, int, str]]] = {}
        for number, values in self._rows("phase_checkpoints") if "phase_checkpoints" in self._file.tables else ():
            if values is not None and values["status"] in get_args(PhaseState):
                named = (str(values["created_at"]), number, str(values["phase_name"]))
                begun.setdefault(str(values["run_id"]), []).append(named)
        self._phases = {run: [name for _, _, name in sorted(phases)] for run, phases in begun.items()}

    def _conversation(self, write: Transaction, row: Row) -> str | None:
        fresh = self._begun(row)
        self._of[fresh.id] = row
        here = write.session.row("conversation_get", id=fresh.id)
        if here is None:
            conversations.put(write.session, self._standing(write, row, fresh))
            return fresh.id
        there = conversations.of_row(here)
        turns, last = max(fresh.turns, there.turns), max(fresh.last_at, there.last_at)
        conversations.put(write.session, there._replace(turns=turns, last_at=last))
        return None

    def _begun(self, row: Row) -> Conversation:
        return Conversation(
            id=row.label("id"),
            channel=row.label("channel", ""),
            principal=row.sender,
            agent=self._hold.caller.agent,
            namespace=self._in(row),
            state="closing",
            started_at=row.moment("started_at"),
            last_at=row.maybe_moment("last_activity") or row.moment("updated_at"),
            closed_at=row.moment("updated_at"),
            turns=self._said[row.text("id")],
            covered=0,
            summary=None,
            pruned=False,
        )

    def _standing(self, write: Transaction, row: Row, fresh: Conversation) -> Conversation:
        """Set the state: active, closed, or closing, which `conversation reap` summarises later."""
        summary = row.maybe("summary")
        if summary is not None and summary.strip():
            stored = self._summary(write, fresh, summary)
            return fresh._replace(state="closed", covered=fresh.turns, summary=stored.id)
        if not fresh.turns:
            return fresh._replace(state="closed")
        scope = Scope(fresh.channel, fresh.principal, fresh.namespace)
        goes_on = row.text("status", "active") == "active" and fresh.last_at > write.now - IDLE
        alone = goes_on and not conversations.going_on(write.session, scope)
        return fresh._replace(state="active" if alone else "closing", closed_at=None)

    def _summary(self, write: Transaction, one: Conversation, text: str) -> Memory:
        metadata = {"conversation": one.id, "covered": one.turns, "principal": one.principal, "channel": one.channel}
        title = f"Summary of {one.channel or 'conversation'} {one.id}"
        return self._put(write, title, text, one.namespace, kind="summary", metadata={**metadata, "method": "given"})

    def _message(self, write: Transaction, row: Row) -> str | None:
        conversation = self._of.get(row.text("conversation_id"))
        if conversation is None:
            raise Invalid("conversation_id: the conversation was not imported")
        channel, sender = conversation.text("channel"), conversation.text("sender_id")
        at, role = row.moment("timestamp"), row.one_of("role", ("user", "assistant"))
        about = {"principal": sender, "channel": channel, "kernex": row.remains("conversation_id", "role", "content")}
        pieces = list(parts(row.text("content")))
        if not pieces:
            raise Invalid("content: must not be empty")
        kept = [
            self._put(
                write,
                f"{channel or 'conversation'} {conversation.text('id')} turn {place}",
                piece.text,
                self._in(conversation),
                on_conflict="error",
                kind="conversation",
                speaker=role,
                thread=conversation.text("id"),
                place=place,
                occurred_at=at,
                metadata=about,
            )
            for place, piece in enumerate(pieces, self._places[row.number])
        ]
        return kept[0].id

    def _put(
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
        return put(self._hold, write, draft, on_conflict, force=True).memory

    def _fact(self, write: Transaction, row: Row) -> str | None:
        """Import a fact about a person. A different, later value here is kept."""
        sender, key, value = row.sender, row.text("key"), row.text("value")
        if sender == SYSTEM:
            raise Left(NO_STATE, "left_out")
        key, value = door.title(key, "key"), door.content(value, "value")
        told, gone = row.moment("updated_at"), row.maybe_moment("deleted_at")
        names = known_as(write.session, sender)
        held = [memory for name in names if (memory := title_holder(write, place_of(name), key)) is not None]
        if any(memory.content == value and gone is None for memory in held):
            return None
        if any(gone is not None or memory.updated_at > told for memory in held):
            raise Left("a later value exists here")
        learned = row.maybe("source_message_id")
        about = {"kernex": row.remains("sender_id", "key", "value"), **({"learned_from": learned} if learned else {})}
        if held:
            given = facts.Given(sender, key, value)
            return facts.tell_in(self._hold, write, given).memory.id
        memory = self._put(
            write,
            key,
            value,
            place_of(names[0]),
            kind="fact",
            occurred_at=told,
            metadata={"principal": names[0], **about},
        )
        return self._if_gone(write, memory, gone, facts.DELETED)

    def _if_gone(self, write: Transaction, memory: Memory, gone: int | None, why: str) -> str:
        """Archive a memory that was deleted in kernex; it can be restored."""
        return memory.id if gone is None else put_away(write, memory, why, "archive").id

    def _observation(self, write: Transaction, row: Row) -> str | None:
        columns = {"what": "what", "why": "why", "where": "where_field", "learned": "learned"}
        said = {name: text for name, column in columns.items() if (text := row.maybe(column))}
        memory = self._put(
            write,
            row.text("title"),
            text_of(row.text("title"), said),
            self._options.namespace,
            kind="observation",
            category=cast(Category, row.text("type")),
            occurred_at=row.moment("created_at"),
            metadata={**said, "principal": row.text("sender_id"), "kernex": row.remains(*columns.values(), "title")},
        )
        return self._if_gone(write, memory, row.maybe_moment("deleted_at"), GONE)

    def _outcome(self, write: Transaction, row: Row) -> str | None:
        score = row.number_of("score")
        if score not in (-1, 0, 1):
            raise Invalid("score: must be -1, 0 or 1")
        one = Outcome(
            id=self._id(row),
            at=row.moment("timestamp"),
            principal=row.sender,
            agent=self._hold.caller.agent,
            namespace=self._in(row),
            domain=row.label("domain"),
            score=cast(Score, score),
            what=row.text("lesson"),
            source=row.text("source", "conversation"),
            lesson=None,
        )
        outcomes.add(write.session, one)
        return one.id

    def _lesson(self, write: Transaction, row: Row) -> str | None:
        domain, rule, times = row.label("domain"), row.text("rule"), max(1, row.number_of("occurrences", 1))
        evidence = Evidence(positive=times)
        about = {"principal": row.sender, "domain": domain, "occurrences": times}
        memory = self._put(
            write,
            title_of(domain, rule),
            rule,
            self._in(row),
            kind="lesson",
            confidence=evidence.confidence,
            occurred_at=row.moment("updated_at"),
            metadata={**about, **evidence._asdict(), "kernex": row.remains("rule", "domain", "sender_id", "project")},
        )
        return memory.id

    def _limitation(self, write: Transaction, row: Row) -> str | None:
        title, solved, made = row.text("title"), row.maybe_moment("resolved_at"), row.moment("created_at")
        said = row.text("description").strip() or title
        about = {"plan": row.text("proposed_plan", ""), "status": row.one_of("status", ("open", "resolved"), "open")}
        if solved is not None:
            about["resolved_at"] = to_text(solved)
        memory = self._put(
            write,
            title,
            said,
            self._options.namespace,
            on_conflict="error",
            kind="limitation",
            occurred_at=made,
            metadata={
                **about,
                "evidence": [{"at": to_text(made), "agent_id": self._hold.caller.agent, "said": said[:2000]}],
                "kernex": row.remains("title", "description", "proposed_plan"),
            },
        )
        return memory.id

    def _task(self, write: Transaction, row: Row) -> str | None:
        at, state = due(row.text("due_at"), "UTC"), _STATES[row.one_of("status", _STATES, "pending")]
        repeat = self._repeat(row)
        schedule(repeat, "UTC", at)
        if not row.text("description").strip():
            raise Invalid("description: must not be empty")
        made = row.moment("created_at")
        task = Task(
            id=row.label("id"),
            principal=row.sender,
            agent=self._hold.caller.agent,
            namespace=self._in(row),
            channel=row.label("channel", ""),
            reply_to=row.text("reply_target", ""),
            title=row.text("description"),
            kind=row.text("task_type", "reminder"),
            handler="none",
            target="",
            payload={
                "kernex": row.remains("description", "channel", "reply_target", "project", "sender_id", "task_type")
            },
            zone="UTC",
            first_at=at,
            repeat=repeat,
            misfire="once",
            due_at=at,
            ready_at=at if state == "pending" else None,
            state=state,
            attempts=row.number_of("retry_count", 0),
            most_attempts=max(5, row.number_of("retry_count", 0) + 1),
            timeout=300,
            owner=None,
            token=0,
            claimed_at=None,
            cancel_asked=False,
            last_error=row.maybe("last_error"),
            unique_key=None,
            created_at=made,
            updated_at=row.maybe_moment("delivered_at") or made,
        )
        tasks.put(write.session, task)
        self._tasks.add(task.id)
        return task.id

    def _repeat(self, row: Row) -> str | None:
        """Return the repeat rule of a task; kernex treats an unknown word as daily."""
        repeat = row.maybe("repeat")
        if repeat in (None, "", "once"):
            return None
        if repeat not in WORDS:
            self.report.problem(
                row.where, f"repeat: {repeat!r} is unknown and imported as daily, as in kernex", rejected=False
            )
            return "daily"
        return repeat

    def _task_run(self, write: Transaction, row: Row) -> str | None:
        if (task := row.text("task_id")) not in self._tasks:
            raise Invalid("task_id: the task was not imported")
        started = row.moment("started_at")
        while (task, started) in self._ran:
            started += 1
        self._ran.add((task, started))
        status = cast(Status, row.one_of("status", ("completed", "failed")))
        run = TaskRun(
            id=self._id(row),
            task=task,
            due_at=started,
            attempt=1,
            owner="kernex",
            token=0,
            started_at=started,
            finished_at=row.moment("finished_at"),
            status=status,
            final=status == "completed",
            result=row.maybe("result"),
            error=row.maybe("error"),
            tokens=None if row.values.get("tokens_used") is None else row.number_of("tokens_used"),
        )
        tasks.add_run(write.session, run)
        return run.id

    def _session(self, write: Transaction, row: Row) -> str | None:
        scope = {"channel": row.label("channel", ""), "namespace": self._in(row)}
        sender, named = row.sender, row.label("session_id")
        eyes = {"admin": True, "agent": "", "mine": [], "now": write.now}
        names = list(known_as(write.session, sender))
        here = write.session.row("provider_session_get", principals=names, **scope, **eyes)
        if here is not None:
            if here[1] == named:
                return None
            raise Left("another session is active there")
        given = {"agent": self._hold.caller.agent, "provider": "kernex", "session": named, "expires_at": None}
        now = row.moment("updated_at")
        write.session.do("provider_session_put", principal=sender, now=now, **scope, **given)
        return named

    def _usage(self, write: Transaction, row: Row) -> str | None:
        """Import a model call. Without a breakdown all tokens count as input; the cost is kernex's."""
        kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
        counts = [row.number_of(name, 0) for name in kinds]
        if not any(counts):
            counts[0] = row.number_of("tokens", 0)
        if min(counts) < 0:
            raise Invalid("tokens: must not be negative")
        at, cost = row.moment("timestamp"), row.cost("cost_usd")
        use = Use(
            id=self._id(row),
            at=at,
            day=at // DAY,
            principal=row.sender,
            agent=self._hold.caller.agent,
            session=row.label("session_id", ""),
            model=row.label("model"),
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_read_tokens=counts[2],
            cache_write_tokens=counts[3],
            cost=cost or None,
            currency="USD" if cost else None,
        )
        usage.add(write.session, use)
        return use.id

    def _checkpoint(self, write: Transaction, row: Row) -> str | None:
        """Import a phase of a run; the first one creates the run, and the phases decide its state."""
        id, name, now = row.label("run_id"), row.label("phase_name"), row.moment("updated_at")
        status = cast(PhaseState, row.one_of("status", get_args(PhaseState), "pending"))
        run = runs.get(write.session, id) or self._run(row, id, now)
        if run.token:
            raise Conflict("run_id: the run has continued here")
        phase = Phase(
            name=name,
            place=self._phases[id].index(name),
            state=status,
            attempt=row.number_of("attempt", 0),
            output=row.maybe("output"),
            error=row.maybe("error_message") if status == "failed" else None,
            started_at=row.moment("created_at"),
            updated_at=now,
        )
        runs.put(write.session, _stands(run, [*runs.phases(write.session, id), phase], now))
        runs.put_phase(write.session, id, phase)
        return f"{id} {name}"

    def _run(self, row: Row, id: str, now: int) -> Run:
        return Run(
            id=id,
            principal=row.sender,
            agent=self._hold.caller.agent,
            namespace=self._in(row),
            topology=row.label("topology_name"),
            topology_hash=Shape(row.label("topology_name"), tuple(self._phases[id]), {}).hash,
            inputs={},
            state="running",
            owner=None,
            token=0,
            lease_until=None,
            error=None,
            created_at=row.moment("created_at"),
            updated_at=now,
        )

    def _audited(self, write: Transaction, row: Row) -> str | None:
        """Import an audit entry as an interaction, with the text that the namespace's policy allows."""
        told = Told(
            status=cast(Decision, row.one_of("status", get_args(Decision), "ok")),
            principal=row.sender,
            namespace=self._in(row),
            name=row.label("sender_name", ""),
            channel=row.label("channel", ""),
            reason=self._short(row, "denial_reason", LONGEST_REASON) or "",
            provider=row.label("provider_used", ""),
            model=row.label("model", ""),
            took_ms=None if row.values.get("processing_ms") is None else row.number_of("processing_ms"),
            at=row.moment("timestamp"),
            input=self._short(row, "input_text"),
            output=self._short(row, "output_text"),
            unique_key=self._key(row),
        )
        kept, new = interactions.record_in(self._hold, write, told)
        if new and kept.texts != "keep" and (told.input or told.output):
            self.report.told(row.table, WORDS_NOT_KEPT)
        return kept.id if new else None

    def _short(self, row: Row, name: str, most: int = MOST_PART) -> str | None:
        """Return a text, cut to its first part if it is too long; a cut is reported."""
        text = row.maybe(name)
        first = next(parts(text, most), None) if text else None
        if text and first and first.text != text:
            self.report.problem(row.where, f"{name}: too long, only its first part is stored", rejected=False)
        return first.text if first else None


_STATES: dict[str, State] = {
    "pending": "pending",
    "claimed": "pending",
    "delivered": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""Task states here; a claimed task becomes pending, since its claimant does not run here."""


def _stands(run: Run, phases: list[Phase], now: int) -> Run:
    """Set a run's state from its phases: completed, failed or running."""
    states = {phase.state for phase in phases}
    state: RunState = "failed" if "failed" in states else "completed" if states == {"completed"} else "running"
    error = next((phase.error for phase in phases if phase.error), None)
    return replace(run, state=state, error=error, updated_at=max(now, run.updated_at))
