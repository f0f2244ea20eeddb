"""Conversations: turns in order, summaries, onboarding."""
