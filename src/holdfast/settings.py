"""Settings. Precedence: defaults < TOML file < HOLDFAST_* environment < flags."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.hooks.model import Rule
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.records.memory import Tier
from holdfast.kernel.records.validate import Lifetimes

_PATH = re.compile(r"(sqlite://)?(?!\s*postgres|.*://)[^@=]*", re.IGNORECASE | re.DOTALL)
"""A store path that is certainly not a database address."""

DEPRECATED_NAMES = {
    "audit": "access_log",
    "boot_budget": "session_start_budget_tokens",
    "hook_budget": "hook_budget_tokens",
    "keep_recalls": "recall_retention_days",
    "keep_runs": "run_retention_days",
    "keep_task_runs": "task_run_retention_days",
    "keep_usage": "usage_retention_days",
    "key": "mcp_key",
    "profile": "mcp_profile",
}
"""Former name of a setting -> its name. Every source of settings accepts both."""


def warn_deprecated(note: str) -> None:
    """Raise a DeprecationWarning that points at the code outside of Holdfast."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        frame, level = frame.f_back, level + 1
    warnings.warn(note, DeprecationWarning, stacklevel=level)


class _AcceptDeprecatedNames(type(Struct)):  # type: ignore[misc]
    """Makes the constructor accept former names, with a DeprecationWarning."""

    if not TYPE_CHECKING:

        def __call__(cls, **values: Any) -> Any:
            values, notes = _rename_deprecated(values, "`{}`".format)
            if notes:
                warn_deprecated(" ".join(notes))
            return super().__call__(**values)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, metaclass=_AcceptDeprecatedNames):
    """All settings. Each has an environment variable: HOLDFAST_DB, HOLDFAST_AGENT_ID, ..."""

    db: str | None = None
    """Path of the store file, or address of a PostgreSQL database: postgresql://..."""
    agent_id: str | None = None
    """Agent id of changes, where the key or the client does not determine it."""
    namespace: str = "global"
    """Default namespace of new memories."""
    default_tier: Tier = "long"
    """Default tier of new memories: `short` (6 hours), `mid` (7 days) or `long` (forever)."""
    host: str = "127.0.0.1"
    """Address that `holdfast serve` listens on."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 9077
    """Port that `holdfast serve` listens on; 0 chooses a free one."""
    api_key: str | None = None
    """API key with all rights that `holdfast serve` accepts, in addition to the keys in the store."""
    mcp_key: str | None = None
    """API key whose rights `holdfast mcp` has, instead of all rights."""
    mcp_profile: str = "core"
    """Tools that MCP offers: core, standard, full, or features separated by commas, such as graph,tasks."""
    timeout_secs: Annotated[float, Meta(gt=0, le=3600)] = 60
    """Time limit of an HTTP request; a request that is stopped has written nothing."""
    body_limit: Annotated[int, Meta(ge=1024, le=1 << 30)] = 2 * 1024 * 1024
    """Maximum size of an HTTP request body, in bytes."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that the HTTP server accepts, in addition to loopback names."""
    tls_cert: str | None = None
    """Certificate of `holdfast serve`, a PEM file; it then serves HTTPS."""
    tls_key: str | None = None
    """Private key of `tls_cert`, a PEM file."""
    client_ca: str | None = None
    """CA that signs client certificates, a PEM file; each client then needs a certificate."""
    client_fingerprints: str | None = None
    """File with SHA-256 fingerprints of accepted client certificates, one per line; reloaded when it changes."""
    gc_interval_secs: Annotated[int, Meta(ge=0, le=86_400)] = 1800
    """Seconds between two runs of `gc` by `holdfast serve`; 0: never."""
    embedder: Literal["minilm", "openai", "ollama", "none"] = "minilm"
    """Embedding model: the bundled one (minilm), an OpenAI-compatible provider, Ollama, or none."""
    embedding_url: str | None = None
    """URL of the embedding provider, without `/embeddings` or `/api/embed`."""
    embedding_model: str | None = None
    """Name of the provider's embedding model."""
    embedding_key: str | None = None
    """API key of the embedding provider."""
    embedding_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 10
    """Seconds that a query waits for the provider before it falls back to keyword search."""
    llm: Literal["none", "openai", "anthropic", "ollama", "sampling"] = "none"
    """Language model: none, OpenAI-compatible, Anthropic, Ollama, or the connected agent's own (sampling)."""
    llm_url: str | None = None
    """URL of the language model provider, without `/chat/completions`, `/v1/messages` or `/api/chat`."""
    llm_model: str | None = None
    """Name of the provider's language model; required, there is no default."""
    llm_key: str | None = None
    """API key of the language model provider."""
    llm_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 30
    """Time limit of a model call, retries included; must be less than `timeout_secs`."""
    llm_daily_tokens: Annotated[int, Meta(ge=0, le=10**15)] = 1_000_000
    """Tokens that all users of the store together may use per day (UTC)."""
    llm_price_in: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """Price of a million input tokens, in millionths of your currency: 3 dollars are 3000000."""
    llm_price_out: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """Price of a million output tokens, in millionths of your currency."""
    recall_retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 30
    """Days to keep queries and their results for `feedback`; 0: not stored."""
    usage_retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days to keep model usage; usage that counts for this month's budget always stays; 0: forever."""
    task_run_retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days to keep task runs; 0: forever."""
    run_retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days to keep completed and failed runs with their phases; 0: forever."""
    access_log: Literal["none", "denied", "all"] = "none"
    """Calls that the access log records as interactions: none, denied calls, or all."""
    sync_peers: tuple[str, ...] = ()
    """Peer servers that `holdfast sync daemon` and `holdfast serve` sync with."""
    sync_interval_secs: Annotated[float, Meta(gt=0, le=86_400)] = 2
    """Seconds between two checks of an idle peer."""
    sync_batch_size: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """Approximate number of changes per sync request."""
    sync_api_key: str | None = None
    """API key that this store shows to peers."""
    sync_client_cert: str | None = None
    """Client certificate that this store shows to peers, a PEM file."""
    sync_client_key: str | None = None
    """Private key of `sync_client_cert`, a PEM file."""
    sync_ca: str | None = None
    """CA that signs peer certificates, a PEM file, instead of the CAs that this machine trusts."""
    sync_fingerprint: str | None = None
    """SHA-256 fingerprint of the only accepted peer certificate."""
    sync_insecure_skip_server_verify: bool = False
    """Accept any certificate of a peer; requires a client certificate, which identifies this store."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may reach in addition to public addresses, for example 10.0.0.0/8 or ::1/128."""
    webhook_timeout_secs: Annotated[float, Meta(gt=0, le=60)] = 10
    """Time limit of a webhook request."""
    webhook_attempts: Annotated[int, Meta(ge=1, le=20)] = 10
    """Attempts to deliver an event, with growing pauses, before it becomes a dead letter."""
    quorum_writes: Annotated[int, Meta(ge=0, le=100)] = 0
    """Stores that must have a change, this one included, before `holdfast serve` confirms it; 0: only this one."""
    quorum_peers: tuple[str, ...] = ()
    """Peer servers that count towards the quorum."""
    quorum_timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 2000
    """Longest wait for the quorum to confirm a change."""
    agent_hooks: bool = True
    """Whether agent hooks are active; `holdfast agents hooks off` turns them off too."""
    hook_timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] = 3000
    """Time limit of an agent hook, after which the agent continues without it."""
    hook_budget_tokens: Annotated[int, Meta(ge=100, le=20_000)] = 600
    """Maximum tokens that an agent hook adds to a prompt."""
    hook_capture: bool = True
    """Whether agent hooks store the conversation of a session."""
    session_start_budget_tokens: Annotated[int, Meta(ge=100, le=20_000)] = 1500
    """Maximum tokens of the session-start context."""
    hooks: tuple[Rule, ...] = ()
    """Lifecycle hooks, called before and after operations; each is a table `hooks` of the settings file."""
    ttl: Lifetimes = Lifetimes()
    """Lifetimes of memories by tier, the table `ttl` of the settings file."""

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return all settings, with secrets masked."""
        return [(name, _mask(name, getattr(self, name))) for name in self.__struct_fields__]


def _mask(name: str, value: Any) -> Any:
    """Mask keys, and addresses that may contain a password."""
    secret = name in ("api_key", "mcp_key", "embedding_key", "llm_key", "sync_api_key")
    secret = secret or (name == "db" and value and not _PATH.fullmatch(value))
    secret = secret or (name in ("embedding_url", "llm_url") and value and ("@" in value or "?" in value))
    return "..." if secret and value is not None else value


def config_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the settings file, which may not exist."""
    if named := environment.get("HOLDFAST_CONFIG"):
        return Path(named)
    home = environment.get("HOME") or environment.get("USERPROFILE")
    if sys.platform == "darwin" and home:
        return Path(home) / "Library" / "Application Support" / "holdfast" / "config.toml"
    if os.name == "nt" and (roaming := environment.get("APPDATA")):
        return Path(roaming) / "holdfast" / "config.toml"
    base = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    return Path(base) / "holdfast" / "config.toml" if base else None


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    on_deprecated: Callable[[str], None] = warn_deprecated,
) -> Settings:
    """Load the effective settings. An unknown or invalid setting raises InvalidSetting with its name.

    `on_deprecated` receives one line if a source uses former names.
    """
    environment = os.environ if environment is None else environment
    file = config_file(environment)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    values: dict[str, Any] = {}
    notes: list[str] = []
    for source, show in (
        (_from_file(file, named="HOLDFAST_CONFIG" in environment), f"`{{}}` in {file}".format),
        (_from_environment(environment), _variable),
        (given, "`{}`".format),
    ):
        renamed, found = _rename_deprecated(source, show)
        values |= renamed
        notes += found
    if notes:
        on_deprecated(" ".join(notes))
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"A setting is not valid: {error}") from None


