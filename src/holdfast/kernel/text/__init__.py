"""Text functions: words, passages, similarity, token counts."""
