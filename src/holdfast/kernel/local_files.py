"""Files that a local caller names: their paths, and errors of the system."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.kernel.context import Context
from holdfast.kernel.errors import StoreFull, StoreUnreachable


def local_path(text: str) -> Path:
    """Expand a path typed by a user."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # no user has that name: it is a file name
        return Path(text).absolute()


def must_be_local(ctx: Context, field: str) -> None:
    ctx.caller.require_local(field)


@contextmanager
def translate_os_errors(folder: Path) -> Iterator[None]:
    """Translate OSError into StoreFull or StoreUnreachable."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull from error
        raise StoreUnreachable(f"{error.filename or folder}: {error.strerror}.") from error