def _rename_deprecated(values: Mapping[str, Any], show: Callable[[str], str]) -> tuple[dict[str, Any], list[str]]:
    """Replace the former names in one source; return the values and a deprecation note for each former name."""
    renamed = dict(values)
    notes = []
    for old, new in DEPRECATED_NAMES.items():
        if old not in values:
            continue
        if new in values:
            raise InvalidSetting(f"{show(old)} and {show(new)} are the same setting; remove {show(old)}.")
        renamed[new] = renamed.pop(old)
        notes.append(f"{show(old)} is deprecated; use {show(new)}.")
    return renamed, notes


def _variable(name: str) -> str:
    return f"HOLDFAST_{name.upper()}"


def _from_file(file: Path | None, *, named: bool) -> dict[str, Any]:
    if file is None or not (named or file.exists()):
        return {}
    try:
        with file.open("rb") as source:
            fields: dict[str, Any] = msgspec.toml.decode(source.read())
            return fields
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"The settings file {file} cannot be read: {error}") from None


_NOT_SETTINGS = {"HOLDFAST_CONFIG", "HOLDFAST_IN_HOOK"}
_LISTS = ("allowed_hosts", "sync_peers", "quorum_peers", "webhook_networks")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, value in environment.items():
        if variable.startswith("HOLDFAST_") and variable not in _NOT_SETTINGS and value != "":
            name = variable.removeprefix("HOLDFAST_").lower()
            if name not in Settings.__struct_fields__ and name not in DEPRECATED_NAMES:
                raise InvalidSetting(f"{variable}: unknown setting; unset it or correct its name.")
            values[name] = value.split(",") if name in _LISTS else value
    return values
