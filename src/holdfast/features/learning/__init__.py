"""Outcomes, lessons, observations and limitations."""
