"""Recall quality: run questions with known answers through a client and measure the rankings."""
