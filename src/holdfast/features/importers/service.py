"""Import a source: detect its format, read it, store its records."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.features.importers import sources as places
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import Format, formats
from holdfast.features.importers.report import Report
from holdfast.features.importers.sources import Place
from holdfast.features.importers.writer import Keeper
from holdfast.kernel.context import Hold


class Mined(NamedTuple):
    form: str
    files: int
    passed_over: int
    """Files of an unknown or another format."""
    report: Report


def from_path(hold: Hold, path: Path, form: Format | None, options: Options) -> Mined:
    """Import the file, folder or zip at a path."""
    with places.at(path) as place:
        return _from_place(hold, place, form, options)


def from_text(hold: Hold, text: str, form: Format | None, options: Options) -> Mined:
    """Import the text of a request."""
    return _from_place(hold, places.inline(text), form, options)


def _from_place(hold: Hold, place: Place, form: Format | None, options: Options) -> Mined:
    is_explicit = form is not None
    if form is None:
        form, pieces = formats.detect(place)
    else:
        pieces = formats.of_format(place, form)
    keeper = Keeper(hold, form, options)
    for problem in place.problems:
        keeper.report.problem(problem)
    on_read = _counted(hold, sum(piece.size for piece in pieces), form)
    report = keeper.take(formats.read(form, pieces, on_read))
    if is_explicit and report.empty:
        formats.must_not_be_empty(form)
    return Mined(form, len(pieces), len(place.pieces) - len(pieces), report)


def _counted(hold: Hold, total: int, form: str) -> Callable[[int], None]:
    """Build a callback that reports the bytes read so far as progress."""
    bytes_read = 0

    def told(number: int) -> None:
        nonlocal bytes_read
        bytes_read = min(bytes_read + number, total)
        hold.progress(bytes_read, total, f"importing {form}")

    return told
