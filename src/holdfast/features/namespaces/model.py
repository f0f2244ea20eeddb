"""Namespace policies (limits, approvals, secrets) and standards (the memory that states how a namespace works)."""

from types import NoneType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.storage.port import Row

MAX_DEPTH = 32
"""The upper limit of max_reflection_depth."""


TextsRule = Literal["keep", "hash", "omit"]
SecretsRule = Literal["allow", "flag", "redact", "refuse"]


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The effective rules of a namespace after inheritance; defaults apply where nothing is set."""

    max_reflection_depth: Annotated[int, Meta(ge=0, le=MAX_DEPTH)] = 3
    require_approval_above_depth: Annotated[int, Meta(ge=0, le=MAX_DEPTH)] | None = field(default_factory=NoneType)
    """None: no depth requires it; null in answers."""
    self_approval: bool = False
    """Whether requesters may approve their own requests."""
    invalidation_hops: Annotated[int, Meta(ge=1, le=64)] = 16
    skill_promotion_min_depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH)] = 1
    secrets: SecretsRule = "flag"
    """How keys, tokens and passwords in stored text are handled."""
    interaction_text: TextsRule = "hash"
    """How the text of recorded interactions is stored."""


RULES: tuple[str, ...] = Rules.__struct_fields__


class Policy(Struct, frozen=True):
    """The rules set in one namespace; they apply to it and its descendants."""

    id: str
    """The namespace, or `*` for all."""
    rules: dict[str, Any]
    """Only the rules set here."""
    agent: str
    """Who created the policy."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class Standard(Struct, frozen=True):
    """The memory that states how a namespace works."""

    id: str
    """The namespace, or `*` for all."""
    memory: str
    parent: str | None
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def load_policy(row: Row) -> Policy:
    """Load a policy from a table row."""
    return Policy(row[0], msgspec.json.decode(row[1]), *row[2:])


STANDARD = register_kind(
    Kind(
        "standard",
        Standard,
        MergeSchema(conflict_fields=("memory", "parent", "state")),
        lambda standard: standard.memory,
        lambda row: Standard(*row),
        references=lambda standard: (("memory", standard.memory),),
    )
)
POLICY = register_kind(
    Kind(
        "policy",
        Policy,
        MergeSchema(conflict_fields=("state",), map_fields=("rules",)),
        lambda policy: None,
        load_policy,
    )
)


def validate_rules(given: dict[str, Any], place: str = "rules") -> dict[str, Any]:
    """Validate rule names and values; rules that are None are left out."""
    rules = {name: value for name, value in given.items() if value is not None}
    try:
        msgspec.convert(rules, Rules)
    except msgspec.ValidationError as error:
        raise Invalid(f"{place}: {error}", fields=[place]) from None
    return rules
