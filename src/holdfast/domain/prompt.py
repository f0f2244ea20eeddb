"""What a model is asked, and what of it may be believed."""

from typing import NamedTuple


class Prompt(NamedTuple):
    """One question to a model."""

    system: str
    """The task and the shape of its answer: the same bytes whenever the task is the same, so that providers cache it."""
    text: str
    """The materials."""


class Material(NamedTuple):
    """Something that a task works on."""

    label: str
    text: str
    trusted: bool = False
    """Whether we made it, and nobody outside had a hand in it."""
