"""Text: words, chunks, similarity, token counts. Pure functions."""
