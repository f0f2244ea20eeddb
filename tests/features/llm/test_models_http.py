"""Models over HTTP: the request of each protocol, and robustness against any response."""

import socket
import traceback
from typing import Any

import pytest

from holdfast.app import choose_model
from holdfast.kernel.errors import InvalidSetting, ModelFailed
from holdfast.kernel.language_model import Completion, Model, Prompt
from holdfast.kernel.net import http_client as post
from holdfast.settings import Settings
from model_server import (
    Behaviour,
    Handler,
    ReceivedRequest,
    in_turn,
    prompt_of,
    provider,
    replying,
    saying,
    system_of,
    wrap_text,
)

KEY = "sk-hunter2"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
PROMPT = Prompt("The rules.", "A text. ", "The task.", SCHEMA)
KINDS = ["openai", "anthropic", "ollama"]


def asking(url: str, **settings: Any) -> Model:
    found = choose_model(Settings(**{"llm": "openai", "llm_model": "m", "llm_key": KEY, "llm_url": url, **settings}))
    assert found
    return found


def failure(model: Model) -> ModelFailed:
    """Return the failure; check that it does not contain the key."""
    with pytest.raises(ModelFailed) as failed:
        model.complete(PROMPT, max_tokens=50)
    assert KEY not in "".join(traceback.format_exception(failed.value)) + str(failed.value.to_json())
    assert failed.value.message.startswith("The model at 127.0.0.1:")
    return failed.value


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "FIRST_RETRY_SECONDS", 0.001)


# What they are asked


def test_an_openai_compatible_model_gets_openai_requests_with_a_schema() -> None:
    with provider(saying({"x": 1})) as server:
        found = asking(server.url).complete(PROMPT, max_tokens=50)
    assert found == Completion('{"x": 1}', "m-1", 120, 30, 100)
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "The rules."}, {"role": "user", "content": "A text. The task."}],
        "max_tokens": 50,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }


def test_anthropic_requests_cache_the_rules_and_the_text_for_the_next_task() -> None:
    with provider(saying({"x": 1})) as server:
        url = server.url.removesuffix("/v1")
        found = asking(url, llm="anthropic").complete(PROMPT, max_tokens=50)
    assert found == Completion('{"x": 1}', "m-1", 120, 30, 100)
    (asked,) = server.asked
    kept = {"cache_control": {"type": "ephemeral"}}
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in asked.headers
    assert asked.body == {
        "model": "m",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "The rules.", **kept}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "A text. ", **kept}, {"type": "text", "text": "The task."}],
            }
        ],
    }


def test_ollama_gets_its_own_request_format_with_a_large_enough_context() -> None:
    with provider(saying({"x": 1})) as server:
        model = asking(server.url.removesuffix("/v1"), llm="ollama", llm_key=None)
        found = model.complete(PROMPT, max_tokens=50)
        model.complete(PROMPT._replace(text="word " * 20_000), max_tokens=50)
    assert found == Completion('{"x": 1}', "m-1", 120, 30)
    asked, large = server.asked
    assert asked.path == "/api/chat"
    assert "Authorization" not in asked.headers
    assert asked.body["format"] == SCHEMA
    assert asked.body["stream"] is False
    assert asked.body["options"] == {"num_predict": 50, "num_ctx": 8192}
    assert large.body["options"]["num_ctx"] == 32_768
    assert (system_of(asked), prompt_of(asked)) == ("The rules.", "A text. The task.")


def picky(refuses: str) -> Behaviour:
    """A provider that rejects a field."""

    def behave(handler: Handler, asked: ReceivedRequest) -> None:
        if refuses in asked.body:
            handler.reply({"error": {"message": f"Unsupported parameter: {refuses}"}}, 400)
        else:
            handler.reply(wrap_text(asked, '{"x": 1}'))

    return behave


@pytest.mark.parametrize(
    ("refuses", "asked"),
    [
        ("response_format", ["max_tokens", "max_completion_tokens", "max_tokens", "max_tokens"]),
        ("max_tokens", ["max_tokens", "max_completion_tokens", "max_completion_tokens"]),
    ],
)
def test_a_provider_that_rejects_a_field_is_called_without_it_from_then_on(refuses: str, asked: list[str]) -> None:
    with provider(picky(refuses)) as server:
        model = asking(server.url)
        for _ in range(2):
            assert model.complete(PROMPT, max_tokens=50).text == '{"x": 1}'
    assert [next(word for word in one.body if word.startswith("max_")) for one in server.asked] == asked
    assert refuses not in server.asked[-1].body


def test_a_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": '{"x"'}, {"type": "text", "text": ": 1}"}]
    with provider(replying({"choices": [{"message": {"content": parts}}]})) as server:
        assert asking(server.url).complete(PROMPT, max_tokens=50) == Completion('{"x": 1}', "m")


# What they may do


def with_usage(**usage: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "{}"}}], "usage": usage}


def test_impossible_numbers_and_names_in_an_answer_are_ignored() -> None:
    body = with_usage(prompt_tokens=10**17, completion_tokens=10**17) | {"model": "x\x1b[2J" * 50}
    with provider(replying(body)) as server:
        assert asking(server.url).complete(PROMPT, max_tokens=50) == Completion("{}", "m", 10**7, 10**7)


BAD_ANSWERS = {
    "html": b"<!DOCTYPE html><title>Sign in</title>",
    "truncated": b'{"choices": [{"message": {"content": "{}"',
    "not utf-8": b'{"choices": "\xff\xfe"}',
    "another shape": {"completion": "x"},
    "an error with 200": {"error": {"message": f"Incorrect API key provided: {KEY}"}},
    "no choices": {"choices": []},
    "no content": {"choices": [{"message": {"content": None, "refusal": "I cannot."}}]},
    "negative usage": with_usage(prompt_tokens=-1),
    "deep": b'{"x": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
}


