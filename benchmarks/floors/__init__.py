"""Floors of the benchmarks: the same work without Holdfast."""
