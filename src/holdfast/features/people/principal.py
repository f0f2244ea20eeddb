"""People and agents by their names: which names stand for one and the same."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel import ids
from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records.field_versions import Shape
from holdfast.kernel.records.validate import label

LONGEST_NAME = 128
MOST_HOPS = 32


class Principal(Struct, frozen=True):
    """A name, and whose it is. `stands_for` is another name; None: it stands for itself."""

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
    """A principal without its name."""
    return replace(principal, name="", stands_for=None, display="", state="deleted")


PRINCIPAL = register(
    Kind(
        "principal",
        Principal,
        Shape(registers=("stands_for", "state"), quiet=("name", "display"), reviving=("name",)),
        lambda principal: None,
        lambda row: Principal(*row),
        erase_name,
    )
)


def id_of(name: str) -> str:
    """The same on every store, and not the name itself, which is a person's own."""
    return ids.derived("principal", name)


def admit_name(name: str, field: str = "principal") -> str:
    return label(field, name, LONGEST_NAME)


def canonical(chain: list[str]) -> str:
    """Whom a name stands for, by those that follow from it, itself first.

    Two stores that met may have made a circle; then it is the least of it, whichever name one begins with.
    """
    last = chain[-1]
    return min(chain[chain.index(last) :]) if chain.index(last) < len(chain) - 1 else last


def chain_of(name: str, stands_for: Mapping[str, str]) -> list[str]:
    """The names that follow from one, to the last or to the first that is there twice."""
    chain = [name]
    while (following := stands_for.get(chain[-1])) is not None and len(chain) <= MOST_HOPS:
        seen = following in chain
        chain.append(following)
        if seen:
            break
    return chain
