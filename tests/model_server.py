"""A fake model provider on a real socket: speaks all three protocols, with scripted answers."""

import json
from typing import Any

from provider_server import Behaviour, Handler, Provider, ReceivedRequest, provider

__all__ = ["Behaviour", "Handler", "Provider", "ReceivedRequest", "provider", "replying", "saying", "wrap_text"]

TOOK = (120, 30, 100)
"""Tokens of each call: input, output, cached input."""


def wrap_text(asked: ReceivedRequest, text: str) -> dict[str, Any]:
    """Wrap a text in the protocol of the request's path."""
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


def prompt_of(asked: ReceivedRequest) -> str:
    """Return the user message of a request in any protocol."""
    content = asked.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def system_of(asked: ReceivedRequest) -> str:
    if asked.path.endswith("/v1/messages"):
        return "".join(part["text"] for part in asked.body["system"])
    return str(asked.body["messages"][0]["content"])


def saying(*texts: object) -> Behaviour:
    """Answer with each value in turn, repeating the last one; values other than text are sent as JSON."""
    left = [text if isinstance(text, str) else json.dumps(text) for text in texts]

    def behave(handler: Handler, asked: ReceivedRequest) -> None:
        handler.reply(wrap_text(asked, left.pop(0) if len(left) > 1 else left[0]))

    return behave


def replying(body: object, status: int = 200, **headers: str) -> Behaviour:
    return lambda handler, _: handler.reply(body, status, **headers)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Use each behaviour in turn, repeating the last one."""
    left = list(behaviours)

    def behave(handler: Handler, asked: ReceivedRequest) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(handler, asked)

    return behave


def repeating(handler: Handler, asked: ReceivedRequest) -> None:
    """Answer with the first material, as `llm test` wants it."""
    material = prompt_of(asked).partition(">>>\n")[2].partition("\n<<<end")[0]
    handler.reply(wrap_text(asked, json.dumps({"word": material})))
