"""What an agent was asked and what was decided about it, for whoever looks into it later."""

from hashlib import sha256
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.people.person_namespace import ROOT
from holdfast.features.people.principal import LONGEST_NAME
from holdfast.kernel.caller import under
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.field_versions import Shape

Decision = Literal["ok", "error", "denied"]
Texts = Literal["keep", "hash", "omit"]
"""What becomes of the words of an interaction: kept, only a digest of them, or nothing."""

LONGEST_REASON = 2048
LONGEST_LABEL = 256
LABELS = ("name", "channel", "action", "provider", "model", "conversation")


class Interaction(Struct, frozen=True):
    """One decision. It is never changed; only what was said can be erased."""

    id: str
    namespace: str
    agent: str
    """Who decided, and recorded it."""
    principal: str
    """Who asked."""
    name: str
    """How they are called."""
    channel: str
    action: str
    """What was asked for, such as a tool."""
    status: Decision
    reason: str
    """Why it was denied, or what went wrong."""
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


_SAID = (
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


def admit_interaction(given: Interaction) -> Interaction:
    """An interaction that can be kept, wherever it comes from; once erased it need not name anybody."""
    door.namespace(given.namespace)
    if under(given.namespace, ROOT):
        raise Invalid("namespace: that of a person holds what is known of them; name a project", fields=["namespace"])
    for name in LABELS:
        if value := getattr(given, name):
            door.label(name, value, LONGEST_LABEL)
    if given.state == "live":
        door.label("principal", given.principal, LONGEST_NAME)
    if given.status not in get_args(Decision) or given.texts not in get_args(Texts):
        raise Invalid("status: one of ok, error and denied", fields=["status"])
    for name in ("input", "output", "reason"):
        if value := getattr(given, name):
            door.content(value, name)
    if len(given.reason) > LONGEST_REASON:
        raise Invalid(f"reason: at most {LONGEST_REASON} characters", fields=["reason"])
    return given


def as_allowed(told: Interaction, texts: Texts) -> Interaction:
    """An interaction with as much of its words as a policy lets be kept."""
    if texts == "keep":
        return replace(told, texts=texts)
    digests = {}
    if texts == "hash":
        digests = {
            f"{name}_digest": digest_of(told.id, value)
            for name in ("input", "output")
            if (value := getattr(told, name)) is not None
        }
    return replace(told, texts=texts, input=None, output=None, **digests)


def digest_of(id: str, text: str) -> str:
    """By which who has the words can show that they were these; no two interactions have the same one."""
    return sha256(f"{id}\x00{text}".encode()).hexdigest()


def erased(told: Interaction) -> Interaction:
    """That something was decided, by whom, when and how; nothing of who asked, nor what."""
    gone = dict.fromkeys(_SAID, "") | dict.fromkeys(("input", "output", "input_digest", "output_digest"))
    return replace(told, **gone, texts="omit", state="deleted")


INTERACTION = register(
    Kind(
        "interaction",
        Interaction,
        Shape(registers=("state",), quiet=_SAID),
        lambda interaction: None,
        lambda row: Interaction(*row),
        erased,
    )
)
