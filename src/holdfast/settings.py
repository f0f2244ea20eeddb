"""Settings. Precedence: defaults < TOML file < HOLDFAST_* environment < flags."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.hooks.model import Rule
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.memory import Tier

_PATH = re.compile(r"(sqlite://)?(?!\s*postgres|.*://)[^@=]*", re.IGNORECASE | re.DOTALL)
"""A store path that is certainly not a database address."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Each has an environment variable: HOLDFAST_DB, HOLDFAST_AGENT_ID, ..."""

    db: str | None = None
    """Path of the store, or address of a database: postgresql://..."""
    agent_id: str | None = None
    """Agent id, if the surface does not determine it."""
    namespace: str = "global"
    """Default namespace of new memories."""
    default_tier: Tier = "long"
    """Default tier of new memories: `short` (6 hours), `mid` (7 days) or `long` (forever)."""
    host: str = "127.0.0.1"
    """Address that `holdfast serve` listens on."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 9077
    """Port that it listens on; 0 chooses a free one."""
    api_key: str | None = None
    """A key with all rights, in addition to those in the store."""
    key: str | None = None
    """The key that `holdfast mcp` uses."""
    profile: str = "core"
    """Families of tools that MCP offers."""
    timeout_secs: Annotated[float, Meta(gt=0, le=3600)] = 60
    """Time limit of an HTTP request; one that is stopped has written nothing."""
    body_limit: Annotated[int, Meta(ge=1024, le=1 << 30)] = 2 * 1024 * 1024
    """Maximum size of an HTTP request body, in bytes."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that the HTTP server accepts, in addition to loopback names."""
    tls_cert: str | None = None
    """Certificate of `holdfast serve`, a PEM file; it then serves HTTPS."""
    tls_key: str | None = None
    """Key of that certificate."""
    client_ca: str | None = None
    """Signer of client certificates, a PEM file; clients then need one."""
    client_fingerprints: str | None = None
    """File with SHA-256 fingerprints of accepted client certificates, one per line; reloaded when it changes."""
    gc_interval_secs: Annotated[int, Meta(ge=0, le=86_400)] = 1800
    """How often `holdfast serve` collects expired memories; 0: never."""
    embedder: Literal["minilm", "openai", "ollama", "none"] = "minilm"
    """Embedding model: the bundled one, an OpenAI-compatible provider, Ollama, or none."""
    embedding_url: str | None = None
    """URL of the provider, without `/embeddings` or `/api/embed`."""
    embedding_model: str | None = None
    """The provider's model."""
    embedding_key: str | None = None
    """API key of the provider."""
    embedding_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 10
    """How long a query waits for the provider before it falls back to keyword search."""
    llm: Literal["none", "openai", "anthropic", "ollama", "sampling"] = "none"
    """Language model: none, OpenAI-compatible, Anthropic, Ollama, or the connected agent's own (sampling)."""
    llm_url: str | None = None
    """URL of the provider, without `/chat/completions`, `/v1/messages` or `/api/chat`."""
    llm_model: str | None = None
    """The provider's model; required, there is no default."""
    llm_key: str | None = None
    """API key of the provider."""
    llm_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 30
    """Time limit of a model call, retries included; must be less than `timeout_secs`."""
    llm_daily_tokens: Annotated[int, Meta(ge=0, le=10**15)] = 1_000_000
    """Daily token limit (UTC) of all users of the store."""
    llm_price_in: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """Price of a million input tokens, in millionths of your currency: 3 dollars are 3000000."""
    llm_price_out: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """Price of a million output tokens, in the same unit."""
    keep_recalls: Annotated[int, Meta(ge=0, le=36_500)] = 30
    """Retention of queries and their results for `feedback`, in days; 0: not stored."""
    keep_usage: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Retention of model usage, in days; usage that counts for this month's budget always stays; 0: forever."""
    keep_task_runs: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Retention of task runs, in days; 0: forever."""
    keep_runs: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Retention of completed and failed runs with their phases, in days; 0: forever."""
    audit: Literal["none", "denied", "all"] = "none"
    """Operation calls to record as interactions: none, denied ones, or all."""
    sync_peers: tuple[str, ...] = ()
    """Peer servers that `holdfast sync-daemon` and `holdfast serve` sync with."""
    sync_interval_secs: Annotated[float, Meta(gt=0, le=86_400)] = 2
    """Seconds between two checks of an idle peer."""
    sync_batch_size: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """Approximate number of changes per request."""
    sync_api_key: str | None = None
    """API key for peers."""
    sync_client_cert: str | None = None
    """Client certificate for peers, a PEM file."""
    sync_client_key: str | None = None
    """Key of that certificate."""
    sync_ca: str | None = None
    """Signer of peer certificates, a PEM file, instead of this machine's trusted ones."""
    sync_fingerprint: str | None = None
    """SHA-256 fingerprint of the only accepted peer certificate."""
    sync_insecure_skip_server_verify: bool = False
    """Accept any certificate of a peer; requires a client certificate, which identifies this store."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may reach in addition to public addresses: 127.0.0.0/8, ::1/128, 10.0.0.0/8."""
    webhook_timeout_secs: Annotated[float, Meta(gt=0, le=60)] = 10
    """Time limit of a webhook request."""
    webhook_attempts: Annotated[int, Meta(ge=1, le=20)] = 10
    """Attempts to deliver an event, with growing pauses, before it becomes a dead letter."""
    quorum_writes: Annotated[int, Meta(ge=0, le=100)] = 0
    """Stores that must have a change, this one included, before `holdfast serve` confirms it; 0: only this one."""
    quorum_peers: tuple[str, ...] = ()
    """Peer servers that count for the quorum."""
    quorum_timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 2000
    """Time limit of the quorum."""
    agent_hooks: bool = True
    """Whether agent hooks are active; `holdfast hooks off` is faster to set."""
    hook_timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] = 3000
    """Time limit of an agent hook; then it ends, and the agent continues without it."""
    hook_budget: Annotated[int, Meta(ge=100, le=20_000)] = 600
    """Maximum tokens that a hook adds to a prompt."""
    hook_capture: bool = True
    """Whether hooks store the conversation of a session."""
    boot_budget: Annotated[int, Meta(ge=100, le=20_000)] = 1500
    """Maximum tokens of the session-start context."""
    hooks: tuple[Rule, ...] = ()
    """Lifecycle hooks, called before and after operations; each is a table `hooks` of the settings file."""
    ttl: Lifetimes = Lifetimes()

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return all settings, with secrets masked."""
        return [(name, _mask(name, getattr(self, name))) for name in self.__struct_fields__]


def _mask(name: str, value: Any) -> Any:
    """Mask keys, and addresses that may contain a password."""
    secret = name in ("api_key", "key", "embedding_key", "llm_key", "sync_api_key")
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


def load(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Load the effective settings. An unknown or invalid setting raises Misconfigured with its name."""
    environment = os.environ if environment is None else environment
    values = _from_file(config_file(environment), named="HOLDFAST_CONFIG" in environment)
    values |= _from_environment(environment)
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"A setting is not valid: {error}") from None


def _from_file(file: Path | None, *, named: bool) -> dict[str, Any]:
    if file is None or not (named or file.exists()):
        return {}
    import tomllib

    try:
        with file.open("rb") as source:
            return tomllib.load(source)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"The settings file {file} cannot be read: {error}") from None


_NOT_SETTINGS = {"HOLDFAST_CONFIG", "HOLDFAST_IN_HOOK"}
_LISTS = ("allowed_hosts", "sync_peers", "quorum_peers", "webhook_networks")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, value in environment.items():
        if variable.startswith("HOLDFAST_") and variable not in _NOT_SETTINGS and value != "":
            name = variable.removeprefix("HOLDFAST_").lower()
            if name not in Settings.__struct_fields__:
                raise InvalidSetting(f"{variable}: unknown setting; unset it or correct its name.")
            values[name] = value.split(",") if name in _LISTS else value
    return values
