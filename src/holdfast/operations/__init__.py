"""What may be asked: each operation is declared once, here, and so on every surface."""

from . import core
from .registry import REGISTRY, Effect, Operation

__all__ = ["REGISTRY", "Effect", "Operation", "core"]
