"""Principals (people and agents), their namespaces, the interactions with them, and orders to erase a person."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.context import is_under
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records import validate
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.fields import PRIVATE, SPARSE, Agent, Named, Timestamp, computed
from holdfast.kernel.records.validate import label
from holdfast.kernel.storage.port import Row
from holdfast.kernel.timestamps import derive_id

MAX_NAME = 128
MAX_HOPS = 32


class Principal(Struct, frozen=True):
    """A name. `stands_for` is the name it is an alias of; None if it is the principal itself."""

    id: Annotated[str, PRIVATE]
    name: str
    stands_for: str | None
    display: str
    created_at: Annotated[int, PRIVATE]
    updated_at: Annotated[int, PRIVATE]
    origin: Annotated[str, PRIVATE]
    version: Annotated[int, PRIVATE]
    state: Annotated[Literal["live", "deleted"], PRIVATE] = "live"


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


# Namespaces of people: facts about a person are stored in `people/NAME`

PEOPLE_ROOT = "people"
ERASED_NAMESPACE = f"{PEOPLE_ROOT}/forgotten"
"""Namespace of the tombstones of erased people's memories."""

PRINCIPAL_KEY = "principal"
"""Metadata key that names the person a memory is about, in any namespace."""

PREFERRED_LANGUAGE = "preferred_language"
"""Fact: the language in which the person wants answers."""
BEHAVIOUR_FACTS = frozenset({PREFERRED_LANGUAGE, "welcomed", "active_project", "personality", "onboarding_stage"})
"""Facts about how to behave, not about the person."""
_PROFILE_ORDER = ("name", "preferred_name", "pronouns", "timezone", "location", "occupation")


def profile_rank(key: str) -> tuple[int, str]:
    """Sort key of a fact in a profile: name and pronouns, then place and occupation, then the rest by key."""
    return (_PROFILE_ORDER.index(key) if key in _PROFILE_ORDER else len(_PROFILE_ORDER), key)


def people_namespace(name: str) -> str:
    """Return the namespace of a person or agent; characters that namespaces do not allow become %XX."""
    return f"{PEOPLE_ROOT}/{quote(name, safe=':@+~!$&,;=()')}"


def name_from_namespace(namespace: str) -> str | None:
    """Return the person whose namespace this is, or None."""
    root, _, name = namespace.partition("/")
    return unquote(name) if root == PEOPLE_ROOT and name and "/" not in name else None


def find_people(namespace: str, metadata: Mapping[str, Any]) -> set[str]:
    """Return the people a memory is about, by its namespace and its metadata."""
    principal = metadata.get(PRINCIPAL_KEY)
    return {
        name for name in (name_from_namespace(namespace), principal if isinstance(principal, str) else None) if name
    }


# Interactions: audit records of requests to an agent and its decisions

Decision = Literal["ok", "error", "denied"]
Texts = Literal["keep", "hash", "omit"]
"""How the text of an interaction is stored: in full, as a digest, or not at all."""

MAX_REASON = 2048
MAX_LABEL = 256
LABELS = ("name", "channel", "action", "provider", "model", "conversation")


class Interaction(Struct, frozen=True):
    """One decision. Immutable, except that its text can be erased.

    Fields that were not given, or that the namespace policy omits, are missing in answers.
    """

    id: str
    namespace: str
    agent: Agent
    """The agent that decided and recorded it."""
    principal: Annotated[str, SPARSE]
    """The person who asked."""
    name: Annotated[str, SPARSE]
    """Their display name."""
    channel: Annotated[str, SPARSE]
    action: Annotated[str, SPARSE]
    """Requested action, such as a tool."""
    status: Decision
    reason: Annotated[str, SPARSE]
    """Reason of the denial or error."""
    provider: Annotated[str, SPARSE]
    model: Annotated[str, SPARSE]
    took_ms: Annotated[int | None, PRIVATE]
    """Duration in milliseconds."""
    conversation: Annotated[str, Named("conversation_id"), SPARSE]
    at: Timestamp
    texts: Texts
    """How the text is stored."""
    input: Annotated[str, SPARSE] | None
    output: Annotated[str, SPARSE] | None
    input_digest: Annotated[str, SPARSE] | None
    """SHA-256 of the id, a zero byte and the text: proves the text to whoever has it."""
    output_digest: Annotated[str, SPARSE] | None
    created_at: Annotated[int, PRIVATE]
    updated_at: Annotated[int, PRIVATE]
    origin: Annotated[str, PRIVATE]
    version: Annotated[int, PRIVATE]
    state: Annotated[Literal["live", "deleted"], PRIVATE] = "live"

    @computed
    def duration(self) -> Annotated[int, Named("took_ms")] | None:
        """Duration in milliseconds."""
        return self.took_ms

    @computed
    def erased(self) -> Literal[True] | None:
        """Whether text and person were erased."""
        return True if self.state == "deleted" else None


