"""Models over HTTP: OpenAI-compatible, Anthropic and Ollama. Every response is validated."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct, field

from holdfast.kernel.errors import InvalidSetting, ModelFailed
from holdfast.kernel.language_model import Completion, Prompt
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.http_client import JsonClient
from holdfast.kernel.net.provider_settings import bearer_header, check_key, check_model_name, parse_provider_url
from holdfast.kernel.text import token_count as tokens

URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Default URLs."""
MAX_TRIES = 3
ANTHROPIC_VERSION = "2023-06-01"
MAX_TOKENS = 10_000_000
"""Larger reported token counts of one call are clamped to this."""
MAX_MODEL_NAME = 128
MIN_CONTEXT = 8192
"""Context size requested from Ollama, at least: it silently truncates input beyond its own default."""

Count = Annotated[int, Meta(ge=0)]
RequestBody = dict[str, Any]


class ProviderProtocol(NamedTuple):
    """The wire protocol of a kind of provider."""

    provider: str
    path: str
    forms: tuple[Callable[[str, Prompt, int], RequestBody], ...]
    """Request forms, best first: if a provider rejects one, the next is tried."""
    read: Callable[[bytes], Completion]


class _Part(Struct):
    text: str = ""


class _Message(Struct):
    content: str | list[_Part] | None = None


class _Choice(Struct):
    message: _Message


class _Details(Struct):
    cached_tokens: Count | None = None


class _OpenAiUsage(Struct):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: _Details | None = None


class _OpenAi(Struct):
    choices: list[_Choice]
    model: str = ""
    usage: _OpenAiUsage | None = None


def _openai_request(tokens_word: str, *, with_schema: bool) -> Callable[[str, Prompt, int], RequestBody]:
    """Build a request form: the name of its token limit, and whether it sends the schema."""

    def build(model: str, prompt: Prompt, most_tokens: int) -> RequestBody:
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.full_text}]
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": prompt.schema}}
        held_to = {"response_format": shape} if with_schema and prompt.schema is not None else {}
        return {"model": model, "messages": messages, tokens_word: most_tokens, **held_to}

    return build


def _read_openai(body: bytes) -> Completion:
    found = msgspec.json.decode(body, type=_OpenAi)
    used = found.usage or _OpenAiUsage()
    cached = used.prompt_tokens_details.cached_tokens if used.prompt_tokens_details else 0
    text = _join_text(found.choices[0].message.content) if found.choices else ""
    return Completion(text, found.model, used.prompt_tokens, used.completion_tokens, cached or 0)


class _AnthropicUsage(Struct):
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Anthropic(Struct):
    content: list[_Part]
    model: str = ""
    usage: _AnthropicUsage = field(default_factory=_AnthropicUsage)


def _anthropic_request(model: str, prompt: Prompt, most_tokens: int) -> RequestBody:
    """Build the request, with instructions and materials marked for prompt caching.

    Native structured output would put the schema before the materials and defeat caching, so the schema is part of the
    task, and the answer is validated here like any other.
    """
    cache = {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": prompt.text} | cache
    parts = [text, {"type": "text", "text": prompt.task}] if prompt.task else [text]
    system = [{"type": "text", "text": prompt.system} | cache]
    messages = [{"role": "user", "content": parts}]
    return {"model": model, "max_tokens": most_tokens, "system": system, "messages": messages}


def _read_anthropic(body: bytes) -> Completion:
    """Add cache reads and writes to the input tokens: Anthropic reports them separately."""
    found = msgspec.json.decode(body, type=_Anthropic)
    used = found.usage
    cached = used.cache_read_input_tokens or 0
    given = used.input_tokens + cached + (used.cache_creation_input_tokens or 0)
    return Completion(_join_text(found.content), found.model, given, used.output_tokens, cached)


class _Ollama(Struct):
    message: _Message
    model: str = ""
    prompt_eval_count: Count = 0
    eval_count: Count = 0


def _ollama_request(model: str, prompt: Prompt, most_tokens: int) -> RequestBody:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.full_text}]
    options = {"num_predict": most_tokens, "num_ctx": _context_size(prompt, most_tokens)}
    held_to = {"format": prompt.schema} if prompt.schema is not None else {}
    return {"model": model, "messages": messages, "stream": False, "options": options, **held_to}


def _context_size(prompt: Prompt, most_tokens: int) -> int:
    """Compute the context size, rounded up to a power of two: Ollama reloads the model for each new size."""
    needed = (tokens.count_tokens(prompt.system) + tokens.count_tokens(prompt.full_text)) * 5 // 4 + most_tokens
    return max(MIN_CONTEXT, 1 << (needed - 1).bit_length())


