"""Quorum writes: wait until enough peers acknowledge a change."""
