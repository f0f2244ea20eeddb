"""Links: typed, directed, dated edges between memories."""

from typing import Literal, get_args

from msgspec import Struct

from holdfast.kernel.records.field_versions import MergeSchema

Relation = Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


class Link(Struct, frozen=True):
    """A typed, directed edge that holds from `valid_from` until it is invalidated."""

    id: str
    source: str
    target: str
    relation: Relation
    valid_from: int
    valid_until: int | None
    agent: str
    """The agent that observed it."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    signature: str | None = None
    state: Literal["live", "deleted"] = "live"


LINK_MERGE_SCHEMA = MergeSchema(conflict_fields=("valid_from", "valid_until", "state"), lww_fields=("signature",))
