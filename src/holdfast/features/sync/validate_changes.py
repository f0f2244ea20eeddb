"""Validate what other stores send before it is merged: signatures, content, records and field values.

Every written value must have the type of its field, even if it loses: lost values can be shown, searched and chosen
later.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Struct

from holdfast.features.namespaces.model import RULES, Policy, Rules
from holdfast.features.skills import files as skill_files
from holdfast.features.skills.model import Skill, SkillVersion, is_manifest, skill_id, version_id
from holdfast.features.sync.record_snapshots import RecordSnapshot, decode_fields
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal.journal import is_valid_signature
from holdfast.kernel.journal.kinds import Kind, can_be_purged
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.change import MAX_NAME_CHARS, MAX_NUMBER, Change, check_stamps, signed_bytes
from holdfast.kernel.records.field_versions import PURGED, MergeSchema
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import AWAITED, FieldState
from holdfast.kernel.records.validate import foreign_json

Reason = Literal[
    "future", "waits", "unknown_kind", "invalid", "forged", "unsigned", "forked", "scope", "governance", "dropped"
]
WRONG_RECORD = "Its content belongs to a different record."
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError)
"""Errors of decoding malformed input."""
MAX_TEXT_BYTES = 2048
"""Limit for indexed text."""
_IDS = (
    "id",
    "agent",
    "origin",
    "source",
    "target",
    "memory",
    "entity",
    "dependent",
    "invalidated",
    "invalidating",
    "granted_by",
    "resolver",
    "skill",
    "current",
    "digest",
)
_INDEXED = ("name", "folded", "stands_for", "parent")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


class Refusal(Exception):
    """A change is rejected, for now or for good."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def require_signature(change: Change, keys: Mapping[str, bytes]) -> None:
    """Raise Refusal unless a change is signed by the known key of its author."""
    key = keys.get(change.origin)
    if key is None:
        raise Refusal("unsigned", f"No public key is known for {change.origin}.")
    if not is_signed(key, change):
        raise Refusal("forged", "Its signature does not match its author's key: it was forged or altered.")


def is_signed(key: bytes, change: Change) -> bool:
    """Whether a change has a valid signature of its author's key."""
    if not _SIGNATURE.fullmatch(change.signature):
        return False
    return is_valid_signature(key, bytes.fromhex(change.signature), signed_bytes(change))


def read_change(kind: Kind[Any], change: Change) -> tuple[Any, dict[str, FieldState]]:
    """Return the record that a change creates, if any, and the fields it writes; raise Refusal if they are invalid."""
    if change.erased is not None:
        return None, {}
    try:
        created, written = _decode_change(kind, change)
    except HoldfastError as error:
        raise Refusal("invalid", error.message) from None
    except DECODE_ERRORS as error:
        raise Refusal("invalid", f"It cannot be read: {error}") from None
    if created is not None and (created.id != change.record or kind.about(created) != change.about):
        raise Refusal("invalid", WRONG_RECORD)
    if (change.op == "purge") != (field_versions.PURGED in written):
        raise Refusal("invalid", "A purge must contain its tombstone, and no other change may.")
    _must_leave_record(kind, change.record, change.about, written)
    return created, written


def _decode_change(kind: Kind[Any], change: Change) -> tuple[Any, dict[str, FieldState]]:
    if change.body is None:
        written = field_versions.decode_states((change.delta or "").encode())
        check_stamps(change, written)
        _check_types(kind.type, kind.merge_schema, written)
        return None, written
    raw = _decode_body(kind, change.body)
    register_type(kind.type)
    record = msgspec.convert(raw, kind.type)
    unknown = {name: value for name, value in raw.items() if name not in record.__struct_fields__}
    _check_unknown_names(kind.merge_schema, unknown.keys())
    return record, field_versions.create_states(kind.merge_schema, record, change.stamp, unknown)


def read_snapshot_record(kind: Kind[Any], state: RecordSnapshot) -> tuple[Any, dict[str, FieldState]]:
    """Return the record of a snapshot and its field versions; raise Refusal if they are invalid."""
    try:
        written = decode_fields(state)
        _check_types(kind.type, kind.merge_schema, written)
        raw = _decode_body(kind, state.body)
        register_type(kind.type)
        values = field_versions.visible_values(kind.merge_schema, {name: [cell] for name, cell in written.items()})
        record = field_versions.rebuild_record(kind.merge_schema, msgspec.convert(raw, kind.type), values)
    except HoldfastError as error:
        raise Refusal("invalid", error.message) from None
    except DECODE_ERRORS as error:
        raise Refusal("invalid", f"It cannot be read: {error}") from None
    if record.id != state.record or kind.about(record) != state.about:
        raise Refusal("invalid", WRONG_RECORD)
    _must_leave_record(kind, state.record, state.about, written)
    return record, written


def _decode_body(kind: Kind[Any], body: str) -> dict[str, Any]:
    """Decode the fields of a record and validate each as storable JSON."""
    raw = msgspec.json.decode(body, type=dict[str, Any])
    for name, value in raw.items():
        if name not in kind.type.__struct_fields__:
            foreign_json("field", name)
        foreign_json(name, value)
    return raw


