"""Models that may help: asked over HTTP, or through the connected agent. None is ever needed."""
