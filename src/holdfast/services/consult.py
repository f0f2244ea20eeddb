"""Ask a model, if one is set: its answer is checked, kept and accounted for, and never needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from secrets import token_bytes
from typing import Any, Generic, NamedTuple, TypeVar

from ..domain import prompt as words
from ..domain import tokens
from ..domain.errors import Invalid, ModelFailed
from ..domain.prompt import Material, Prompt
from ..domain.spending import reserved
from ..llm.port import Completion, Model
from ..storage import consulted
from ..storage.consulted import Outcome, Took
from .hold import Hold

__all__ = ["Consulted", "Material", "Task", "Unhelped", "consult"]

T = TypeVar("T")

MOST_CHARACTERS = 400_000
"""Of the materials together."""
NO_MODEL = "no model is set"


class Task(NamedTuple, Generic[T]):
    """What a model is to do."""

    name: str
    instructions: str
    answer: type[T]
    """A msgspec Struct: its schema is sent, and what comes back must fit it."""
    most_tokens: int = 4096
    """Of the answer."""


class Consulted(NamedTuple, Generic[T]):
    """What the model answered, as the task wants it."""

    answer: T
    model: str
    cached: bool


class Unhelped(NamedTuple):
    """No answer, and why: the caller goes by its own rules then."""

    reason: str
    answered: bool = False
    """Whether the model said something, but nothing that fits."""


def consult(hold: Hold, task: Task[T], material: Sequence[Material]) -> Consulted[T] | Unhelped:
    """A model's answer to a task, or why there is none. Never inside a transaction: a model may take minutes."""
    if hold.store.inside():
        raise RuntimeError("a model is consulted inside a transaction, which would hold it open for as long")
    if hold.model is None:
        return Unhelped(NO_MODEL)
    if sum(len(one.text) for one in material) > MOST_CHARACTERS:
        return Unhelped(f"the text is longer than the {MOST_CHARACTERS:,} characters that a model is asked about")
    asked = _Asked(hold, hold.model, task)
    schema = words.schema_of(task.answer)
    key = words.key(hold.model.name, hold.caller.agent, task.name, task.instructions, schema, material)
    if (kept := _kept(hold, task, key)) is not None:
        return kept
    try:
        return asked.answered(words.build(task.instructions, schema, material, _secret()), key)
    except ModelFailed as error:
        return Unhelped(error.message)


@cache
def _secret() -> bytes:
    """By which the codes of this process cannot be guessed."""
    return token_bytes(32)


def _kept(hold: Hold, task: Task[T], key: str) -> Consulted[T] | None:
    with hold.reading() as session:
        found = consulted.answer(session, key, hold.now())
    if found is None:
        return None
    try:
        return Consulted(words.understood(found.answer, task.answer), found.model, cached=True)
    except Invalid:
        return None


class _Asked(Generic[T]):
    """One task, asked once or, if the answer does not fit, twice."""

    def __init__(self, hold: Hold, model: Model, task: Task[T]) -> None:
        self._hold = hold
        self._model = model
        self._task = task

    def answered(self, prompt: Prompt, key: str) -> Consulted[T] | Unhelped:
        fault = ""
        for _ in range(2):
            self._hold.progress.check()
            if (full := self._ask(prompt, key)) is None:
                return Unhelped(f"the daily budget of {self._hold.allowance.daily_tokens:,} tokens is spent")
            answer, completion, fault = full
            if answer is not None:
                return Consulted(answer, completion.model, cached=False)
            prompt = words.repaired(prompt, completion.text, fault)
        return Unhelped(f"twice, what {self._model.name} answered did not fit: {fault}", answered=True)

    def _ask(self, prompt: Prompt, key: str) -> tuple[T | None, Completion, str] | None:
        """An answer or what is wrong with it; None if there is no budget for it. What it took is written down."""
        needed = tokens.count(prompt.system) + tokens.count(prompt.whole)
        most = reserved(needed, self._task.most_tokens)
        if (id := self._reserve(most)) is None:
            return None
        try:
            completion = self._model.complete(prompt, most_tokens=self._task.most_tokens)
        except BaseException as error:
            unpaid = isinstance(error, ModelFailed) and error.unpaid
            self._settle(id, self._took(Completion("", self._model.name), "failed", spent=0 if unpaid else most))
            raise
        answer, fault = self._understood(completion.text)
        used = _used(completion, needed)
        took = self._took(used, "unfit" if answer is None else "answered", used.input_tokens + used.output_tokens)
        self._settle(id, took, (key, completion.model, answer) if answer is not None else None)
        return answer, completion, fault

    def _understood(self, text: str) -> tuple[T | None, str]:
        try:
            return words.understood(text, self._task.answer), ""
        except Invalid as error:
            return None, error.message

    def _reserve(self, most: int) -> str | None:
        """Set tokens of the day aside before they are used, whoever else does so at the same time."""
        hold = self._hold
        id, now = hold.new_id(), hold.now()
        with hold.store.writing() as session:
            if consulted.spent(session, now) + most > hold.allowance.daily_tokens:
                return None
            task, model = self._task.name, self._model.name
            consulted.reserve(session, id=id, agent=hold.caller.agent, task=task, model=model, tokens=most, now=now)
        return id

    def _took(self, used: Completion, outcome: Outcome, spent: int) -> Took:
        given, made = used.input_tokens, used.output_tokens
        cost = self._hold.allowance.cost(given, made)
        return Took(used.model, spent, given, made, used.cached_tokens, cost, outcome)

    def _settle(self, id: str, took: Took, keep: tuple[str, str, Any] | None = None) -> None:
        import msgspec

        with self._hold.store.writing() as session:
            consulted.settle(session, id, took)
            if keep is not None:
                key, model, answer = keep
                consulted.keep(session, key, model, msgspec.json.encode(answer).decode(), self._hold.now())


def _used(completion: Completion, input_tokens: int) -> Completion:
    """With what it took as we count it, where the provider does not say."""
    given = completion.input_tokens or input_tokens
    return completion._replace(
        input_tokens=given, output_tokens=completion.output_tokens or tokens.count(completion.text)
    )
