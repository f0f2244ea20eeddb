"""Call the model: validate, cache and account for its answers. Every failure is a value, not an error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from os import urandom
from typing import Generic, NamedTuple, TypeVar

import msgspec

from holdfast.features.llm import store as consulted
from holdfast.features.llm.store import Outcome, Took
from holdfast.kernel import prompt as words
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, ModelFailed
from holdfast.kernel.language_model import Completion, Model
from holdfast.kernel.model_allowance import reserved
from holdfast.kernel.prompt import Material, Prompt
from holdfast.kernel.text import secrets
from holdfast.kernel.text import token_count as tokens

__all__ = ["Consulted", "Material", "Task", "Unhelped", "consult"]

T = TypeVar("T")

MOST_CHARACTERS = 400_000
"""Limit of all materials together."""
NO_MODEL = "no model is set"


class Task(NamedTuple, Generic[T]):
    """A task for the model."""

    name: str
    instructions: str
    answer: type[T]
    """A msgspec Struct: its schema is sent, and the answer must match it."""
    most_tokens: int = 4096
    """Limit of the answer."""


class Consulted(NamedTuple, Generic[T]):
    """A valid answer."""

    answer: T
    model: str
    cached: bool


class Unhelped(NamedTuple):
    """No usable answer, and why: the caller falls back to its own rules."""

    reason: str
    answered: bool = False
    """Whether the model or its host responded at all."""


def consult(hold: Hold, task: Task[T], material: Sequence[Material]) -> Consulted[T] | Unhelped:
    """Ask the model; return its answer or why there is none. Raises inside a transaction: a call may take minutes."""
    if hold.store.inside():
        raise RuntimeError("a model must not be called inside a transaction: it would stay open for the whole call")
    if hold.model is None:
        return Unhelped(NO_MODEL)
    if sum(len(one.text) for one in material) > MOST_CHARACTERS:
        return Unhelped(f"the text exceeds the model limit of {MOST_CHARACTERS:,} characters")
    material = [_sendable(one) for one in material]
    schema = words.schema_of(task.answer)
    key = words.key(hold.model.name, hold.caller.agent, task.name, task.instructions, schema, material)
    if (cached := _kept(hold, task, key)) is not None:
        return cached
    try:
        hold.model.must_be_ready()
        prompt = words.build(task.instructions, schema, material, _secret())
        return _Inquiry(hold, hold.model, task, key).answered(prompt)
    except ModelFailed as error:
        return Unhelped(error.message, answered=error.answered)


def _sendable(one: Material) -> Material:
    """Redact secrets from a material, whatever the namespace policy: no model needs them."""
    return one if one.trusted else one._replace(text=secrets.redacted(one.text)[0])


@cache
def _secret() -> bytes:
    """The secret of this process that makes prompt delimiters unguessable."""
    return urandom(32)


def _kept(hold: Hold, task: Task[T], key: str) -> Consulted[T] | None:
    with hold.reading() as session:
        found = consulted.answer(session, key, hold.now())
    if found is None:
        return None
    try:
        return Consulted(words.understood(found.answer, task.answer), found.model, cached=True)
    except Invalid:
        return None


class _Unfit(NamedTuple):
    """An invalid answer and what is wrong with it."""

    text: str
    fault: str


class _Inquiry(Generic[T]):
    """One task; asked a second time if the first answer is invalid."""

    def __init__(self, hold: Hold, model: Model, task: Task[T], key: str) -> None:
        self._hold = hold
        self._model = model
        self._task = task
        self._key = key

    def answered(self, prompt: Prompt) -> Consulted[T] | Unhelped:
        first = self._asked(prompt)
        if isinstance(first, Consulted):
            return first
        second = self._asked(words.repaired(prompt, first.text, first.fault))
        if isinstance(second, Consulted):
            return second
        return Unhelped(f"{self._model.name} gave two invalid answers: {second.fault}", answered=True)

    def _asked(self, prompt: Prompt) -> Consulted[T] | _Unfit:
        """Make one call. Its usage is recorded even if it fails."""
        self._hold.progress.check()
        needed = tokens.count(prompt.system) + tokens.count(prompt.whole)
        most = reserved(needed, self._task.most_tokens)
        id = self._reserve(most)
        try:
            completion = self._model.complete(prompt, most_tokens=self._task.most_tokens)
        except BaseException as error:
            unpaid = isinstance(error, ModelFailed) and error.unpaid
            self._settle(id, Took(self._model.name, 0 if unpaid else most, 0, 0, 0, 0, "failed"))
            raise
        used = _counted(completion, needed)
        try:
            answer = _understood(completion.text, self._task.answer)
        except Invalid as error:
            self._settle(id, self._took(used, "unfit"))
            return _Unfit(secrets.redacted(completion.text)[0], secrets.redacted(error.message)[0])
        self._settle(id, self._took(used, "answered"), answer)
        return Consulted(answer, completion.model, cached=False)

    def _reserve(self, most: int) -> str:
        """Reserve tokens of the daily budget before the call, atomically across processes."""
        hold, task, model = self._hold, self._task.name, self._model.name
        id, now = hold.new_id(), hold.now()
        with hold.store.writing() as session:
            if consulted.spent(session, now) + most > hold.allowance.daily_tokens:
                raise ModelFailed(f"the daily budget of {hold.allowance.daily_tokens:,} tokens is spent", unpaid=True)
            consulted.reserve(session, id=id, agent=hold.caller.agent, task=task, model=model, tokens=most, now=now)
        return id

    def _took(self, used: Completion, outcome: Outcome) -> Took:
        input_tokens, output_tokens = used.input_tokens, used.output_tokens
        cost = self._hold.allowance.cost(input_tokens, output_tokens)
        return Took(
            used.model, input_tokens + output_tokens, input_tokens, output_tokens, used.cached_tokens, cost, outcome
        )

    def _settle(self, id: str, took: Took, answer: T | None = None) -> None:
        """Record the usage of a call and cache its answer in one transaction."""
        with self._hold.store.writing() as session:
            consulted.settle(session, id, took)
            if answer is not None:
                consulted.keep(session, self._key, took.model, words.written(answer), self._hold.now())


def _understood(text: str, answer: type[T]) -> T:
    """Parse an answer and redact secrets in it."""
    given = words.understood(text, answer)
    plain = msgspec.to_builtins(given)
    return words.understood(words.written(secrets.cleaned(plain)), answer) if secrets.within("", plain) else given


def _counted(completion: Completion, input_tokens: int) -> Completion:
    """Fill in token counts that the provider did not report with our own."""
    prompt_tokens = completion.input_tokens or input_tokens
    output_tokens = completion.output_tokens or tokens.count(completion.text)
    return completion._replace(input_tokens=prompt_tokens, output_tokens=output_tokens)
