"""Benchmarks in the package, run through its public surfaces."""
