"""Interactions: audit records of requests to an agent and its decisions."""

from hashlib import sha256
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.people.person_namespace import ROOT
from holdfast.features.people.principal import MAX_NAME
from holdfast.kernel.context import is_under
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records import validate
from holdfast.kernel.records.field_versions import MergeSchema

Decision = Literal["ok", "error", "denied"]
Texts = Literal["keep", "hash", "omit"]
"""How the text of an interaction is stored: in full, as a digest, or not at all."""

MAX_REASON = 2048
MAX_LABEL = 256
LABELS = ("name", "channel", "action", "provider", "model", "conversation")


class Interaction(Struct, frozen=True):
    """One decision. Immutable, except that its text can be erased."""

    id: str
    namespace: str
    agent: str
    """The agent that decided and recorded it."""
    principal: str
    """The person who asked."""
    name: str
    """Their display name."""
    channel: str
    action: str
    """Requested action, such as a tool."""
    status: Decision
    reason: str
    """Reason of the denial or error."""
    provider: str
    model: str
    took_ms: int | None
    conversation: str
    at: int
    texts: Texts
    input: str | None
    output: str | None
    input_digest: str | None
    output_digest: str | None
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


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
    if is_under(given.namespace, ROOT):
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