def _must_leave_record(kind: Kind[Any], record: str, about: str | None, written: Mapping[str, FieldState]) -> None:
    """Raise Refusal if the tombstone in a purge belongs to another record."""
    purges = written[field_versions.PURGED].values.values() if field_versions.PURGED in written else ()
    for remainder in [msgspec.convert(value, kind.type) for value in purges if value is not AWAITED]:
        if remainder.id != record or kind.about(remainder) != about:
            raise Refusal("invalid", WRONG_RECORD)


def require_storable(record: Struct) -> None:
    """Raise Refusal unless every store can hold the record."""
    try:
        _check_record(record)
    except HoldfastError as error:
        raise Refusal("invalid", error.message) from None


def _check_types(kind: type[Struct], shape: MergeSchema, written: Mapping[str, FieldState]) -> None:
    """Raise Invalid unless every written value has the type of its field; unknown fields may hold any JSON."""
    for name, cell in written.items():
        foreign_json("field", name)
        expected = _type_of(kind, shape, name)
        for value in cell.values.values():
            if value is not AWAITED:
                foreign_json(name, value)
                _must_have_type(name, value, expected)
    if PURGED in written and not can_be_purged(kind):
        raise Invalid(f"A {kind.__name__.lower()} cannot be purged.")


def _check_unknown_names(shape: MergeSchema, names: Iterable[str]) -> None:
    """Raise Invalid if an unknown field has the name of a merge state field of this release."""
    for name in names:
        if name == PURGED or (":" in name and name.split(":", 1)[0] in (*shape.set_fields, *shape.map_fields)):
            raise Invalid(f"{name}: not a valid field name")


def _check_record(record: Struct) -> None:
    """Raise Invalid if the id of a record is wrong, or a number or name exceeds what every store can hold."""
    _must_be_in_range(type(record).__name__, record)
    for name in _IDS:
        if len(getattr(record, name, None) or "") > MAX_NAME_CHARS:
            raise Invalid(f"{name}: at most {MAX_NAME_CHARS} characters", fields=[name])
    for name in _INDEXED:
        if len((getattr(record, name, None) or "").encode()) > MAX_TEXT_BYTES:
            raise Invalid(f"{name}: at most {MAX_TEXT_BYTES} bytes", fields=[name])
    match record:
        case Memory() if not isinstance(record.extra.get(IMPORTED_FROM, ""), str):
            raise Invalid(f"extra: {IMPORTED_FROM} must be an agent name", fields=["extra"])
        case Policy():
            for rule in RULES:
                _must_have_type(rule, record.rules.get(rule), _hints(Rules)[rule] | None)
        case Skill():
            _must_be_id(record.id, skill_id(record.namespace, record.name))
        case SkillVersion():
            _must_be_id(record.id, version_id(record.digest))
            if record.state == "live":
                _must_be_skill_files(record)


def _must_be_id(id: str, expected: str) -> None:
    if id != expected:
        raise Invalid("id: does not match the content of the record", fields=["id"])


def _must_be_skill_files(version: SkillVersion) -> None:
    together = 0
    for number, file in enumerate(version.files, 1):
        if file.size < 0:
            raise Invalid("files: a size must be at least 0", fields=["files"])
        together += file.size
        skill_files.validate_path(file.path)
        skill_files.check_limits(file.path, file.size, number, together)
    skill_files.reject_collisions(file.path for file in version.files)
    manifests = [file for file in version.files if file.kind == "manifest"]
    if len(manifests) != 1 or not is_manifest(manifests[0].path):
        raise Invalid("files: a skill needs exactly one manifest", fields=["files"])


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _type_of(kind: type[Struct], shape: MergeSchema, name: str) -> Any:
    """Return the type of the values of a field."""
    if name == PURGED:
        return kind
    if name in (*shape.conflict_fields, *shape.lww_fields, *shape.max_fields):
        return _hints(kind)[name]
    field, _, key = name.partition(":")
    if field in shape.set_fields:
        return bool
    if name in shape.local_keys:
        raise Invalid(f"{name}: is not replicated", fields=[field])
    if field in shape.map_fields:
        expected = _hints(Rules).get(key, Any) if kind is Policy else get_args(_hints(kind)[field])[1]
        return expected | None
    if name in kind.__struct_fields__:
        raise Invalid(f"{name}: cannot be changed", fields=[name])
    return Any


def _must_have_type(name: str, value: Any, expected: Any) -> None:
    if expected is Any:
        return
    register_type(expected)
    try:
        converted = msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {error}", fields=[name]) from None
    _must_be_in_range(name, converted)


def _must_be_in_range(name: str, value: Any) -> None:
    """Raise Invalid unless the numbers of a field fit into a column; nested objects are stored as JSON."""
    if isinstance(value, int):
        if abs(value) > MAX_NUMBER:
            raise Invalid(f"{name}: number out of range", fields=[name])
    elif isinstance(value, Struct):
        for field in value.__struct_fields__:
            _must_be_in_range(field, getattr(value, field))
    elif isinstance(value, tuple):
        for item in value:
            _must_be_in_range(name, item)
