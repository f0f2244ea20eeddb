"""Vectors of texts: by a model that comes with Holdfast, or by a provider."""
