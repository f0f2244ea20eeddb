"""Webhooks: subscriptions and signed deliveries."""
