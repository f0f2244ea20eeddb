"""Secrets in stored text: allowed, flagged, redacted or refused, as the policy of the namespace says."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.memories.store_memory import TEXT_FIELDS, SecretsFound
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.kernel.context import Context
from holdfast.kernel.errors import SecretRefused
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import content_scan


def _searchable_value(name: str, value: Any) -> Any:
    """The part of a field that may contain a secret: of citations, the URI."""
    return [one.uri for one in value] if name == "citations" else value


def _redact_value(name: str, value: Any) -> Any:
    if name == "citations":
        return tuple(replace(one, uri=content_scan.redact_text(one.uri)[0]) for one in value)
    return content_scan.redact_value(value)


def list_secret_kinds(ctx: Context, memory: Memory) -> list[str]:
    """The kinds of secrets in a memory; empty if its namespace allows secrets."""
    given = {name: _searchable_value(name, getattr(memory, name)) for name in TEXT_FIELDS}
    kinds = dict.fromkeys(
        one.secret.kind for name, value in given.items() for one in content_scan.find_in_value(name, value)
    )
    if not kinds:
        return []
    with ctx.reading() as session:
        return [] if resolve_rules(session, memory.namespace).secrets == "allow" else list(kinds)


def apply_secret_policy(session: Session, namespace: str, given: dict[str, Any]) -> tuple[dict[str, Any], SecretsFound]:
    """Apply a namespace's secret policy to fields before they are written; return them with the secrets found."""
    validate.foreign_json("metadata", given.get("metadata"))  # rejects nesting that is too deep to walk
    found = [
        place
        for name, value in given.items()
        for place in content_scan.find_in_value(name, _searchable_value(name, value))
    ]
    if not found:
        return given, SecretsFound()
    rule = resolve_rules(session, namespace).secrets
    kinds = tuple(dict.fromkeys(one.secret.kind for one in found))
    match rule:
        case "refuse":
            raise SecretRefused(_format_refusal(found), secrets=[_describe_place(one) for one in found])
        case "redact":
            return {name: _redact_value(name, value) for name, value in given.items()}, SecretsFound(
                kinds, redacted=True
            )
        case "flag":
            return given, SecretsFound(kinds)
    return given, SecretsFound()


def _describe_place(one: content_scan.SecretLocation) -> dict[str, Any]:
    return {"field": one.field, "kind": one.secret.kind, "start": one.secret.start, "end": one.secret.end}


def _format_refusal(found: list[content_scan.SecretLocation]) -> str:
    first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"{first.field}: contains a secret ({first.secret.kind}) at character {first.secret.start}{more}. "
        "This namespace refuses secrets: remove it and reference where it is stored."
    )