def _read_ollama(body: bytes) -> Completion:
    found = msgspec.json.decode(body, type=_Ollama)
    return Completion(_join_text(found.message.content), found.model, found.prompt_eval_count, found.eval_count)


def _join_text(content: str | list[_Part] | None) -> str:
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


OPENAI = ProviderProtocol(
    "openai",
    "/chat/completions",
    (
        _openai_request("max_tokens", with_schema=True),
        _openai_request("max_completion_tokens", with_schema=True),
        _openai_request("max_tokens", with_schema=False),
    ),
    _read_openai,
)
ANTHROPIC = ProviderProtocol("anthropic", "/v1/messages", (_anthropic_request,), _read_anthropic)
OLLAMA = ProviderProtocol("ollama", "/api/chat", (_ollama_request,), _read_ollama)


class RemoteModel:
    """A model at a provider. Finds out once which request form the provider supports."""

    remote = True

    def __init__(self, post: JsonClient, *, model: str, words: ProviderProtocol) -> None:
        self.name = model
        self.provider = words.provider
        self.host: str | None = post.host
        self._post = post
        self._words = words
        self._form = 0

    def require_ready(self) -> None:
        try:
            self._post.breaker.require_closed()
        except RequestFailure as failure:
            raise self._to_model_failed(failure) from None

    def complete(self, prompt: Prompt, *, max_tokens: int) -> Completion:
        """Return the model's completion; raise ModelFailed."""
        form = self._form
        while True:
            try:
                completion = self._send(self._words.forms[form](self.name, prompt, max_tokens))
            except RequestFailure as failure:
                form += 1
                if failure.status not in (400, 422) or form == len(self._words.forms):
                    raise self._to_model_failed(failure) from None
            else:
                self._form = form
                return completion

    def _send(self, asked: Mapping[str, Any]) -> Completion:
        body = self._post(self._words.path, msgspec.json.encode(asked))
        for kind in (_OpenAi, _Anthropic, _Ollama):
            register_type(kind)
        try:
            found = self._words.read(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._model_failed("sent a response that does not match its protocol") from None
        if not found.text.strip():
            raise self._model_failed("sent an empty answer")
        return _clamp_reported(found, self.name)

    def _to_model_failed(self, failure: RequestFailure) -> ModelFailed:
        flags = {"retryable": failure.retryable, "unpaid": failure.is_unprocessed, "answered": failure.has_response}
        return self._model_failed(failure.reason, **flags)

    def _model_failed(
        self, what: str, *, retryable: bool = False, unpaid: bool = False, answered: bool = True
    ) -> ModelFailed:
        message = f"The model at {self.host} {what}."
        return ModelFailed(message, retryable=retryable, unpaid=unpaid, answered=answered)


def _clamp_reported(found: Completion, asked: str) -> Completion:
    """Clamp the token counts and the model name that the provider reports."""
    name = found.model if 0 < len(found.model) <= MAX_MODEL_NAME and found.model.isprintable() else asked
    input_tokens, output_tokens, cached_tokens = (
        min(number, MAX_TOKENS) for number in (found.input_tokens, found.output_tokens, found.cached_tokens)
    )
    return Completion(found.text, name, input_tokens, output_tokens, cached_tokens)


class ModelSettings(Protocol):
    """The settings of a language model."""

    @property
    def llm(self) -> str: ...

    @property
    def llm_model(self) -> str | None: ...

    @property
    def llm_url(self) -> str | None: ...

    @property
    def llm_key(self) -> str | None: ...

    @property
    def llm_timeout_secs(self) -> float: ...


def build_model(settings: ModelSettings) -> RemoteModel:
    """Build the model of the configured provider; makes no request."""
    if settings.llm_model is None:
        raise InvalidSetting(f"llm is {settings.llm}, but llm_model is not set: set it to a model of the provider.")
    words = {"openai": OPENAI, "anthropic": ANTHROPIC, "ollama": OLLAMA}[settings.llm]
    post = JsonClient(
        parse_provider_url("llm", settings.llm_url or URLS[settings.llm]),
        settings="llm",
        headers=_build_headers(settings),
        timeout=settings.llm_timeout_secs,
        attempts=MAX_TRIES,
    )
    return RemoteModel(post, model=check_model_name("llm", settings.llm_model, MAX_MODEL_NAME), words=words)


def _build_headers(settings: ModelSettings) -> dict[str, str]:
    secret = check_key("llm", settings.llm_key)
    if settings.llm != "anthropic":
        return bearer_header(secret)
    return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": secret} if secret else {})
