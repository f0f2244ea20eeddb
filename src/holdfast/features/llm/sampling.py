"""MCP sampling: the model of the connected agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.language_model import Completion, Prompt
from holdfast.kernel.msgspec_lock import register_type

SamplingRequest = Callable[[dict[str, Any], float], Mapping[str, Any]]
"""Sends a `sampling/createMessage` request with a timeout in seconds; raises ModelFailed."""

MAX_MODEL_NAME = 128
NO_CLIENT = "No agent with sampling support is connected over MCP."

_asks: ContextVar[SamplingRequest | str] = ContextVar("holdfast_sampling", default=NO_CLIENT)


@contextmanager
def use_sampling(ask: SamplingRequest | str) -> Iterator[None]:
    """Within this context, send sampling requests with `ask`, or fail with it as the reason."""
    token = _asks.set(ask)
    try:
        yield
    finally:
        _asks.reset(token)


class _Text(Struct):
    text: str = ""


class _Message(Struct):
    content: _Text | list[_Text]
    model: str = ""


class SamplingModel:
    """The model of the client of this request. The client may ask its user first and may decline."""

    remote = True
    name = provider = "sampling"
    host: str | None = None

    def __init__(self, hint: str | None, seconds: float) -> None:
        self._hint = hint
        self._seconds = seconds

    def require_ready(self) -> None:
        self._get_sender()

    def complete(self, prompt: Prompt, *, max_tokens: int) -> Completion:
        """Return the completion of the client's model; raise ModelFailed."""
        return _read_completion(self._get_sender()(self._params(prompt, max_tokens), self._seconds))

    def _get_sender(self) -> SamplingRequest:
        ask = _asks.get()
        if isinstance(ask, str):
            raise ModelFailed(ask, unpaid=True)
        return ask

    def _params(self, prompt: Prompt, most_tokens: int) -> dict[str, Any]:
        hints = {"modelPreferences": {"hints": [{"name": self._hint}]}} if self._hint else {}
        return {
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt.full_text}}],
            "systemPrompt": prompt.system,
            "includeContext": "none",
            "maxTokens": most_tokens,
            **hints,
        }


def _read_completion(result: Mapping[str, Any]) -> Completion:
    """Parse the result; clients do not report token counts."""
    register_type(_Message)
    try:
        found = msgspec.convert(result, _Message)
    except (msgspec.ValidationError, RecursionError):
        raise ModelFailed("The connected agent sent a response that is not a message.", answered=True) from None
    parts = found.content if isinstance(found.content, list) else [found.content]
    text = "".join(part.text for part in parts)
    if not text.strip():
        raise ModelFailed("The connected agent's model sent an empty answer.", answered=True)
    known = 0 < len(found.model) <= MAX_MODEL_NAME and found.model.isprintable()
    return Completion(text, found.model if known else SamplingModel.name)
