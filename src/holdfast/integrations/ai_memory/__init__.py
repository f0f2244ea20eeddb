"""The wire dialect of ai-memory."""
