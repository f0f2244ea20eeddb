"""Import an envelope row by row, with the validation of every other write."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.features.transfer import import_memories, import_records, schema_v1
from holdfast.features.transfer.exporter import Row, make_extra_key
from holdfast.features.transfer.import_state import ImportState, Options, Outcome
from holdfast.features.transfer.local_table_rows import list_formats
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import canonical_json

PROGRESS_STEP = 100
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
    """Imports rows one by one, each by the function for its array."""

    def __init__(self, ctx: Context, write: Transaction | None, options: Options) -> None:
        self._state = ImportState(ctx, write, options)
        self._importers: dict[str, Callable[[ImportState, Any], Outcome]] = {
            "memories": partial(import_memories.import_memory, memory_state="live"),
            "archived": partial(import_memories.import_memory, memory_state="archived"),
            "agents": import_records.import_agent,
            "entities": import_records.import_entity,
            "links": import_records.import_link,
            "namespaces": import_records.import_namespace,
            "grants": import_records.import_grant,
            "notices": import_records.import_notice,
            "policies": import_records.import_policy,
            "principals": import_records.import_principal,
            "interactions": import_records.import_interaction,
            "invalidations": import_records.import_invalidation,
            "skill_versions": import_records.import_skill_version,
            "skills": import_records.import_skill,
            **{name: partial(import_records.import_local_row, format=one) for name, one in list_formats().items()},
        }

    @property
    def restamped(self) -> int:
        """Number of memories whose owner became the importer."""
        return self._state.restamped

    def use_transaction(self, write: Transaction) -> None:
        """Continue in another transaction."""
        self._state.use_transaction(write)

    def import_row(self, array: str, raw: Any) -> Outcome:
        """Import one row of an array. Raises before anything is written."""
        return self._importers[array](self._state, raw)

    def must_reach(self, namespace: str) -> None:
        """Raise unless the caller can write to a namespace. The error does not reveal its name to a peer."""
        self._state.must_reach(namespace)

    def read_memory(self, raw: Any) -> Memory:
        """Build the memory that importing a new row would store."""
        return import_memories.read_memory(self._state, raw)

    def try_row(self, report: ImportReport, name: str, index: int, raw: Any) -> None:
        """Import one row or unknown field. An error rejects only this row."""
        try:
            if name in self._importers:
                report.counts[name][self.import_row(name, raw)] += 1
            else:
                _keep_unknown(self._state, name, raw)
                report.kept_fields.append(name)
        except StoreError:
            raise
        except HoldfastError as error:
            report.rejected.append(RejectedRow(name, index, error))


def _keep_unknown(state: ImportState, name: str, value: Any) -> None:
    """Store an unknown envelope field. Lists are merged, other values are replaced."""
    state.must_reach_all(name)
    slot, value = (
        make_extra_key("", validate.foreign_name(name)),
        state.apply_secret_policy(EVERYWHERE, "row", validate.foreign_json(name, value)),
    )
    known = {row[0]: row[1] for row in state.write.session.rows("meta_list")}.get(slot)
    if known is not None and isinstance(value, list) and isinstance(had := msgspec.json.decode(known), list):
        texts = {canonical_json(item) for item in had}
        value = had + [item for item in value if canonical_json(item) not in texts]
    state.write.session.do("meta_put", name=slot, body=canonical_json(value).decode())
