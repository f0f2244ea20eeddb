"""Import envelope rows found in a source, through the envelope importer."""

from holdfast.features.importers.model import EnvelopeRows
from holdfast.features.importers.report import Outcome, Report
from holdfast.features.transfer import importer
from holdfast.features.transfer.model import Options
from holdfast.features.transfer.model import Outcome as ImportOutcome
from holdfast.kernel.context import Context

_IMPORT_OUTCOMES: dict[Outcome, ImportOutcome] = {
    "stored": "imported",
    "updated": "merged",
    "unchanged": "unchanged",
    "left": "older",
}


def import_rows(ctx: Context, rows: EnvelopeRows, report: Report, *, dry_run: bool) -> None:
    """Import rows. An admin keeps the owners of the file; other callers become owner and need write permission."""
    if dry_run and rows.is_page and not {"memories", "archived"} & rows.envelope.keys():
        report.links += len(rows.envelope.get("links", ()))  # a dry run has not stored the pages with their ends
        return
    decides = ctx.caller.has_right("admin")
    options = Options(trust_source=decides, check_rights=not decides)
    result = importer.import_envelope(ctx, {"memories": [], **rows.envelope}, options, dry_run=dry_run)
    for name in result.counts.keys() & {"memories", "archived"}:
        counts = result.counts[name]
        for outcome, import_outcome in _IMPORT_OUTCOMES.items():
            report.outcomes[outcome] += counts[import_outcome]
        report.kinds["memory"] += counts["imported"]
    report.links += result.counts["links"]["imported"] if "links" in result.counts else 0
    for one in result.rejected:
        report.add_error(f"{rows.where} {one.array}[{one.index}]", one.error)
