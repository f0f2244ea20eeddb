"""The deterministic helpers of a pipeline, for whoever wants them by themselves."""

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
    jaccard,
    jaccard_overlap,
    preview,
    tokens,
)

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
