"""Call the model: validate, cache and account for its answers. Every failure is a value, not an error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from os import urandom
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.features.llm import store as llm_store
from holdfast.features.usage import service as usage_service
from holdfast.features.usage.price import Use
from holdfast.kernel import prompt as prompts
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, ModelFailed
from holdfast.kernel.language_model import Completion, Model
from holdfast.kernel.model_allowance import estimate_tokens
from holdfast.kernel.prompt import Material, Prompt
from holdfast.kernel.text import content_scan
from holdfast.kernel.text import token_count as tokens

__all__ = ["Material", "ModelAnswer", "NoAnswer", "Task", "ask_model"]

T = TypeVar("T")

MAX_CHARACTERS = 400_000
"""Limit of all materials together."""
NO_MODEL = "no model is set"


class Task(NamedTuple, Generic[T]):
    """A task for the model."""

    name: str
    instructions: str
    answer: type[T]
    """A msgspec Struct: its schema is sent, and the answer must match it."""
    max_tokens: int = 4096
    """Limit of the answer."""


class ModelAnswer(NamedTuple, Generic[T]):
    """A valid answer."""

    answer: T
    model: str
    cached: bool


class NoAnswer(NamedTuple):
    """No usable answer, and why: the caller falls back to its own rules."""

    reason: str
    answered: bool = False
    """Whether the model or its host responded at all."""


def ask_model(ctx: Context, task: Task[T], material: Sequence[Material]) -> ModelAnswer[T] | NoAnswer:
    """Ask the model; return its answer or why there is none. Raises inside a transaction: a call may take minutes."""
    if ctx.store.in_transaction():
        raise RuntimeError("a model must not be called inside a transaction: it would stay open for the whole call")
    if ctx.model is None:
        return NoAnswer(NO_MODEL)
    if sum(len(one.text) for one in material) > MAX_CHARACTERS:
        return NoAnswer(f"the text exceeds the model limit of {MAX_CHARACTERS:,} characters")
    material = [_redact_material(one) for one in material]
    schema = prompts.answer_schema(task.answer)
    key = prompts.cache_key(ctx.model.name, ctx.caller.agent, task.name, task.instructions, schema, material)
    if (cached := _read_cached(ctx, task, key)) is not None:
        return cached
    try:
        ctx.model.require_ready()
        prompt = prompts.build_prompt(task.instructions, schema, material, _process_secret())
        return _ModelCall(ctx, ctx.model, task, key).run(prompt)
    except ModelFailed as error:
        return NoAnswer(error.message, answered=error.answered)


def _redact_material(one: Material) -> Material:
    """Redact secrets from a material, whatever the namespace policy: no model needs them."""
    return one if one.trusted else one._replace(text=content_scan.redact_text(one.text)[0])


@cache
def _process_secret() -> bytes:
    """The secret of this process that makes prompt delimiters unguessable."""
    return urandom(32)


def _read_cached(ctx: Context, task: Task[T], key: str) -> ModelAnswer[T] | None:
    with ctx.reading() as session:
        found = llm_store.get_answer(session, key, ctx.now())
    if found is None:
        return None
    try:
        return ModelAnswer(prompts.parse_answer(found.answer, task.answer), found.model, cached=True)
    except Invalid:
        return None


class _RejectedAnswer(NamedTuple):
    """An invalid answer and what is wrong with it."""

    text: str
    fault: str


class _ModelCall(Generic[T]):
    """One task; asked a second time if the first answer is invalid."""

    def __init__(self, ctx: Context, model: Model, task: Task[T], key: str) -> None:
        self._ctx = ctx
        self._model = model
        self._task = task
        self._key = key

    def run(self, prompt: Prompt) -> ModelAnswer[T] | NoAnswer:
        first = self._ask_once(prompt)
        if isinstance(first, ModelAnswer):
            return first
        second = self._ask_once(prompts.build_retry_prompt(prompt, first.text, first.fault))
        if isinstance(second, ModelAnswer):
            return second
        return NoAnswer(f"{self._model.name} gave two invalid answers: {second.fault}", answered=True)

    def _ask_once(self, prompt: Prompt) -> ModelAnswer[T] | _RejectedAnswer:
        """Make one call. Its usage is recorded even if it fails."""
        self._ctx.progress.check()
        needed = tokens.count_tokens(prompt.system) + tokens.count_tokens(prompt.full_text)
        most = estimate_tokens(needed, self._task.max_tokens)
        call = self._reserve(most)
        try:
            completion = self._model.complete(prompt, max_tokens=self._task.max_tokens)
        except BaseException as error:
            unpaid = isinstance(error, ModelFailed) and error.unpaid
            self._record(replace(call, spent=0 if unpaid else most, outcome="failed"))
            raise
        call = self._fill_usage(call, completion, needed)
        try:
            answer = _parse_answer(completion.text, self._task.answer)
        except Invalid as error:
            self._record(replace(call, outcome="unfit"))
            return _RejectedAnswer(
                content_scan.redact_text(completion.text)[0], content_scan.redact_text(error.message)[0]
            )
        self._record(replace(call, outcome="answered"), answer)
        return ModelAnswer(answer, completion.model, cached=False)

    def _reserve(self, most: int) -> Use:
        """Reserve tokens of the daily budget before the call, atomically across processes."""
        ctx, task, model = self._ctx, self._task.name, self._model.name
        id, now = ctx.new_id(), ctx.now()
        with ctx.store.transaction() as session:
            if usage_service.count_spent(session, now) + most > ctx.allowance.daily_tokens:
                raise ModelFailed(f"the daily budget of {ctx.allowance.daily_tokens:,} tokens is spent", unpaid=True)
            return usage_service.reserve_tokens(
                session, id=id, agent=ctx.caller.agent, task=task, model=model, tokens=most, now=now
            )

    def _fill_usage(self, call: Use, used: Completion, needed: int) -> Use:
        """Fill in what a call used; token counts that the provider did not report are our own."""
        input_tokens, output_tokens = used.input_tokens or needed, used.output_tokens or tokens.count_tokens(used.text)
        return replace(
            call,
            model=used.model,
            spent=input_tokens + output_tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=used.cached_tokens,
            cost=self._ctx.allowance.cost(input_tokens, output_tokens),
        )

    def _record(self, call: Use, answer: T | None = None) -> None:
        """Record the usage of a call and cache its answer in one transaction."""
        with self._ctx.store.transaction() as session:
            usage_service.finish_call(session, call)
            if answer is not None:
                llm_store.cache_answer(session, self._key, call.model, prompts.encode_answer(answer), self._ctx.now())


def _parse_answer(text: str, answer: type[T]) -> T:
    """Parse an answer and redact secrets in it."""
    given = prompts.parse_answer(text, answer)
    plain = msgspec.to_builtins(given)
    return (
        prompts.parse_answer(prompts.encode_answer(content_scan.redact_value(plain)), answer)
        if content_scan.find_in_value("", plain)
        else given
    )
