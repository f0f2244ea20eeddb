"""Embeddings of memories, from the bundled model or a provider."""
