"""The methods of the library, one for each operation. `methods.pyi` declares them for type checkers and editors."""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.kernel.registry.operation import python_name
from holdfast.operations import REGISTRY


class _Builder(type):
    """Builds the method of an operation on first use, so that start-up builds none."""

    _builder: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or not hasattr(cls, "_builder"):
            raise AttributeError(name)
        from holdfast.kernel.registry import library  # start-up: the command line calls no methods

        owner = next(base for base in cls.__mro__ if "_builder" in vars(base))
        library.add_method(owner, REGISTRY, name, getattr(library, cls._builder))
        return getattr(cls, python_name(name))

    def __dir__(cls) -> Iterable[str]:
        return [*super().__dir__(), *_list_names()]


def _list_names() -> Iterator[str]:
    return map(python_name, REGISTRY.entries)


class _Methods(metaclass=_Builder):
    def __getattr__(self, name: str) -> Any:
        return getattr(type(self), name).__get__(self)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *_list_names()]


class Operations(_Methods):
    """Every operation as a method."""

    _builder = "build_method"


class AsyncOperations(_Methods):
    """Every operation as a method that is awaited."""

    _builder = "build_async_method"
