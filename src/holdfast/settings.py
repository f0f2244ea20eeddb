"""Settings: built-in < TOML file < HOLDFAST_* environment < flag."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.hooks.model import Rule
from holdfast.kernel.errors import Misconfigured
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.memory import Tier

_PATH = re.compile(r"(sqlite://)?(?!\s*postgres|.*://)[^@=]*", re.IGNORECASE | re.DOTALL)
"""A store's address that is surely no database's."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. Each has an environment variable: HOLDFAST_DB, HOLDFAST_AGENT_ID, ..."""

    db: str | None = None
    """Path of the store, or the address of a database: postgresql://..."""
    agent_id: str | None = None
    """Who asks, if the surface cannot tell."""
    namespace: str = "global"
    """Where a memory goes that names no namespace."""
    default_tier: Tier = "long"
    """The tier of a memory that is stored without one: `short` (6 hours), `mid` (7 days) or `long` (forever)."""
    host: str = "127.0.0.1"
    """Address that `holdfast serve` listens on."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 9077
    """Port that it listens on; 0 takes a free one."""
    api_key: str | None = None
    """A key with every right, beside those in the store."""
    key: str | None = None
    """The key that `holdfast mcp` works under."""
    profile: str = "core"
    """Which families of tools MCP offers."""
    timeout_secs: Annotated[float, Meta(gt=0, le=3600)] = 60
    """How long an HTTP request may take; one that is stopped has written nothing."""
    body_limit: Annotated[int, Meta(ge=1024, le=1 << 30)] = 2 * 1024 * 1024
    """The most bytes that the body of an HTTP request has."""
    allowed_hosts: tuple[str, ...] = ()
    """Names besides the loopback ones under which the HTTP server may be addressed."""
    tls_cert: str | None = None
    """The certificate that `holdfast serve` shows, a PEM file: it serves HTTPS then."""
    tls_key: str | None = None
    """The key of that certificate."""
    client_ca: str | None = None
    """Who signs the certificates of clients, a PEM file: nobody is heard without one then."""
    client_fingerprints: str | None = None
    """A file with the SHA-256 of each certificate that clients may have, one a line; read again when it changes."""
    gc_interval_secs: Annotated[int, Meta(ge=0, le=86_400)] = 1800
    """How often `holdfast serve` collects what has expired; 0: never."""
    embedder: Literal["minilm", "openai", "ollama", "none"] = "minilm"
    """What makes the vectors: the model that comes with Holdfast, an OpenAI-compatible provider, Ollama, or nothing."""
    embedding_url: str | None = None
    """Where the provider is, up to and without `/embeddings` or `/api/embed`."""
    embedding_model: str | None = None
    """Which of the provider's models."""
    embedding_key: str | None = None
    """The key that the provider is asked with."""
    embedding_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 10
    """How long a question waits for the provider before it goes by words alone."""
    llm: Literal["none", "openai", "anthropic", "ollama", "sampling"] = "none"
    """Which model may help: none, what speaks as OpenAI does, Anthropic's, Ollama's, or the connected agent's own."""
    llm_url: str | None = None
    """Where it is, up to and without `/chat/completions`, `/v1/messages` or `/api/chat`."""
    llm_model: str | None = None
    """Which of the provider's models; there is none that is taken by itself."""
    llm_key: str | None = None
    """The key that it is asked with."""
    llm_timeout_secs: Annotated[float, Meta(gt=0, le=600)] = 30
    """How long a model is waited for, all tries together, before it goes without; less than `timeout_secs`."""
    llm_daily_tokens: Annotated[int, Meta(ge=0, le=10**15)] = 1_000_000
    """The most tokens that are asked of a model in a day (UTC), by everybody who uses the store."""
    llm_price_in: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """What a million tokens of questions cost, in millionths of your currency: 3 dollars are 3000000."""
    llm_price_out: Annotated[int, Meta(ge=0, le=10**10)] = 0
    """What a million tokens of answers cost, in the same."""
    keep_recalls: Annotated[int, Meta(ge=0, le=36_500)] = 30
    """Days for which questions are kept with what was found, for `feedback`; 0: questions are not kept."""
    keep_usage: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days for which is kept what models took; what a budget of this month counts stays in any case; 0: for ever."""
    keep_task_runs: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days for which is kept how each try of a task ended; 0: for ever."""
    keep_runs: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days for which runs are kept that were completed or failed, with their phases; 0: for ever."""
    audit: Literal["none", "denied", "all"] = "none"
    """Which calls of operations are recorded as interactions: none, those that were denied, or all."""
    sync_peers: tuple[str, ...] = ()
    """Servers of other stores that `holdfast sync-daemon`, and `holdfast serve`, keep this one in step with."""
    sync_interval_secs: Annotated[float, Meta(gt=0, le=86_400)] = 2
    """How long between two looks at a peer that has nothing new."""
    sync_batch_size: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """About how many changes go over at once."""
    sync_api_key: str | None = None
    """The key that peers are asked with."""
    sync_client_cert: str | None = None
    """The certificate that is shown to peers, a PEM file."""
    sync_client_key: str | None = None
    """The key of that certificate."""
    sync_ca: str | None = None
    """Who signs the certificates of peers, a PEM file, instead of those whom this machine trusts."""
    sync_fingerprint: str | None = None
    """The SHA-256 of the one certificate that a peer may have."""
    sync_insecure_skip_server_verify: bool = False
    """Believe any certificate of a peer; only with a client certificate, by which the peer knows this store."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may reach besides public addresses: 127.0.0.0/8, ::1/128, 10.0.0.0/8."""
    webhook_timeout_secs: Annotated[float, Meta(gt=0, le=60)] = 10
    """How long a receiver may take to answer."""
    webhook_attempts: Annotated[int, Meta(ge=1, le=20)] = 10
    """How often an event is tried, less and less often, before it is a dead letter."""
    quorum_writes: Annotated[int, Meta(ge=0, le=100)] = 0
    """How many stores must have a change, this one included, before `holdfast serve` calls it kept; 0: this one."""
    quorum_peers: tuple[str, ...] = ()
    """Servers of the other stores that count for it."""
    quorum_timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 2000
    """How long they are waited for."""
    agent_hooks: bool = True
    """Whether the hooks of agents' hosts do anything; `holdfast hooks off` is quicker."""
    hook_timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] = 3000
    """How long a hook may take; then it ends, and the agent goes on without it."""
    hook_budget: Annotated[int, Meta(ge=100, le=20_000)] = 600
    """The most tokens that a prompt is given by a hook."""
    hook_capture: bool = True
    """Whether hooks keep what is said in a session."""
    boot_budget: Annotated[int, Meta(ge=100, le=20_000)] = 1500
    """The most tokens that a session is given when it begins."""
    hooks: tuple[Rule, ...] = ()
    """What is asked before, and told after, operations; each a table `hooks` of the settings file."""
    ttl: Lifetimes = Lifetimes()

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Every setting as it may be shown."""
        return [(name, _shown(name, getattr(self, name))) for name in self.__struct_fields__]


def _shown(name: str, value: Any) -> Any:
    """No key, and of an address nothing that may hold a password."""
    secret = name in ("api_key", "key", "embedding_key", "llm_key", "sync_api_key")
    secret = secret or (name == "db" and value and not _PATH.fullmatch(value))
    secret = secret or (name in ("embedding_url", "llm_url") and value and ("@" in value or "?" in value))
    return "..." if secret and value is not None else value


def config_file(environment: Mapping[str, str]) -> Path | None:
    """Where the settings file is, whether or not it exists."""
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
    """The settings in force; a later source wins. An unknown or mistyped one is refused and named."""
    environment = os.environ if environment is None else environment
    values = _from_file(config_file(environment), named="HOLDFAST_CONFIG" in environment)
    values |= _from_environment(environment)
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"A setting cannot be used: {error}") from None


def _from_file(file: Path | None, *, named: bool) -> dict[str, Any]:
    if file is None or not (named or file.exists()):
        return {}
    import tomllib

    try:
        with file.open("rb") as source:
            return tomllib.load(source)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"The settings file {file} cannot be read: {error}") from None


_NOT_SETTINGS = {"HOLDFAST_CONFIG", "HOLDFAST_IN_HOOK"}
_LISTS = ("allowed_hosts", "sync_peers", "quorum_peers", "webhook_networks")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, value in environment.items():
        if variable.startswith("HOLDFAST_") and variable not in _NOT_SETTINGS and value != "":
            name = variable.removeprefix("HOLDFAST_").lower()
            if name not in Settings.__struct_fields__:
                raise Misconfigured(f"There is no setting {variable}: unset it, or correct its name.")
            values[name] = value.split(",") if name in _LISTS else value
    return values
