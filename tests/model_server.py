"""A provider of models behind a real socket, which speaks all three protocols and answers as a test wants it to."""

import json
from typing import Any

from provider_server import Asked, Behaviour, Handler, Provider, provider

__all__ = ["Asked", "Behaviour", "Handler", "Provider", "provider", "replying", "said", "saying"]

TOOK = (120, 30, 100)
"""Tokens that each call takes: of the question, of the answer, and of the question from the cache."""


def said(asked: Asked, text: str) -> dict[str, Any]:
    """A text as the protocol of the path wraps it."""
    given, made, cached = TOOK
    if asked.path.endswith("/chat/completions"):
        usage = {"prompt_tokens": given, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": cached}}
        message = {"role": "assistant", "content": text}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "model": "m-1", "usage": usage}
    if asked.path.endswith("/v1/messages"):
        usage = {"input_tokens": given - cached, "output_tokens": made, "cache_read_input_tokens": cached}
        return {"type": "message", "content": [{"type": "text", "text": text}], "model": "m-1", "usage": usage}
    counts = {"prompt_eval_count": given, "eval_count": made}
    return {"model": "m-1", "message": {"role": "assistant", "content": text}, "done": True, **counts}


def prompt_of(asked: Asked) -> str:
    """The user's part of what a model was asked, in whatever protocol."""
    content = asked.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def system_of(asked: Asked) -> str:
    if asked.path.endswith("/v1/messages"):
        return "".join(part["text"] for part in asked.body["system"])
    return str(asked.body["messages"][0]["content"])


def saying(*texts: object) -> Behaviour:
    """Answer with each of some values in turn, and with the last one from then on; what is no text goes as JSON."""
    left = [text if isinstance(text, str) else json.dumps(text) for text in texts]

    def behave(handler: Handler, asked: Asked) -> None:
        handler.reply(said(asked, left.pop(0) if len(left) > 1 else left[0]))

    return behave


def replying(body: object, status: int = 200, **headers: str) -> Behaviour:
    return lambda handler, _: handler.reply(body, status, **headers)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave in one way after the other; the last one stays."""
    left = list(behaviours)

    def behave(handler: Handler, asked: Asked) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(handler, asked)

    return behave


def repeating(handler: Handler, asked: Asked) -> None:
    """Answer with the first material, as `llm test` wants it."""
    material = prompt_of(asked).partition(">>>\n")[2].partition("\n<<<end")[0]
    handler.reply(said(asked, json.dumps({"word": material})))
