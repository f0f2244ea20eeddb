"""Deterministic helpers of the ingest pipeline, usable on their own."""

from holdfast.features.ingest.helpers import (
    Classified,
    Evidence,
    FactKind,
    HelperOutput,
    MemoryHandle,
    classified,
    contained,
    cosine,
    cosine_pre_filter,
    fts_classifier,
    jaccard_overlap,
    preview,
    tokens,
)
from holdfast.kernel.text.similarity import jaccard

__all__ = [
    "Classified",
    "Evidence",
    "FactKind",
    "HelperOutput",
    "MemoryHandle",
    "classified",
    "contained",
    "cosine",
    "cosine_pre_filter",
    "fts_classifier",
    "jaccard",
    "jaccard_overlap",
    "preview",
    "tokens",
]
