"""Models over HTTP: OpenAI-compatible, Anthropic and Ollama. Every response is validated."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.language_model import Completion, Prompt
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.http_client import Post
from holdfast.kernel.text import token_count as tokens

MOST_TOKENS = 10_000_000
"""Larger reported token counts of one call are clamped to this."""
LONGEST_MODEL = 128
FEWEST_CONTEXT = 8192
"""Context size requested from Ollama, at least: it silently truncates input beyond its own default."""

Count = Annotated[int, Meta(ge=0)]
Asked = dict[str, Any]


class Words(NamedTuple):
    """The wire protocol of a kind of provider."""

    provider: str
    path: str
    forms: tuple[Callable[[str, Prompt, int], Asked], ...]
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


def _openai(tokens_word: str, *, held: bool) -> Callable[[str, Prompt, int], Asked]:
    """Build a request form: the name of its token limit, and whether it sends the schema."""

    def asked(model: str, prompt: Prompt, most_tokens: int) -> Asked:
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.whole}]
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": prompt.schema}}
        held_to = {"response_format": shape} if held and prompt.schema is not None else {}
        return {"model": model, "messages": messages, tokens_word: most_tokens, **held_to}

    return asked


def _of_openai(body: bytes) -> Completion:
    found = msgspec.json.decode(body, type=_OpenAi)
    used = found.usage or _OpenAiUsage()
    cached = used.prompt_tokens_details.cached_tokens if used.prompt_tokens_details else 0
    text = _text(found.choices[0].message.content) if found.choices else ""
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


def _as_anthropic(model: str, prompt: Prompt, most_tokens: int) -> Asked:
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


def _of_anthropic(body: bytes) -> Completion:
    """Add cache reads and writes to the input tokens: Anthropic reports them separately."""
    found = msgspec.json.decode(body, type=_Anthropic)
    used = found.usage
    cached = used.cache_read_input_tokens or 0
    given = used.input_tokens + cached + (used.cache_creation_input_tokens or 0)
    return Completion(_text(found.content), found.model, given, used.output_tokens, cached)


class _Ollama(Struct):
    message: _Message
    model: str = ""
    prompt_eval_count: Count = 0
    eval_count: Count = 0


def _as_ollama(model: str, prompt: Prompt, most_tokens: int) -> Asked:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.whole}]
    options = {"num_predict": most_tokens, "num_ctx": _context(prompt, most_tokens)}
    held_to = {"format": prompt.schema} if prompt.schema is not None else {}
    return {"model": model, "messages": messages, "stream": False, "options": options, **held_to}


def _context(prompt: Prompt, most_tokens: int) -> int:
    """Compute the context size, rounded up to a power of two: Ollama reloads the model for each new size."""
    needed = (tokens.count(prompt.system) + tokens.count(prompt.whole)) * 5 // 4 + most_tokens
    return max(FEWEST_CONTEXT, 1 << (needed - 1).bit_length())


def _of_ollama(body: bytes) -> Completion:
    found = msgspec.json.decode(body, type=_Ollama)
    return Completion(_text(found.message.content), found.model, found.prompt_eval_count, found.eval_count)


def _text(content: str | list[_Part] | None) -> str:
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


OPENAI = Words(
    "openai",
    "/chat/completions",
    (_openai("max_tokens", held=True), _openai("max_completion_tokens", held=True), _openai("max_tokens", held=False)),
    _of_openai,
)
ANTHROPIC = Words("anthropic", "/v1/messages", (_as_anthropic,), _of_anthropic)
OLLAMA = Words("ollama", "/api/chat", (_as_ollama,), _of_ollama)


class Remote:
    """A model at a provider. Finds out once which request form the provider supports."""

    remote = True

    def __init__(self, post: Post, *, model: str, words: Words) -> None:
        self.name = model
        self.provider = words.provider
        self.host: str | None = post.host
        self._post = post
        self._words = words
        self._form = 0

    def must_be_ready(self) -> None:
        try:
            self._post.breaker.must_let_pass()
        except Failure as failure:
            raise self._unanswered(failure) from None

    def complete(self, prompt: Prompt, *, most_tokens: int) -> Completion:
        """Return the model's completion; raise ModelFailed."""
        form = self._form
        while True:
            try:
                completion = self._completed(self._words.forms[form](self.name, prompt, most_tokens))
            except Failure as failure:
                form += 1
                if failure.status not in (400, 422) or form == len(self._words.forms):
                    raise self._unanswered(failure) from None
            else:
                self._form = form
                return completion

    def _completed(self, asked: Mapping[str, Any]) -> Completion:
        body = self._post(self._words.path, msgspec.json.encode(asked))
        for kind in (_OpenAi, _Anthropic, _Ollama):
            learn(kind)
        try:
            found = self._words.read(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._failed("sent a response that does not match its protocol") from None
        if not found.text.strip():
            raise self._failed("sent an empty answer")
        return _believed(found, self.name)

    def _unanswered(self, failure: Failure) -> ModelFailed:
        flags = {"retryable": failure.retryable, "unpaid": failure.undone, "answered": failure.answered}
        return self._failed(failure.what, **flags)

    def _failed(
        self, what: str, *, retryable: bool = False, unpaid: bool = False, answered: bool = True
    ) -> ModelFailed:
        message = f"The model at {self.host} {what}."
        return ModelFailed(message, retryable=retryable, unpaid=unpaid, answered=answered)


def _believed(found: Completion, asked: str) -> Completion:
    """Clamp the token counts and the model name that the provider reports."""
    name = found.model if 0 < len(found.model) <= LONGEST_MODEL and found.model.isprintable() else asked
    input_tokens, output_tokens, cached_tokens = (
        min(number, MOST_TOKENS) for number in (found.input_tokens, found.output_tokens, found.cached_tokens)
    )
    return Completion(found.text, name, input_tokens, output_tokens, cached_tokens)
