"""Namespace policies (limits, approvals, secrets) and standards (the memory that states how a namespace works)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records.field_versions import Shape
from holdfast.kernel.storage.port import Row

DEEPEST = 32
"""No policy allows a reflection to stand higher."""


TextsRule = Literal["keep", "hash", "omit"]
SecretsRule = Literal["allow", "flag", "redact", "refuse"]


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds in a namespace once everything above it is counted in; the defaults are for where nobody decided."""

    max_reflection_depth: Annotated[int, Meta(ge=0, le=DEEPEST)] = 3
    require_approval_above_depth: Annotated[int, Meta(ge=0, le=DEEPEST)] | None = None
    self_approval: bool = False
    """Whether who asked for something may allow it, too."""
    invalidation_hops: Annotated[int, Meta(ge=1, le=64)] = 16
    skill_promotion_min_depth: Annotated[int, Meta(ge=1, le=DEEPEST)] = 1
    secrets: SecretsRule = "flag"
    """What becomes of keys, tokens and passwords in what is to be kept."""
    interaction_text: TextsRule = "hash"
    """What becomes of the words of an interaction that is recorded."""


RULES: tuple[str, ...] = Rules.__struct_fields__


class Policy(Struct, frozen=True):
    """What one namespace decides for itself and for what lies below it."""

    id: str
    """The namespace, or `*` for all of them."""
    rules: dict[str, Any]
    """Only what was decided here."""
    agent: str
    """Who decided first."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class Standard(Struct, frozen=True):
    """The memory that states how a namespace works."""

    id: str
    """The namespace, or `*` for all of them."""
    memory: str
    parent: str | None
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def policy_of(row: Row) -> Policy:
    """A policy from the columns of its table."""
    return Policy(row[0], msgspec.json.decode(row[1]), *row[2:])


STANDARD = register(
    Kind(
        "standard",
        Standard,
        Shape(registers=("memory", "parent", "state")),
        lambda standard: standard.memory,
        lambda row: Standard(*row),
        ends=lambda standard: (("memory", standard.memory),),
    )
)
POLICY = register(Kind("policy", Policy, Shape(registers=("state",), maps=("rules",)), lambda policy: None, policy_of))


def admit_rules(given: dict[str, Any], field: str = "rules") -> dict[str, Any]:
    """Rules that can be kept: known by name and within their limits. A rule that is not decided is left out."""
    told = {name: value for name, value in given.items() if value is not None}
    try:
        msgspec.convert(told, Rules)
    except msgspec.ValidationError as error:
        raise Invalid(f"{field}: {error}", fields=[field]) from None
    return told


def together(decided: list[dict[str, Any]]) -> Rules:
    """What several namespaces decide, the most general first: the nearest one that says something about it counts."""
    return Rules(**{name: value for rules in decided for name, value in rules.items() if name in RULES})
