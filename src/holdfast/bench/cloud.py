"""Synthetic vectors: in clusters, as those of texts are, the same for the same seed."""

import numpy

DIM = 384
CLUSTERS = 500
SPREAD = 0.7
"""How far a cluster reaches, beside how far clusters are apart."""


class Cloud:
    """A source of vectors of length one."""

    def __init__(self, seed: int) -> None:
        self._centres = numpy.random.default_rng(DIM).standard_normal((CLUSTERS, DIM), "f4")
        self._random = numpy.random.default_rng(seed)

    def vectors(self, count: int) -> list[list[float]]:
        """So many more."""
        centres = self._centres[self._random.integers(0, CLUSTERS, count)]
        found = centres + SPREAD * self._random.standard_normal((count, DIM), "f4")
        return (found / numpy.linalg.norm(found, axis=1, keepdims=True)).tolist()  # type: ignore[no-any-return]
