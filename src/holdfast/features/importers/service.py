"""Take in what people have elsewhere, whatever it is: found, read and kept."""

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
    """Files of the export that are of no format, or of another."""
    report: Report


def from_path(hold: Hold, path: Path, form: Format | None, options: Options) -> Mined:
    """Everything that lies at a path."""
    with places.at(path) as place:
        return _from_place(hold, place, form, options)


def from_text(hold: Hold, text: str, form: Format | None, options: Options) -> Mined:
    """Everything that a text holds which came with a request."""
    return _from_place(hold, places.inline(text), form, options)


def _from_place(hold: Hold, place: Place, form: Format | None, options: Options) -> Mined:
    named = form is not None
    if form is None:
        form, pieces = formats.detect(place)
    else:
        pieces = formats.of_format(place, form)
    keeper = Keeper(hold, form, options)
    for problem in place.problems:
        keeper.report.problem(problem)
    told = _counted(hold, sum(piece.size for piece in pieces), form)
    report = keeper.take(formats.read(form, pieces, told))
    if named and report.empty:
        formats.must_not_be_empty(form)
    return Mined(form, len(pieces), len(place.pieces) - len(pieces), report)


def _counted(hold: Hold, total: int, form: str) -> Callable[[int], None]:
    """Adds up the bytes that were read, and tells how many of all that is."""
    done = 0

    def told(number: int) -> None:
        nonlocal done
        done = min(done + number, total)
        hold.progress(done, total, f"mining {form}")

    return told
