"""What people have elsewhere becomes memory: a reader for each format, and one way to keep what they read."""
