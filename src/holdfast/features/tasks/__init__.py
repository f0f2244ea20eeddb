"""Scheduled tasks with leases."""