_ERASED_FIELDS = (
    "principal",
    "name",
    "channel",
    "action",
    "reason",
    "conversation",
    "input",
    "output",
    "input_digest",
    "output_digest",
)


def validate_interaction(given: Interaction) -> Interaction:
    """Validate an interaction from any source; an erased one needs no principal."""
    validate.namespace(given.namespace)
    if is_under(given.namespace, PEOPLE_ROOT):
        raise Invalid("namespace: namespaces of people are for facts. Use that of a project.", fields=["namespace"])
    for name in LABELS:
        if value := getattr(given, name):
            validate.label(name, value, MAX_LABEL)
    if given.state == "live":
        validate.label("principal", given.principal, MAX_NAME)
    if given.status not in get_args(Decision) or given.texts not in get_args(Texts):
        raise Invalid("status: must be ok, error or denied", fields=["status"])
    for name in ("input", "output", "reason"):
        if value := getattr(given, name):
            validate.content(value, name)
    if len(given.reason) > MAX_REASON:
        raise Invalid(f"reason: at most {MAX_REASON} characters", fields=["reason"])
    return given


def apply_text_policy(interaction: Interaction, texts: Texts) -> Interaction:
    """Return the interaction with its text as the policy stores it: kept, hashed or omitted."""
    if texts == "keep":
        return replace(interaction, texts=texts)
    digests = {}
    if texts == "hash":
        digests = {
            f"{name}_digest": compute_text_digest(interaction.id, value)
            for name in ("input", "output")
            if (value := getattr(interaction, name)) is not None
        }
    return replace(interaction, texts=texts, input=None, output=None, **digests)


def compute_text_digest(id: str, text: str) -> str:
    """Hash a text with the interaction id, so that whoever has the text can prove it; unique per interaction."""
    return sha256(f"{id}\x00{text}".encode()).hexdigest()


def erase_interaction(interaction: Interaction) -> Interaction:
    """Return the interaction without its person and text; agent, time and status remain."""
    erased_fields = dict.fromkeys(_ERASED_FIELDS, "") | dict.fromkeys(
        ("input", "output", "input_digest", "output_digest")
    )
    return replace(interaction, **erased_fields, texts="omit", state="deleted")


INTERACTION = register_kind(
    Kind(
        "interaction",
        Interaction,
        MergeSchema(conflict_fields=("state",), lww_fields=_ERASED_FIELDS),
        lambda interaction: None,
        lambda row: Interaction(*row),
        erase_interaction,
        undo_refusal="A recorded decision cannot be undone.",
    )
)


# Erasure orders: replicated requests to erase a person, by digest of a name and up to a time


class ErasureOrder(Struct, frozen=True):
    """An order to erase the person whose name has this digest, with everything written up to a time."""

    id: str
    ordered_at: int
    """Data written later stays, by the clock of the store that wrote it."""
    agent: str
    """The agent that ordered it."""
    heard: dict[str, int]
    """Stores that applied the order, with its time; what they write afterwards is intended and stays."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"

    def covers(self, written_at: int, origin: str) -> bool:
        """Return whether data a store wrote at a time is erased; never if that store already knew the order."""
        return written_at <= self.ordered_at and self.heard.get(origin, 0) < self.ordered_at


def erasure_of(row: Row) -> ErasureOrder:
    """Build an erasure order from a row of its table."""
    return ErasureOrder(row[0], row[1], row[2], msgspec.json.decode(row[3], type=dict[str, int]), *row[4:])


ERASURE = register_kind(
    Kind(
        "erasure",
        ErasureOrder,
        MergeSchema(
            conflict_fields=("state",), lww_fields=("agent",), max_fields=("ordered_at",), map_fields=("heard",)
        ),
        lambda erasure: None,
        erasure_of,
        undo_refusal="An erasure cannot be undone.",
    )
)
