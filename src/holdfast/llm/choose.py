"""The model that the settings name. None is imported before it is chosen, and none is asked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..settings import Settings

if TYPE_CHECKING:
    from .port import Model


def chosen(settings: Settings) -> Model | None:
    """The model in force; None if none is set."""
    return None
