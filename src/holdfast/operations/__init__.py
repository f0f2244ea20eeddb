"""What may be asked: each operation is declared once, here, and so on every surface."""

from . import (
    about,
    agents,
    context,
    core,
    digest,
    explaining,
    feedback,
    graph,
    keys,
    lifecycle,
    moving,
    namespaces,
    past,
    recalling,
    transfer,
    upkeep,
)
from .registry import REGISTRY, Effect, Operation

__all__ = [
    "REGISTRY",
    "Effect",
    "Operation",
    "about",
    "agents",
    "context",
    "core",
    "digest",
    "explaining",
    "feedback",
    "graph",
    "keys",
    "lifecycle",
    "moving",
    "namespaces",
    "past",
    "recalling",
    "transfer",
    "upkeep",
]
