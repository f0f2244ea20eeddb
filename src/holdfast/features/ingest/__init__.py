"""Document ingest: chunk, deduplicate, store with source positions."""