@pytest.mark.parametrize("body", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_an_invalid_answer_is_an_error_and_may_be_billed(body: object) -> None:
    with provider(replying(body)) as server:
        failed = failure(asking(server.url))
    assert "sent a" in failed.message
    assert not failed.retryable
    assert not failed.unpaid
    assert failed.answered
    assert len(server.asked) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_protocol_rejects_responses_of_the_others(kind: str) -> None:
    with provider(replying({"output": "x"})) as server:
        assert "does not match its protocol" in failure(asking(server.url, llm=kind)).message


@pytest.mark.parametrize(
    ("status", "tries", "retryable", "said"),
    [
        (400, 3, False, "HTTP 400"),
        (401, 1, False, "set llm_key"),
        (403, 1, False, "set llm_key"),
        (404, 1, False, "llm_url and llm_model"),
        (429, 3, True, "HTTP 429"),
        (500, 3, True, "HTTP 500"),
        (529, 3, True, "HTTP 529"),
        (302, 1, False, "not followed"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_gives_advice_and_is_not_billed(
    kind: str, status: int, tries: int, retryable: bool, said: str
) -> None:
    with provider(replying({"error": f"no {KEY}"}, status, Location="http://127.0.0.1:1/")) as server:
        failed = failure(asking(server.url, llm=kind))
    assert said in failed.message
    assert (failed.retryable, failed.unpaid, failed.answered) == (retryable, True, True)
    assert len(server.asked) == (tries if retryable or kind == "openai" else 1)


def test_a_provider_with_a_temporary_error_is_retried() -> None:
    busy = replying({}, 429, Retry_After="0")
    with provider(in_turn(busy, replying({}, 503), saying({"x": 1}))) as server:
        assert asking(server.url).complete(PROMPT, max_tokens=50).text == '{"x": 1}'
    assert len(server.asked) == 3


@pytest.mark.parametrize("after", ["3600", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_pause_longer_than_the_time_limit_is_not_awaited(after: str) -> None:
    with provider(replying({}, 429, Retry_After=after)) as server:
        failed = failure(asking(server.url))
    assert "for " in failed.message
    assert failed.retryable
    assert len(server.asked) == 1


@pytest.mark.parametrize("after", ["soon", "-1", "1e9", "", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_an_invalid_retry_after_is_ignored(after: str) -> None:
    with provider(in_turn(replying({}, 429, Retry_After=after), saying({"x": 1}))) as server:
        assert asking(server.url).complete(PROMPT, max_tokens=50).text == '{"x": 1}'


def silent(handler: Handler, _: ReceivedRequest) -> None:
    handler.server.closing.wait()


def dripping(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b" ")


@pytest.mark.parametrize(("behave", "answered"), [(silent, False), (dripping, True)])
def test_an_endless_answer_times_out_once_and_may_be_billed(behave: Behaviour, answered: bool) -> None:
    with provider(behave) as server:
        model = asking(server.url, llm_timeout_secs=0.2)
        late, after = failure(model), failure(model)
    assert "did not answer within 0.2 seconds" in late.message
    assert (late.retryable, late.unpaid, late.answered) == (True, False, answered)
    assert "is skipped for" in after.message
    assert after.unpaid
    assert len(server.asked) == 1


def endless(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b" " * 65_536)


def short(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"choices": [')


def hanging_up(handler: Handler, _: ReceivedRequest) -> None:
    handler.close_connection = True


def no_http(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"220 mail.example ready\r\n")
    handler.close_connection = True


@pytest.mark.parametrize(
    ("behave", "said", "answered"),
    [
        (endless, "bytes", True),
        (short, "closed the connection in the middle", True),
        (no_http, "does not speak HTTP", True),
        (hanging_up, "closed the connection, or", False),
    ],
)
def test_a_truncated_answer_is_not_retried_because_it_may_be_billed(
    behave: Behaviour, said: str, answered: bool
) -> None:
    with provider(behave) as server:
        failed = failure(asking(server.url))
    assert said in failed.message
    assert (failed.unpaid, failed.answered) == (False, answered)
    assert len(server.asked) == 1


def test_an_unreachable_model_is_not_billed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failed = failure(asking(f"http://127.0.0.1:{port}"))
    assert "cannot be reached" in failed.message
    assert (failed.retryable, failed.unpaid, failed.answered) == (True, True, False)


def test_a_model_recovers_automatically() -> None:
    with provider(replying({}, 503)) as server:
        model = asking(server.url)
        failure(model)
        server.behave = saying({"x": 1})
        assert model.complete(PROMPT, max_tokens=50).text == '{"x": 1}'


# How it is chosen


def test_no_model_is_chosen_by_default() -> None:
    assert choose_model(Settings()) is None


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"llm": "openai"}, "llm_model"),
    "no url": ({"llm": "ollama", "llm_model": "m", "llm_url": "localhost:11434"}, "llm_url"),
    "a password in the url": ({"llm": "openai", "llm_model": "m", "llm_url": "http://u:secret@h/"}, "llm_key"),
    "a key with a line end": ({"llm": "anthropic", "llm_model": "m", "llm_key": "secret\n"}, "llm_key"),
    "a model with a line end": ({"llm": "openai", "llm_model": "m\n"}, "llm_model"),
}


@pytest.mark.parametrize(("values", "named"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_an_unusable_setting_is_named_and_its_value_not_repeated(values: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named) as refused:
        choose_model(Settings(**values))
    assert "secret" not in str(refused.value)


def test_displayed_settings_do_not_contain_the_key() -> None:
    assert KEY not in repr(Settings(llm_key=KEY, llm_url=f"http://u:{KEY}@h"))
