"""Benchmarks, each relative to a floor measured in the same run."""
