"""Keeping a store tidy: quality report, merging, tagging, splitting, contradictions."""
