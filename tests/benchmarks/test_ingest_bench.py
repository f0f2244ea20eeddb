"""The ingest benchmark runs and measures the right quantities."""

import pytest

from benchmarks import ingest


@pytest.mark.full
def test_ingest_is_measured_against_embeddings_and_bare_rows(
    vectors_made: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ingest, "CENTRES", 5)
    assert ingest.main(["12", "40"]) in (0, 1)
    printed = capsys.readouterr().out
    assert "12 segments into 40 memories" in printed
    assert "{'new': 12}" in printed
    assert "the same document again" in printed


def test_the_generated_document_has_the_requested_number_of_segments() -> None:
    from holdfast.features.ingest.split_document import parse_outline

    assert len(parse_outline(ingest.document(25)).segments) == 25
