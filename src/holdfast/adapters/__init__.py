"""The former name of `holdfast.integrations`. Imports from here keep working."""

from holdfast.integrations import __all__, __dir__, __getattr__  # noqa: F401 - what makes the imports lazy

__all__ = [*__all__]
