"""Principals: people and agents, and the aliases that stand for them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.validate import label
from holdfast.kernel.timestamps import derive_id

MAX_NAME = 128
MAX_HOPS = 32


class Principal(Struct, frozen=True):
    """A name. `stands_for` is the name it is an alias of; None if it is the principal itself."""

    id: str
    name: str
    stands_for: str | None
    display: str
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def erase_name(principal: Principal) -> Principal:
    """Return the principal without its name."""
    return replace(principal, name="", stands_for=None, display="", state="deleted")


PRINCIPAL = register_kind(
    Kind(
        "principal",
        Principal,
        MergeSchema(conflict_fields=("stands_for", "state"), lww_fields=("name", "display"), reviving_fields=("name",)),
        lambda principal: None,
        lambda row: Principal(*row),
        erase_name,
    )
)


def principal_id(name: str) -> str:
    """Derive the id from the name: equal on every store, and does not contain the name."""
    return derive_id("principal", name)


def validate_name(name: str, field: str = "principal") -> str:
    return label(field, name, MAX_NAME)


def canonical_name(chain: list[str]) -> str:
    """Return the principal at the end of an alias chain.

    Merges on two stores can form a cycle; then it is the smallest name of the cycle, wherever the chain begins.
    """
    last = chain[-1]
    return min(chain[chain.index(last) :]) if chain.index(last) < len(chain) - 1 else last


def alias_chain(name: str, stands_for: Mapping[str, str]) -> list[str]:
    """Follow aliases from a name to the last one, or to the first repeated one."""
    chain = [name]
    while (following := stands_for.get(chain[-1])) is not None and len(chain) <= MAX_HOPS:
        is_repeated = following in chain
        chain.append(following)
        if is_repeated:
            break
    return chain
